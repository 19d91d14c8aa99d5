"""What the gateway must know of a body: which model it names. Short bodies are read for that; of long ones the ends are enough.

A prompt may be long, and concerns nobody but the model. Clients write the model's name first or last. A name within a text
has its quotes escaped, so `"model"` with bare quotes is a token of its own, and brackets after it tell whether it is a field of the
outermost object. One that is, and has no other after it, is the one that counts, whatever comes before: of two fields with the same
name the last is taken. One at the very beginning counts where that token is nowhere else. Whatever is not so plain is read whole.

None of this looks at the text between. No byte of a letter beyond ASCII is a quote or a bracket in UTF-8; in UTF-16, which some
servers guess from zeros at the beginning, it could be: what does not begin like an object in UTF-8 is read whole, and refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import orjson

from sliceworks.base.http.refusals import malformed
from sliceworks.serving.gateway.refusals import too_many_tokens

_FIELD = re.compile(rb'"model"[ \t\r\n]*:[ \t\r\n]*"([^"\\]*)"')
_TOKEN, _ESCAPED = b'"model"', b"\\u00"
_OPENING = re.compile(rb'[ \t\r\n]*\{[ \t\r\n]*"')
_TEXTS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NEAR = 2048
_LIMITS = ("max_tokens", "max_completion_tokens")


@dataclass(frozen=True, slots=True)
class Peek:
    """What was found: the model's name, and where it stands in the body, if it stands there plainly."""

    model: str | None
    span: tuple[int, int] | None = None


def peek(body: bytes) -> Peek:
    """Find the model. Refuses what is no JSON object, where it looks."""
    if len(body) > 2 * _NEAR and (opening := _OPENING.match(body)) is not None:
        found = _at_the_end(body) or _at_the_beginning(body, opening.end() - 1)
        if found is not None:
            return found
    return _read(body)


def _at_the_end(body: bytes) -> Peek | None:
    """The last field of that name, if it is near the end; None where only reading all of it can tell."""
    start = len(body) - _NEAR
    at = body.rfind(_TOKEN, start)
    if at < 0 or body[at - 1] == 0x5C:
        return None
    match = _FIELD.match(body, at)
    rest = body[at:]
    # A name may be written in escapes, too: nobody does that in good faith.
    if match is None or not rest.isascii() or _ESCAPED in rest:
        return None
    bare = _TEXTS.sub(b"", rest)
    closed, opened = bare.count(b"}") + bare.count(b"]"), bare.count(b"{") + bare.count(b"[")
    if closed - opened != 1 or b'"' in bare or not bare.rstrip().endswith(b"}"):
        return None
    return Peek(match[1].decode(), match.span(1))


def _at_the_beginning(body: bytes, at: int) -> Peek | None:
    """The first field, if it has that name and there can be no other, within or without."""
    match = _FIELD.match(body, at)
    if match is None or not match[1].isascii() or body.rfind(_TOKEN) != at or not body[-64:].rstrip().endswith(b"}"):
        return None
    # To look for one byte is much quicker than for several, and many texts have no escapes at all.
    if b"\\" in body and body.rfind(_ESCAPED) >= 0:
        return None
    return Peek(match[1].decode(), match.span(1))


def _read(body: bytes) -> Peek:
    model = parse(body).get("model")
    if not isinstance(model, str):
        return Peek(None)
    match = _FIELD.search(body)
    plain = match is not None and match[1] == model.encode() and body.count(_TOKEN) == 1
    return Peek(model, match.span(1) if match is not None and plain else None)


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
    if found.span is not None:
        start, end = found.span
        return b"".join((body[:start], name.encode(), body[end:]))
    return orjson.dumps({**parse(body), "model": name})


def tokens_asked(data: dict[str, Any]) -> int | None:
    """The most tokens that a request asks for, in either of the fields that say so."""
    for name in _LIMITS:
        limit = data.get(name)
        if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool)):
            raise malformed(f"{name} must be a whole number", param=name)
    return max((data[name] for name in _LIMITS if data.get(name) is not None), default=None)


def limited(body: bytes, most: int) -> bytes:
    """The body within a cap of tokens, which Triton also finds under `parameters`; raises the Refusal of one that asks for more."""
    data = parse(body)
    parts = [data, *([data["parameters"]] if isinstance(data.get("parameters"), dict) else [])]
    asked = max((found for part in parts if (found := tokens_asked(part)) is not None), default=None)
    if asked is None:
        return capped(data, most)
    if asked > most:
        raise too_many_tokens(asked, most)
    return body


def capped(data: dict[str, Any], most: int) -> bytes:
    """A request that named no limit, with one. A second field of the same name could be read either way, so there is none."""
    return orjson.dumps({**{name: value for name, value in data.items() if name not in _LIMITS}, "max_tokens": most})
