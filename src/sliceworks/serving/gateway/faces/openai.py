"""OpenAI's routes: chat, completions, embeddings, and the list of models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

import orjson

from sliceworks.base.http.messages import JSON
from sliceworks.serving.gateway.calls import Call
from sliceworks.serving.gateway.converse import converse
from sliceworks.serving.gateway.peek import Peek, limited, peek, renamed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.base.http.messages import Request
    from sliceworks.base.http.reply import Reply
    from sliceworks.serving.gateway.app import Application
    from sliceworks.serving.gateway.keys import Caller
    from sliceworks.serving.gateway.servers import Server

OPERATIONS = {"/v1/chat/completions": "chat", "/v1/completions": "text_completion", "/v1/embeddings": "embeddings"}
KINDS = frozenset({"openai", "echo"})
"""Servers that speak this protocol themselves."""
_MADE = 1_700_000_000
"""When models were made, for clients that want to know: nobody knows."""


@dataclass(slots=True)
class OpenAiCall(Call):
    """A call whose body names the model."""

    found: Peek | None = None

    def body_for(self, server: Server) -> bytes:
        """The body as it came, unless the server knows the model by another name."""
        assert self.found is not None
        return renamed(self.body, self.found, server.backend.model or self.served.name)


class OpenAi:
    """What the official clients of OpenAI ask for."""

    def __init__(self, application: Application) -> None:
        self._application = application

    def routes(self) -> Mapping[str, str]:
        """Inference, and models."""
        return {**dict.fromkeys(OPERATIONS, "POST"), "/v1/models": "GET", "/v1/models/": "GET"}

    async def answer(self, request: Request, reply: Reply, caller: Caller) -> None:
        """Pass a request on, or tell what models there are."""
        if request.path.startswith("/v1/models"):
            self._models(request, reply, caller)
            return
        found = peek(request.body)
        served = self._application.model(found.model, caller)
        operation, body = OPERATIONS[request.path], request.body
        if served.model.kind not in KINDS:
            await converse(self._application, Call(request, reply, caller, served, operation, request.path, body))
            return
        if served.max_tokens is not None and operation != "embeddings":
            body = limited(body, served.max_tokens)
            found = peek(body) if body is not request.body else found
        call = OpenAiCall(request, reply, caller, served, operation, request.path, body, found=found)
        await self._application.carry(call)

    def _models(self, request: Request, reply: Reply, caller: Caller) -> None:
        name = unquote(request.path.removeprefix("/v1/models").removeprefix("/"))
        if name:
            self._application.model(name, caller)
            reply.send(200, [JSON, self._application.named(request)], orjson.dumps(_card(name)))
            return
        listed = [_card(each.name) for each in self._application.state.visible(caller)]
        reply.send(200, [JSON, self._application.named(request)], orjson.dumps({"object": "list", "data": listed}))


def _card(name: str) -> dict[str, object]:
    return {"id": name, "object": "model", "created": _MADE, "owned_by": "sliceworks"}
