"""Requests as they arrive, and the heads of answers as bytes."""

from __future__ import annotations

from email.utils import formatdate
from http import HTTPStatus
from typing import TYPE_CHECKING

from sliceworks.base import clock

if TYPE_CHECKING:
    from collections.abc import Iterable

    Headers = Iterable[tuple[bytes, bytes]]

JSON = (b"content-type", b"application/json")
EVENTS = (b"content-type", b"text/event-stream; charset=utf-8")
_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}


class Request:
    """One request. Names of headers are lower case; `path` is as it was sent, without its query."""

    __slots__ = ("arrived", "body", "headers", "method", "path", "query", "who")

    def __init__(self, method: str, path: str, query: str, headers: dict[str, str], body: bytes) -> None:
        self.method, self.path, self.query, self.headers, self.body = method, path, query, headers, body
        self.arrived = 0.0
        """When it was there, on the clock of efforts."""
        self.who: object = None
        """Whom the server's screen took it for."""


def head(status: int, headers: Headers, *, keep: bool = True) -> bytes:
    """Status line and headers, without the lengths of the body and without the line that ends them."""
    parts = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d Unknown\r\n" % status]
    parts += [b"%b: %b\r\n" % pair for pair in headers]
    parts.append(b"date: %b\r\n" % date() if keep else b"date: %b\r\nconnection: close\r\n" % date())
    return b"".join(parts)


_dated: tuple[int, bytes] = (0, b"")


def date() -> bytes:
    """Now, as a header has it."""
    global _dated  # noqa: PLW0603 - one clock for all answers of a second
    now = int(clock.now().timestamp())
    if _dated[0] != now:
        _dated = (now, formatdate(now, usegmt=True).encode())
    return _dated[1]


def split_target(target: bytes) -> tuple[str, str]:
    """Path and query of a request line, which may hold a whole URL."""
    path, _, query = target.decode("latin-1").partition("?")
    if not path.startswith("/"):
        _, found, rest = path.partition("://")
        path = "/" + rest.partition("/")[2] if found else "/" + path
    return path, query
