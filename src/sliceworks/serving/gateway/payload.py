"""Payloads: the model of a request, usage of a response, completions, stop sequences."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson

from sliceworks.base import budget, clock
from sliceworks.base.http.messages import HttpError, bad_request
from sliceworks.serving.gateway import token_limit

_MODEL_FIELD = re.compile(rb'"model"[ \t\r\n]*:[ \t\r\n]*"([^"\\]*)"')
_MODEL_NAME, _UNICODE_ESCAPE = b'"model"', b"\\u00"
_OBJECT_START = re.compile(rb'[ \t\r\n]*\{[ \t\r\n]*"')
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_TAIL_SIZE = 2048
_LARGE_BYTES = 128 * 1024
"""Larger bodies are searched for the model in a thread."""
_MAX_DELIMITERS = 500_000
_CPU_SECONDS = 5.0
_CANONICAL = {name.replace("_", ""): name for name in ("model", "model_id", "prompt", *token_limit.FIELDS)}
"""The fields that the gateway reads, by their names without case and underscores."""
_EXACT_FIELDS = {name.encode() for name in _CANONICAL.values()}
_READ_FIELDS = re.compile(
    b'"(' + b"|".join(b"[_-]?".join(part.encode() for part in name.split("_")) for name in _CANONICAL.values()) + b')"',
    re.IGNORECASE,
)
_ESCAPED_LETTER = re.compile(rb"\\u(?:00|017f|212a)", re.IGNORECASE)
_FOLDING_LETTERS = ("\u017f".encode(), "\u212a".encode())
"""The letters beyond ASCII that match `s` and `k` in any case."""


@dataclass(frozen=True, slots=True)
class ModelField:
    """The model named by a request body, and the position of its name if it can be replaced in place."""

    model: str | None
    span: tuple[int, int] | None = None


async def read_model(body: bytes) -> ModelField:
    """Find the model in a request body; other requests are served while a large body is searched."""
    if len(body) < _LARGE_BYTES:
        return find_model(body)
    return await budget.run_in_thread(partial(find_model, body), _CPU_SECONDS)


def find_model(body: bytes) -> ModelField:
    """Find the model in a request body. Long bodies are parsed only if neither their start nor their end tells."""
    check_fields(body)
    if len(body) > 2 * _TAIL_SIZE and (start := _OBJECT_START.match(body)) is not None:
        field = _find_in_tail(body) or _find_first(body, start.end() - 1)
        if field is not None:
            return field
    return _parse_model(body)


def _find_in_tail(body: bytes) -> ModelField | None:
    """The model if it is the last field of that name and near the end; None if only parsing can tell."""
    at = body.rfind(_MODEL_NAME, len(body) - _TAIL_SIZE)
    if at < 0 or body[at - 1] == 0x5C:
        return None
    match = _MODEL_FIELD.match(body, at)
    tail = body[at:]
    # A field name may also be written with escapes.
    if match is None or not tail.isascii() or _UNICODE_ESCAPE in tail:
        return None
    bare = _STRINGS.sub(b"", tail)
    closed, opened = bare.count(b"}") + bare.count(b"]"), bare.count(b"{") + bare.count(b"[")
    if closed - opened != 1 or b'"' in bare or not bare.rstrip().endswith(b"}"):
        return None
    return ModelField(match[1].decode(), match.span(1))


def _find_first(body: bytes, at: int) -> ModelField | None:
    """The model if it is the first field and the body cannot contain another field of that name at any depth."""
    match = _MODEL_FIELD.match(body, at)
    if match is None or not match[1].isascii() or body.rfind(_MODEL_NAME) != at or not body[-64:].rstrip().endswith(b"}"):
        return None
    # Searching for one byte is much faster than for several, and many bodies contain no escapes.
    if b"\\" in body and body.rfind(_UNICODE_ESCAPE) >= 0:
        return None
    return ModelField(match[1].decode(), match.span(1))


def _parse_model(body: bytes) -> ModelField:
    model = parse_object(body).get("model")
    if not isinstance(model, str):
        return ModelField(None)
    match = _MODEL_FIELD.search(body)
    is_unique = match is not None and match[1] == model.encode() and body.count(_MODEL_NAME) == 1
    return ModelField(model, match.span(1) if match is not None and is_unique else None)


def parse_object(body: bytes) -> dict[str, Any]:
    """Parse a body that must be a JSON object."""
    _check_size(body)
    try:
        data = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise bad_request(f"body: invalid JSON: {str(error).partition(':')[0]}") from error
    if not isinstance(data, dict):
        raise bad_request("body: must be a JSON object")
    return data


def check_fields(body: bytes) -> None:
    """Reject a body in which a parser could find another value of a field that the gateway reads.

    Parsers disagree about duplicate fields, and Go's match names in any case: with `{"model": "a", "Model": "b"}` the gateway
    would authorize `a` and the backend would run `b`.
    """
    _check_size(body)
    if not _may_be_ambiguous(body):
        return
    parse_object(body)
    try:
        pairs = json.loads(body, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError) as error:
        raise bad_request("body: nested too deeply") from error
    _check_pairs(pairs, "")


def _check_size(body: bytes) -> None:
    """Reject a body whose parsing takes more than a fraction of a second. Long strings, such as images, are cheap."""
    if len(body) > _MAX_DELIMITERS and sum(map(body.count, (b'"', b",", b"[", b"{"))) > _MAX_DELIMITERS:
        raise HttpError(413, "request_too_large", f"body: more than {_MAX_DELIMITERS:,} quotes, commas and brackets")


class _Pairs(list[tuple[str, Any]]):
    """The fields of a JSON object, in order and with duplicates."""


def _may_be_ambiguous(body: bytes) -> bool:
    """Whether only parsing can tell. Most bodies contain each name once, in lower case, and no escaped or folding letter."""
    names = _READ_FIELDS.findall(body)
    if len(names) != len(set(names)) or any(name not in _EXACT_FIELDS for name in names):
        return True
    if b"\\" in body and _ESCAPED_LETTER.search(body) is not None:
        return True
    return any(letter in body for letter in _FOLDING_LETTERS)


def _check_pairs(pairs: _Pairs, prefix: str) -> None:
    seen: dict[str, str] = {}
    for name, value in pairs:
        field = _CANONICAL.get(token_limit.fold(name))
        if field is None:
            continue
        if field in seen:
            raise bad_request(f"{prefix}{name}: duplicate field", param=f"{prefix}{name}")
        if name != field:
            raise bad_request(f"{prefix}{name}: unknown field, did you mean {field!r}?", param=f"{prefix}{name}")
        seen[field] = name
        if isinstance(value, _Pairs) and prefix.count(".") < 2:
            _check_pairs(value, f"{prefix}{name}.")


def replace_model(body: bytes, field: ModelField, name: str) -> bytes:
    """The body with another model name."""
    if field.model == name:
        return body
    if field.span is not None:
        start, end = field.span
        return b"".join((body[:start], name.encode(), body[end:]))
    return orjson.dumps({**parse_object(body), "model": name})


_PROMPT_TOKENS = re.compile(rb'"(?:prompt_tokens|input_tokens)"\s*:\s*([0-9]+)')
_COMPLETION_TOKENS = re.compile(rb'"(?:completion_tokens|output_tokens)"\s*:\s*([0-9]+)')
_BYTES_PER_TOKEN = 4
_EXTRA_EVENTS = {"chat": 2, "text_completion": 1}
"""Events of a stream that carry no token: `[DONE]`, and in a chat the one with the finish reason."""


def estimate_tokens(body: bytes) -> int:
    """Estimate the tokens of a prompt from its size."""
    return len(body) // _BYTES_PER_TOKEN


def read_usage(body: bytes) -> tuple[int, int] | None:
    """Prompt and completion tokens that a response reports at its end; None if it does not."""
    at = body.rfind(b'"usage"')
    if at < 0:
        return None
    prompt, completion = _PROMPT_TOKENS.search(body, at), _COMPLETION_TOKENS.search(body, at)
    return (int(prompt[1]), int(completion[1]) if completion else 0) if prompt else None


class UsageMeter:
    """Counts the events of a stream (or its chunks, if it has no events) and keeps the usage that it reports.

    It counts `data:` instead of decoding events, because it runs for every token of every stream.
    """

    __slots__ = ("_usage", "events", "first", "last")

    def __init__(self) -> None:
        self.events = 0
        self.first = self.last = 0.0
        self._usage: tuple[int, int] | None = None

    def observe(self, chunk: bytes, now: float) -> None:
        """Count the events of a chunk."""
        if not self.events:
            self.first = now
        self.last = now
        self.events += chunk.count(b"data:")
        self.observe_usage(chunk)

    def observe_usage(self, chunk: bytes) -> None:
        """Keep the usage that a chunk reports."""
        self._usage = read_usage(chunk) or self._usage

    def tokens(self, prompt_tokens: int, operation: str) -> tuple[int, int]:
        """Prompt and completion tokens: as reported, else the given estimate and one for each event that can be a token."""
        return self._usage or (prompt_tokens, max(0, self.events - _EXTRA_EVENTS.get(operation, 0)))


DONE = b"data: [DONE]\n\n"


def finish_reason(tokens: int, limit: int | None) -> str:
    """OpenAI's finish reason of a completion with so many tokens."""
    return "length" if limit and tokens >= limit else "stop"


