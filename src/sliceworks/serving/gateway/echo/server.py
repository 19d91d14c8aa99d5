"""The echo model behind HTTP, in the protocols that the gateway knows servers by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base.http.messages import JSON
from sliceworks.base.http.server import Application, Limits, Server
from sliceworks.serving.gateway import shapes
from sliceworks.serving.gateway.echo import openai, others
from sliceworks.serving.gateway.echo.engine import Engine, Settings
from sliceworks.serving.gateway.refusals import no_route

if TYPE_CHECKING:
    from sliceworks.base.http.messages import Request
    from sliceworks.base.http.refusals import Refusal
    from sliceworks.base.http.reply import Reply


class Echo(Application):
    """The application."""

    def __init__(self, settings: Settings) -> None:
        self.engine = Engine(settings)
        self._routes = {**openai.ROUTES, **others.ROUTES}

    async def handle(self, request: Request, reply: Reply) -> None:
        """Answer as the protocol of the path has it."""
        route = self._routes.get((request.method, request.path))
        if route is not None:
            await route(self.engine, request, reply)
        elif request.path.startswith("/v2/models/"):
            await others.model(self.engine, request, reply)
        elif request.path.startswith("/v2/repository/models/"):
            await others.repository(self.engine, request, reply)
        elif request.path == "/echo/records":
            reply.send(200, [JSON], orjson.dumps(self._records()))
        else:
            raise no_route(request.method, request.path)

    def _records(self) -> dict[str, Any]:
        return {"received": self.engine.received, "underWay": self.engine.under_way, "records": self.engine.report()}

    def refuse(self, path: str, refusal: Refusal, reply: Reply) -> None:
        """In the words of the path's protocol."""
        shapes.send(path, refusal, reply)


async def start(settings: Settings, host: str = "127.0.0.1", port: int = 0) -> tuple[Server, int]:
    """An echo server that runs, and its port."""
    server = Server(Echo(settings), Limits())
    return server, await server.start(host, port)
