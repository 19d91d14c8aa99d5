"""The requests for vLLM's goldens, and its responses without what differs between runs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx

_SURE = {"model": "tiny", "max_tokens": 5, "allowed_token_ids": [68]}
"""It may say one letter alone: what random weights choose is not the same on every processor."""
LETTER = ':"a"'
_CHAT = {**_SURE, "messages": [{"role": "user", "content": "a slice"}]}
_TEXT = {**_SURE, "prompt": "a slice"}
_TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}]
_CHATS, _TEXTS = "/v1/chat/completions", "/v1/completions"

ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (_CHATS, _CHAT),
    "chat in events": (_CHATS, {**_CHAT, "stream": True}),
    "chat in events with usage": (_CHATS, {**_CHAT, "stream": True, "stream_options": {"include_usage": True}}),
    "text": (_TEXTS, _TEXT),
    "text in events": (_TEXTS, {**_TEXT, "stream": True}),
    "several texts": (_TEXTS, {**_TEXT, "prompt": ["a slice", "a key"]}),
    "several answers": (_CHATS, {**_CHAT, "n": 2}),
    "no answers": (_CHATS, {**_CHAT, "n": 0}),
    "colder than cold": (_CHATS, {**_CHAT, "temperature": -1}),
    "no messages": (_CHATS, {**_CHAT, "messages": []}),
    "messages left out": (_CHATS, {"model": "tiny"}),
    "tokens that are not a number": (_CHATS, {**_CHAT, "max_tokens": "many"}),
    "more tokens than it has room for": (_CHATS, {**_CHAT, "max_tokens": 1_000_000}),
    "tools": (_CHATS, {**_CHAT, "tools": _TOOLS}),
    "embeddings": ("/v1/embeddings", {"model": "tiny", "input": "a slice"}),
}


def plain(answer: httpx.Response) -> dict[str, Any]:
    """Status, content type and body."""
    text = re.sub(r'"id":"(chatcmpl|cmpl)-[0-9a-f-]+"', r'"id":"\1-ID"', answer.text)
    text = re.sub(r'"created":\d+', '"created":0', text)
    text = re.sub(r'"system_fingerprint":"[^"]*"', '"system_fingerprint":"PRINT"', text)
    return {"status": answer.status_code, "type": answer.headers["content-type"], "text": text}
