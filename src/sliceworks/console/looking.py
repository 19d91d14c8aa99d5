"""A cluster that may only be looked at: whatever a page tries, nothing but a read leaves this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.errors import SliceworksError
from sliceworks.kube.client import Client

if TYPE_CHECKING:
    from sliceworks.kube.transport import Request, Response, Transport

_READS = ("GET", "HEAD")
_QUESTIONS = ("/apis/authorization.k8s.io/",)  # asked by POST, and change nothing: what one may do


class LookingOnly:
    """Carries reads, and refuses the rest before it is sent."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def send(self, request: Request, *, stream: bool = False) -> Response:
        """Send a read."""
        if request.method not in _READS and not request.path.startswith(_QUESTIONS):
            raise SliceworksError("this console only looks", hint="start it with --allow-changes")
        return await self._transport.send(request, stream=stream)

    async def close(self) -> None:
        """Let go of connections."""
        await self._transport.close()


def looking_only(client: Client) -> Client:
    """The same cluster for a console that changes nothing."""
    return Client(
        LookingOnly(client.transport),
        namespace=client.namespace,
        field_manager=client.field_manager,
        retry=client.retry,
        on_warning=client.on_warning,
    )
