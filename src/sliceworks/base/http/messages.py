"""HTTP requests as they arrive, response heads as bytes, and HttpError with its constructors."""

from __future__ import annotations

from email.utils import formatdate
from http import HTTPStatus
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError

if TYPE_CHECKING:
    from collections.abc import Iterable

    Headers = Iterable[tuple[bytes, bytes]]

JSON_CONTENT = (b"content-type", b"application/json")
EVENT_STREAM_CONTENT = (b"content-type", b"text/event-stream; charset=utf-8")
_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}


class Request:
    """One request. Header names are lower case; `path` is percent-encoded and has no query."""

    __slots__ = ("arrived", "body", "headers", "method", "path", "peer", "query", "user")

    def __init__(self, method: str, path: str, query: str, headers: dict[str, str], body: bytes) -> None:
        self.method, self.path, self.query, self.headers, self.body = method, path, query, headers, body
        self.peer: object = None
        """What the application's `on_connect` returned for this connection."""
        self.arrived = 0.0
        """When it was received, by `clock.perf_counter`."""
        self.user: object = None
        """What the application's `authenticate` returned."""


def encode_head(status: int, headers: Headers) -> bytes:
    """Status line and headers, without those that ResponseWriter adds and without the final empty line."""
    return b"".join([_STATUS_LINES.get(status) or b"HTTP/1.1 %d Unknown\r\n" % status, *(b"%b: %b\r\n" % pair for pair in headers)])


_date: tuple[str, bytes] = ("", b"")


def date_header() -> bytes:
    """The value of a Date header."""
    global _date  # noqa: PLW0603 - cached for one second
    second = clock.timestamp()
    if _date[0] != second:
        _date = (second, formatdate(clock.now().timestamp(), usegmt=True).encode())
    return _date[1]


def split_target(target: bytes) -> tuple[str, str]:
    """Path and query of a request target, which may be an absolute URL."""
    path, _, query = target.decode("latin-1").partition("?")
    if not path.startswith("/"):
        _, scheme_end, rest = path.partition("://")
        path = "/" + rest.partition("/")[2] if scheme_end else "/" + path
    return path, query


class HttpError(SliceworksError):
    """An error response: a status, a code for programs and a message for users."""

    def __init__(self, status: int, code: str, message: str, *, param: str | None = None, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.param, self.retry_after = status, code, param, retry_after
        self.extra_headers: dict[bytes, bytes] = {}
        """Headers that a handler adds to the response."""

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """The headers of the response."""
        headers: list[tuple[bytes, bytes]] = []
        if self.retry_after is not None:
            # Whole seconds, at least one: an immediate retry would be rejected again.
            headers.append((b"retry-after", b"%d" % max(1, -int(-self.retry_after // 1))))
        if self.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        return [*headers, *self.extra_headers.items()]


INVALID_METHOD, INTERNAL_ERROR = "unknown_method", "internal_error"


def bad_request(message: str, *, param: str | None = None) -> HttpError:
    """An invalid request."""
    return HttpError(400, "invalid_request", message, param=param)


def invalid_method() -> HttpError:
    """An unknown method: usually the client does not speak HTTP."""
    return HttpError(400, INVALID_METHOD, "not an HTTP request")


def unsupported_transfer_encoding(coding: str) -> HttpError:
    """A transfer encoding other than chunked."""
    return HttpError(501, "unknown_coding", f"Transfer-Encoding {coding[:100]!r} is not supported; use chunked or Content-Length")


def unsupported_version(version: str) -> HttpError:
    """A version other than HTTP/1.0 and HTTP/1.1."""
    return HttpError(505, "unknown_version", f"HTTP/{version} is not supported; use HTTP/1.1")


def content_too_large(limit: int) -> HttpError:
    """A body larger than the limit."""
    return HttpError(413, "request_too_large", f"request body is larger than {limit} bytes")


def headers_too_large(limit: int) -> HttpError:
    """A request line and headers larger than the limit."""
    return HttpError(431, "head_too_large", f"request line and headers are larger than {limit} bytes")


def request_timeout() -> HttpError:
    """A request that was not received completely in time."""
    return HttpError(408, "request_timeout", "timed out while reading the request")


def internal_server_error() -> HttpError:
    """A failure of the server."""
    return HttpError(500, INTERNAL_ERROR, "internal server error; see the server log")


def too_many_connections() -> HttpError:
    """The server has reached its connection limit."""
    return HttpError(429, "too_many_connections", "too many connections, please try again later", retry_after=1)


def too_many_requests() -> HttpError:
    """Too many requests of this client wait already."""
    return HttpError(429, "too_many_requests", "too many requests, please try again later", retry_after=1)
