"""JetStream's own route, for models that JetStream serves. Its body names no model: one that has several is told which."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from sliceworks.base.http.refusals import malformed
from sliceworks.serving.gateway import shapes
from sliceworks.serving.gateway.calls import Call
from sliceworks.serving.gateway.peek import limited, peek

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.base.http.messages import Request
    from sliceworks.base.http.refusals import Refusal
    from sliceworks.base.http.reply import Reply
    from sliceworks.serving.gateway.app import Application
    from sliceworks.serving.gateway.calls import Served
    from sliceworks.serving.gateway.keys import Caller

KINDS = frozenset({"jetstream", "echo"})


class JetStreamCall(Call):
    """A stream of bare objects: the last one says why it breaks off."""

    def last_words(self, refusal: Refusal) -> bytes:
        """One more object."""
        return shapes.inference(refusal)


class JetStream:
    """`/v1/generate`, passed on as it is."""

    def __init__(self, application: Application) -> None:
        self._application = application

    def routes(self) -> Mapping[str, str]:
        """Text alone."""
        return {"/v1/generate": "POST"}

    async def answer(self, request: Request, reply: Reply, caller: Caller) -> None:
        """Pass it on."""
        body = request.body
        served = self._model(request, caller, peek(body).model)
        if served.max_tokens is not None:
            body = limited(body, served.max_tokens)
        await self._application.carry(JetStreamCall(request, reply, caller, served, "generate", request.path, body))

    def _model(self, request: Request, caller: Caller, named: str | None) -> Served:
        name = named or request.headers.get("x-sliceworks-model") or parse_qs(request.query).get("model", [""])[0]
        if name:
            served = self._application.model(name, caller)
            if served.model.kind not in KINDS:
                raise malformed(f"the model {served.name!r} is not served by JetStream")
            return served
        fitting = [each for each in self._application.state.visible(caller) if each.model.kind in KINDS]
        if len(fitting) != 1:
            raise malformed("say which model, in the field model or in the header x-sliceworks-model")
        return fitting[0]
