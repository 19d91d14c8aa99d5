"""The transport that calls a server in the same process: no sockets, no threads, so it runs the same under a virtual clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.errors import Unreachable
from sliceworks.kube.transport import Request

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sliceworks.kube.transport import Response


class InProcess:
    """Hands each request to `handler`, as the bearer of `token`."""

    def __init__(
        self, handler: Callable[[Request], Awaitable[Response]], *, token: str = "", user_agent: str = "sliceworks"
    ) -> None:
        self._handler = handler
        self._headers = {"user-agent": user_agent}
        if token:
            self._headers["authorization"] = f"Bearer {token}"
        self._closed = False

    async def send(self, request: Request, *, stream: bool = False) -> Response:
        """Call the server; a stream that was not asked for is read to its end."""
        if self._closed:
            raise Unreachable("this connection is closed")
        headers = {**self._headers, **request.headers}
        response = await self._handler(Request(request.method, request.path, request.query, headers, request.body))
        if response.stream is not None and (not stream or response.status >= 400):
            response.body = b"".join([piece async for piece in response.stream])
            response.stream = None
        return response

    async def close(self) -> None:
        """Refuse what is sent from now on."""
        self._closed = True
