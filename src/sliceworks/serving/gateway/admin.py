"""The gateway's other port: numbers, state and changes, for whoever has the admin key. Probes need none."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base.errors import SliceworksError
from sliceworks.base.http.messages import JSON
from sliceworks.base.http.refusals import Refusal
from sliceworks.base.http.server import Application
from sliceworks.serving.gateway import shapes
from sliceworks.serving.gateway.keys import digest_of, sent_key
from sliceworks.serving.gateway.publishing import PUBLISHING, publishing
from sliceworks.serving.gateway.refusals import draining, no_key, no_route, wrong_method

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.base.http.messages import Request
    from sliceworks.base.http.reply import Reply
    from sliceworks.serving.gateway.program import Program

_PROBES = frozenset({"/healthz", "/readyz"})
_ROUTES = {
    "/healthz": "GET",
    "/readyz": "GET",
    "/metrics": "GET",
    "/admin/status": "GET",
    "/admin/reload": "POST",
    "/admin/drain": "POST",
    "/publish": "POST",
    "/update": "PUT",
    "/unpublish": "POST",
}
_NUMBERS = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")


class Admin(Application):
    """What the admin port serves."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def screen(self, method: str, path: str, headers: Mapping[str, str]) -> object:
        """Only who has the admin key goes on."""
        state = self._program.application.state
        open_metrics = state.spec.admin is not None and state.spec.admin.open_metrics
        if path not in _PROBES and not (path == "/metrics" and open_metrics):
            known = state.admin_key
            if known is None or not hmac.compare_digest(known, digest_of(sent_key(headers))):
                raise no_key()
        if path not in _ROUTES:
            raise no_route(method, path)
        if method != _ROUTES[path] and (method, _ROUTES[path]) != ("HEAD", "GET"):
            raise wrong_method(method, path, _ROUTES[path])
        return None

    async def handle(self, request: Request, reply: Reply) -> None:
        """Answer."""
        program, path = self._program, request.path
        if path == "/metrics":
            reply.send(200, [_NUMBERS], program.application.measures.registry.text().encode())
        elif path == "/admin/status":
            reply.send(200, [JSON], orjson.dumps(self._status()))
        elif path == "/admin/reload":
            await self._reload(reply)
        elif path in PUBLISHING:
            reply.send(200, [JSON], orjson.dumps(await publishing(program.application.saxes, request)))
        elif path == "/admin/drain":
            program.application.draining = True
            reply.send(202, [JSON], b'{"draining":true}')
        elif path == "/readyz" and not program.application.ready():
            raise draining()
        else:
            reply.send(200, [])

    async def _reload(self, reply: Reply) -> None:
        try:
            changed = await self._program.reload()
        except SliceworksError as error:
            raise Refusal(422, "invalid_document", f"the document was not taken, the old one goes on: {error.message}") from error
        reply.send(200, [JSON], orjson.dumps({"changed": changed}))

    def _status(self) -> dict[str, Any]:
        application = self._program.application
        models = [
            {
                "name": served.name,
                "kind": served.model.kind,
                "waiting": served.group.waiting,
                "backends": [
                    {
                        "url": server.name,
                        "well": server.well,
                        "circuitOpen": server.circuit_open,
                        "outstanding": server.outstanding,
                        "connections": server.pool.open,
                    }
                    for server in served.group.servers
                ],
            }
            for served in application.state.models.values()
        ]
        told = {"draining": application.draining, "underWay": application.relay.under_way, "problem": self._program.problem}
        return {**told, "models": models}

    def refuse(self, path: str, refusal: Refusal, reply: Reply) -> None:
        """In the words of the path."""
        shapes.send(path, refusal, reply)
