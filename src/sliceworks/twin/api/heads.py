"""The head of an HTTP answer as bytes, and the path of a request line."""

from __future__ import annotations

import itertools
import uuid
from email.utils import formatdate
from http import HTTPStatus
from typing import TYPE_CHECKING

from sliceworks.base import clock

if TYPE_CHECKING:
    from sliceworks.kube.transport import Response

_MOST_KNOWN, _LONGEST_KNOWN = 200, 1000
_REASONS = {status.value: status.phrase for status in HTTPStatus}


def head(response: Response, *, keep: bool) -> bytes:
    """Status line and headers, without those that say how long the body is and without the line that ends them."""
    # Most answers begin alike: how they do is made once.
    key = (response.status, *response.headers.items())
    start = _known.get(key)
    if start is None:
        start = _start(response)
        if len(_known) < _MOST_KNOWN and len(start) < _LONGEST_KNOWN:
            _known[key] = start
    return b"%b%012x\r\ndate: %b\r\n%b" % (start, next(_serial), _date(), b"" if keep else b"connection: close\r\n")


_known: dict[tuple[object, ...], bytes] = {}
_serial = itertools.count(1)
_process = uuid.uuid4().hex


def _start(response: Response) -> bytes:
    """All up to the last part of the audit ID: a UUID for each answer, random for this process and then a number."""
    lines = [f"HTTP/1.1 {response.status} {_REASONS.get(response.status, '')}"]
    lines += [f"{name}: {line.replace(chr(13), ' ')}" for name, value in response.headers.items() for line in value.split("\n")]
    lines.append(f"audit-id: {_process[:8]}-{_process[8:12]}-4{_process[13:16]}-8{_process[17:20]}-")
    return "\r\n".join(lines).encode("utf-8", "replace")


_dated: tuple[int, bytes] = (0, b"")


def _date() -> bytes:
    global _dated  # noqa: PLW0603 - one clock for all answers of a second
    now = int(clock.now().timestamp())
    if _dated[0] != now:
        _dated = (now, formatdate(now, usegmt=True).encode())
    return _dated[1]


def path_of(target: bytes) -> str:
    """The path of a request line, which may hold a whole URL."""
    text = target.decode("latin-1")
    if not text.startswith("/"):
        _, found, rest = text.partition("://")
        text = "/" + rest.partition("/")[2] if found else "/" + text
    return text
