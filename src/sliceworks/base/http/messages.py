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

    __slots__ = ("arrived", "body", "headers", "method", "path", "peer", "query", "who")

    def __init__(self, method: str, path: str, query: str, headers: dict[str, str], body: bytes) -> None:
        self.method, self.path, self.query, self.headers, self.body = method, path, query, headers, body
        self.peer: object = None
        """Whom the application met at the other end of the line."""
        self.arrived = 0.0
        """When it was there, on the clock of efforts."""
        self.who: object = None
        """Whom the application's screen took it for."""


def head(status: int, headers: Headers) -> bytes:
    """Status line and headers, without those that a Reply adds and without the line that ends them."""
    return b"".join([_STATUS_LINES.get(status) or b"HTTP/1.1 %d Unknown\r\n" % status, *(b"%b: %b\r\n" % pair for pair in headers)])


_dated: tuple[str, bytes] = ("", b"")


def date() -> bytes:
    """Now, as a header has it."""
    global _dated  # noqa: PLW0603 - one clock for all answers of a second
    second = clock.timestamp()
    if _dated[0] != second:
        _dated = (second, formatdate(clock.now().timestamp(), usegmt=True).encode())
    return _dated[1]


def split_target(target: bytes) -> tuple[str, str]:
    """Path and query of a request line, which may hold a whole URL."""
    path, _, query = target.decode("latin-1").partition("?")
    if not path.startswith("/"):
        _, found, rest = path.partition("://")
        path = "/" + rest.partition("/")[2] if found else "/" + path
    return path, query
