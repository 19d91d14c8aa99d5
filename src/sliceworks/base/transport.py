"""Requests and responses as plain data, the Transport protocol, and the transport that calls a server in the same process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, Self
from urllib.parse import quote, urlencode

import orjson

from sliceworks.base.errors import Unreachable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from sliceworks.base.http.upgrade import ByteStream

_SAFE_IN_QUERY = "!()*,:~/"  # keeps label selectors readable in logs


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request. `path` is percent-encoded and has no query; header names are lower case."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @classmethod
    def json(cls, method: str, path: str, body: object) -> Self:
        """A request with a JSON body."""
        return cls(method, path, headers={"content-type": "application/json"}, body=orjson.dumps(body))

    @property
    def target(self) -> str:
        """The path with the encoded query."""
        if not self.query:
            return self.path
        return f"{self.path}?{urlencode(self.query, quote_via=quote, safe=_SAFE_IN_QUERY)}"


@dataclass(slots=True)
class Response:
    """One HTTP response: a complete `body`, or a `stream` of chunks. Header names are lower case.

    One of status 101 has an `upgrade` instead, which is called with the connection; only clients over HTTP can use it.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    stream: AsyncIterator[bytes] | None = None
    upgrade: Callable[[ByteStream], Awaitable[None]] | None = None


class Transport(Protocol):
    """Sends requests to one server. Raises Unreachable if no response arrives; a response of any status is returned."""

    async def send(self, request: Request, *, stream: bool = False) -> Response:
        """Send one request; with `stream`, the body of a successful response is in its `stream`."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


class InProcess:
    """Passes each request to `handler`, with the bearer token `token` if it is given."""

    def __init__(
        self, handler: Callable[[Request], Awaitable[Response]], *, token: str = "", user_agent: str = "sliceworks"
    ) -> None:
        self._handler = handler
        self._headers = {"user-agent": user_agent}
        if token:
            self._headers["authorization"] = f"Bearer {token}"
        self._closed = False

    async def send(self, request: Request, *, stream: bool = False) -> Response:
        """Call the handler; without `stream`, a streamed response is read to its end."""
        if self._closed:
            raise Unreachable("connection is closed")
        headers = {**self._headers, **request.headers}
        response = await self._handler(Request(request.method, request.path, request.query, headers, request.body))
        if response.stream is not None and (not stream or response.status >= 400):
            response.body = b"".join([chunk async for chunk in response.stream])
            response.stream = None
        return response

    async def close(self) -> None:
        """Reject further requests."""
        self._closed = True
