"""Whether the gateway lives and wants requests. Nobody needs a key for that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.serving.gateway.app import OPEN
from sliceworks.serving.gateway.refusals import draining

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.base.http.messages import Request
    from sliceworks.base.http.reply import Reply
    from sliceworks.serving.gateway.app import Application
    from sliceworks.serving.gateway.keys import Caller

_LIVE = frozenset({"/healthz", "/v2/health/live"})


class Probes:
    """Probes of Kubernetes, of load balancers and of Triton's clients."""

    def __init__(self, application: Application) -> None:
        self._application = application

    def routes(self) -> Mapping[str, str]:
        """All open paths."""
        return dict.fromkeys(OPEN, "GET")

    async def answer(self, request: Request, reply: Reply, caller: Caller | None) -> None:
        """Yes or no, without a word."""
        if request.path not in _LIVE and not self._application.ready():
            raise draining()
        reply.send(200, [])