class CompletionWriter:
    """Writes completions in OpenAI's format, whole or as chunks. `index` is the choice's index in the response."""

    def __init__(self, completion_id: str, model: str, *, chat: bool, index: int = 0) -> None:
        self._chat = chat
        self._index = index
        kind = "chat.completion" if chat else "text_completion"
        self._base = {"id": completion_id, "object": kind, "created": int(clock.now().timestamp()), "model": model}
        self._chunk_base = {**self._base, "object": f"{kind}.chunk" if chat else kind}
        choice = {"index": index, **({"delta": {"content": "@"}} if chat else {"text": "@"})}
        # Chunks differ only in their text: what precedes and follows it is encoded once.
        template = orjson.dumps({**self._chunk_base, "choices": [{**choice, "logprobs": None, "finish_reason": None}]})
        self._prefix, self._suffix = (b"data: " + template + b"\n\n").split(b'"@"')
        self._role_sent = not chat

    def chunk(self, text: str) -> bytes:
        """The event of one token. The first one of a chat carries the role."""
        if self._role_sent:
            return self._prefix + orjson.dumps(text) + self._suffix
        self._role_sent = True
        delta = {"role": "assistant", "content": text}
        return self.event([{"index": self._index, "delta": delta, "logprobs": None, "finish_reason": None}])

    def event(self, choices: list[dict[str, Any]], usage: dict[str, int] | None = None) -> bytes:
        """An event with the given choices and usage."""
        data = {**self._chunk_base, "choices": choices, **({"usage": usage} if usage else {})}
        return b"data: " + orjson.dumps(data) + b"\n\n"

    def finish(self, reason: str) -> bytes:
        """The event with the finish reason."""
        choice: dict[str, Any] = {"index": self._index, "finish_reason": reason, "logprobs": None}
        return self.event([{**choice, "delta": {}} if self._chat else {**choice, "text": ""}])

    def choice(self, text: str, reason: str) -> dict[str, Any]:
        """A choice of the whole response."""
        content = {"message": {"role": "assistant", "content": text}} if self._chat else {"text": text}
        return {"index": self._index, **content, "logprobs": None, "finish_reason": reason}

    def response(self, choices: list[dict[str, Any]], usage: dict[str, int]) -> bytes:
        """The whole response."""
        return orjson.dumps({**self._base, "choices": choices, "usage": usage})


class StopSequences:
    """Cuts streamed text before the first stop sequence."""

    def __init__(self, stops: list[str]) -> None:
        self._stops = stops
        self.held = ""
        """Text withheld because it may be the start of a stop sequence."""
        self.is_met = False

    def add(self, text: str) -> str:
        """Add text of the stream; returns what can be passed on."""
        if not self._stops:
            return text
        text = self.held + text
        positions = [at for stop in self._stops if (at := text.find(stop)) >= 0]
        if positions:
            self.held, self.is_met = "", True
            return text[: min(positions)]
        held = max((_overlap(text, stop) for stop in self._stops), default=0)
        self.held = text[len(text) - held :]
        return text[: len(text) - held]


def _overlap(text: str, stop: str) -> int:
    """The length of the longest end of `text` with which `stop` starts."""
    return next((size for size in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:size])), 0)


def read_stop_sequences(data: dict[str, Any]) -> list[str]:
    """The stop sequences of an OpenAI request."""
    stop = data.get("stop")
    stops = [stop] if isinstance(stop, str) else stop or []
    if not isinstance(stops, list) or not all(isinstance(item, str) for item in stops):
        raise bad_request("stop: must be a string or a list of strings", param="stop")
    return [item for item in stops if item]
