"""The transport that calls a cloud in the same process: no sockets, so it runs the same under a virtual clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from sliceworks.base.errors import Unreachable
from sliceworks.cloud.transport import Response

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from sliceworks.cloud.transport import Request

    Handler: TypeAlias = Callable[[str, str, Mapping[str, str], bytes], Awaitable[tuple[int, Mapping[str, str], bytes]]]


class InProcess:
    """Hands each request to `handler(method, target, headers, body)`, which answers `(status, headers, body)`."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._closed = False

    async def send(self, request: Request) -> Response:
        """Call the handler."""
        if self._closed:
            raise Unreachable("this connection is closed")
        status, headers, body = await self._handler(request.method, request.target, request.headers, request.body)
        return Response(status, headers, body)

    async def close(self) -> None:
        """Refuse what is sent from now on."""
        self._closed = True
