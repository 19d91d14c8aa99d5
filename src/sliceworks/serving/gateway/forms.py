"""How answers of OpenAI's chat and completions are written, whole and in pieces."""

from __future__ import annotations

from typing import Any

import orjson

from sliceworks.base import clock

DONE = b"data: [DONE]\n\n"


def why_ended(said: int, most: int | None) -> str:
    """Why an answer of so many tokens ended, in OpenAI's words: by itself, or because no more were wanted."""
    return "length" if most and said >= most else "stop"


class Form:
    """How answers are written. Of several to one request each has its `index`."""

    def __init__(self, name: str, model: str, *, chat: bool, index: int = 0) -> None:
        self._chat = chat
        self._index = index
        kind = "chat.completion" if chat else "text_completion"
        self._base = {"id": name, "object": kind, "created": int(clock.now().timestamp()), "model": model}
        streamed = {**self._base, "object": f"{kind}.chunk" if chat else kind}
        opening = {"index": index, **({"delta": {"content": "@"}} if chat else {"text": "@"})}
        # All pieces are alike but for one word: what stands before and after it is written once.
        whole = orjson.dumps({**streamed, "choices": [{**opening, "logprobs": None, "finish_reason": None}]})
        self._before, self._after = (b"data: " + whole + b"\n\n").split(b'"@"')
        self._streamed = streamed
        self._opened = not chat

    def piece(self, word: str) -> bytes:
        """One token as an event. The first of a chat says whose words they are."""
        if self._opened:
            return self._before + orjson.dumps(word) + self._after
        self._opened = True
        delta = {"role": "assistant", "content": word}
        return self.event([{"index": self._index, "delta": delta, "logprobs": None, "finish_reason": None}])

    def event(self, choices: list[dict[str, Any]], usage: dict[str, int] | None = None) -> bytes:
        """Any event."""
        return b"data: " + orjson.dumps({**self._streamed, "choices": choices, **({"usage": usage} if usage else {})}) + b"\n\n"

    def stop(self, reason: str) -> bytes:
        """The event that says why the answer ends."""
        choice: dict[str, Any] = {"index": self._index, "finish_reason": reason, "logprobs": None}
        return self.event([{**choice, "delta": {}} if self._chat else {**choice, "text": ""}])

    def choice(self, text: str, reason: str) -> dict[str, Any]:
        """A part of the whole answer."""
        said = {"message": {"role": "assistant", "content": text}} if self._chat else {"text": text}
        return {"index": self._index, **said, "logprobs": None, "finish_reason": reason}

    def whole(self, choices: list[dict[str, Any]], usage: dict[str, int]) -> bytes:
        """The whole answer."""
        return orjson.dumps({**self._base, "choices": choices, "usage": usage})
