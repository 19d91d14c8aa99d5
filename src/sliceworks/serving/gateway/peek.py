"""What the gateway must know of a body, found without reading all of it as JSON; and the few changes that it makes.

A prompt may be long, and most of it concerns nobody but the model. A name within a text has its quotes escaped, so `"model"` with
bare quotes is a token of its own; it is the field that counts if brackets before or after it show that it lies in the outermost
object. Whatever is not plain (a name twice, a name in escapes, brackets far away on both sides) is read whole.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import orjson

from sliceworks.serving.gateway.refusals import malformed

_FIELD = {
    name: re.compile(rb'"' + name.encode() + rb'"[ \t\r\n]*:[ \t\r\n]*(?:"([^"\\]*)"|(-?[0-9]+|true|false|null)(?=[ \t\r\n,}]))')
    for name in ("model", "stream", "max_tokens", "max_completion_tokens")
}
_TOKEN = {name: f'"{name}"'.encode() for name in _FIELD}
_TEXTS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NEAR = 4096
_SMALL = 512
_LETTERS_ESCAPED = (b"\\u006", b"\\u007", b"\\u005")
"""Escapes of the letters and the underscore that names of fields are made of: nobody writes them so in good faith."""


@dataclass(frozen=True, slots=True)
class Peek:
    """What was found. Spans are where the bare value of the model's name stands, quotes left out."""

    model: str | None
    stream: bool
    max_tokens: int | None
    model_span: tuple[int, int] | None
    limits_named: bool
    """Whether a limit of tokens is written down, if only as null."""


def peek(body: bytes) -> Peek:
    """Find the model, whether a stream is wanted, and how many tokens at most. Refuses what is no JSON object, when it looks."""
    _check_text(body)
    if len(body) > _SMALL and not any(letter in body for letter in _LETTERS_ESCAPED):
        found = _quickly(body)
        if found is not None:
            return found
    return _slowly(body)


def _check_text(body: bytes) -> None:
    if not body.isascii():
        try:
            body.decode("utf-8")
        except UnicodeDecodeError as error:
            raise malformed(f"the body is not UTF-8: byte {error.start}") from error


def _quickly(body: bytes) -> Peek | None:
    """None where only reading all of it can tell."""
    if not body.lstrip(b" \t\r\n").startswith(b"{") or not body.rstrip(b" \t\r\n").endswith(b"}"):
        return None
    found: dict[str, re.Match[bytes] | None] = {}
    for name, token in _TOKEN.items():
        at = body.find(token)
        if at < 0:
            found[name] = None
            continue
        match = _FIELD[name].match(body, at)
        if match is None or body.find(token, at + 1) >= 0 or not _outermost(body, at):
            return None
        found[name] = match
    model = found["model"]
    if model is None or model[1] is None:
        return None
    stream, limits = found["stream"], [each for each in (found["max_tokens"], found["max_completion_tokens"]) if each is not None]
    if any(each[2] is None or each[2] in {b"true", b"false"} for each in limits):
        return None
    most = max((int(each[2]) for each in limits if each[2] != b"null"), default=None)
    return Peek(model[1].decode(), stream is not None and stream[2] == b"true", most, model.span(1), bool(limits))


def _outermost(body: bytes, at: int) -> bool:
    """Whether a token lies in the outermost object, judged by the shorter side of it."""
    if body[at - 1 : at] == b"\\":
        return False
    if len(body) - at < _NEAR:
        rest = _TEXTS.sub(b"", body[at:])
        return _closed(rest) - _opened(rest) == 1
    if at < _NEAR:
        start = _TEXTS.sub(b"", body[:at])
        return b'"' not in start and _opened(start) - _closed(start) == 1
    return False


def _opened(text: bytes) -> int:
    return text.count(b"{") + text.count(b"[")


def _closed(text: bytes) -> int:
    return text.count(b"}") + text.count(b"]")


def _slowly(body: bytes) -> Peek:
    data = parse(body)
    model, span = data.get("model"), None
    limits = {name: data[name] for name in ("max_tokens", "max_completion_tokens") if name in data}
    for name, limit in limits.items():
        if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool)):
            raise malformed(f"{name} must be a whole number", param=name)
    if isinstance(model, str):
        # Where the name stands plainly and once it can be changed in place.
        match = _FIELD["model"].search(body)
        if match is not None and body.count(_TOKEN["model"]) == 1 and match[1] == model.encode():
            span = match.span(1)
    most = max((limit for limit in limits.values() if limit is not None), default=None)
    return Peek(model if isinstance(model, str) else None, data.get("stream") is True, most, span, bool(limits))


def parse(body: bytes) -> dict[str, Any]:
    """The object that a body is."""
    try:
        data = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise malformed(f"the body is not JSON: {str(error).partition(':')[0]}") from error
    if not isinstance(data, dict):
        raise malformed("the body must be a JSON object")
    return data


def renamed(body: bytes, found: Peek, name: str) -> bytes:
    """The body with another name for the model."""
    if found.model == name:
        return body
    if found.model_span is not None:
        start, end = found.model_span
        return b"".join((body[:start], name.encode(), body[end:]))
    return orjson.dumps({**parse(body), "model": name})


def capped(body: bytes, found: Peek, most: int) -> bytes:
    """The body with a limit of tokens, where it has none."""
    if found.limits_named:
        # A second field of the same name could be read either way.
        data = {name: value for name, value in parse(body).items() if name not in {"max_tokens", "max_completion_tokens"}}
        return orjson.dumps({**data, "max_tokens": most})
    start = body.find(b"{") + 1
    return b'%b"max_tokens":%d,%b' % (body[:start], most, body[start:])
