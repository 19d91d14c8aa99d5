"""The Open Inference Protocol, version 2, as Triton speaks it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

import orjson

import sliceworks
from sliceworks.base.http.messages import JSON
from sliceworks.base.http.refusals import Refusal
from sliceworks.serving.gateway.calls import Call
from sliceworks.serving.gateway.peek import limited
from sliceworks.serving.gateway.refusals import no_route, wrong_method

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.base.http.messages import Request
    from sliceworks.base.http.reply import Reply
    from sliceworks.serving.gateway.app import Application
    from sliceworks.serving.gateway.calls import Served
    from sliceworks.serving.gateway.keys import Caller
    from sliceworks.serving.gateway.servers import Server

_PATH = re.compile(r"/v2/models/(?P<model>[^/]+)(?P<version>/versions/[0-9]+)?(?P<rest>/[a-z_]+)?")
_METHODS = {
    "": "GET",
    "/ready": "GET",
    "/config": "GET",
    "/stats": "GET",
    "/infer": "POST",
    "/generate": "POST",
    "/generate_stream": "POST",
}
_EXTENSIONS = ["classification", "sequence", "model_configuration", "binary_tensor_data", "parameters", "statistics", "generate"]
KINDS = frozenset({"triton", "echo"})


@dataclass(slots=True)
class InferenceCall(Call):
    """A call whose path names the model."""

    rest: str = ""

    def path_for(self, server: Server) -> str:
        """The path with the name that the server knows."""
        return f"{server.prefix}/v2/models/{quote(server.backend.model or self.served.name, safe='')}{self.rest}"


class Inference:
    """What Triton's clients ask for."""

    def __init__(self, application: Application) -> None:
        self._application = application

    def routes(self) -> Mapping[str, str]:
        """The server itself, and its models."""
        return {"/v2": "GET", "/v2/models/": "GET POST", "/v2/repository/index": "POST"}

    async def answer(self, request: Request, reply: Reply, caller: Caller) -> None:
        """Tell about the gateway, or pass a request on to the model's server."""
        if request.path == "/v2":
            told = {"name": "sliceworks", "version": sliceworks.__version__, "extensions": _EXTENSIONS}
            reply.send(200, [JSON, self._application.named(request)], orjson.dumps(told))
        elif request.path == "/v2/repository/index":
            visible = self._application.state.visible(caller)
            listed = [entry(served) for served in visible if served.model.kind in KINDS]
            reply.send(200, [JSON, self._application.named(request)], orjson.dumps(listed))
        else:
            await self._pass_on(request, reply, caller)

    async def _pass_on(self, request: Request, reply: Reply, caller: Caller) -> None:
        match = _PATH.fullmatch(request.path)
        rest = (match["rest"] or "") if match else ""
        if match is None or rest not in _METHODS:
            raise no_route(request.method, request.path)
        if request.method != _METHODS[rest]:
            raise wrong_method(request.method, request.path, _METHODS[rest])
        served = self._application.model(unquote(match["model"]), caller)
        if served.model.kind not in KINDS:
            raise Refusal(400, "wrong_protocol", f"the model {served.name!r} does not speak the Open Inference Protocol")
        call = InferenceCall(request, reply, caller, served, rest.removeprefix("/") or "metadata", request.path, request.body)
        call.rest = (match["version"] or "") + rest
        call.strict = call.counted = rest in {"/generate", "/generate_stream"}
        if call.counted and served.max_tokens is not None:
            call.body = limited(request.body, served.max_tokens)
        await self._application.carry(call)


def entry(served: Served) -> dict[str, str]:
    """A model as a repository lists it."""
    well = any(server.well for server in served.group.servers)
    return {"name": served.name, "version": "1", "state": "READY" if well else "UNAVAILABLE"}
