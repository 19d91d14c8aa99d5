"""A cluster that may only be looked at: whatever a page tries, nothing but a read or a question leaves this process."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sliceworks.base.errors import SliceworksError
from sliceworks.kube.client import Client

if TYPE_CHECKING:
    from sliceworks.kube.transport import Request, Response, Transport

_READS = ("GET", "HEAD")
# Asked by POST, and changing nothing: what one may do, and a prompt to a model behind the API server's proxy.
_questions = re.compile(
    r"/apis/authorization\.k8s\.io/.*"
    r"|/api/v1/namespaces/[^/]+/services/[^/]+/proxy/(v1/chat/completions|v1/generate|generate|v2/models/[^/]+/generate_stream)"
).fullmatch


class LookingOnly:
    """Carries reads, and refuses the rest before it is sent."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def send(self, request: Request, *, stream: bool = False) -> Response:
        """Send a read."""
        if request.method not in _READS and not _questions(request.path):
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
