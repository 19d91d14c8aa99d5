"""JetStream's generate route, for models that JetStream serves."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from sliceworks.base.http.messages import bad_request
from sliceworks.serving.gateway import errors
from sliceworks.serving.gateway.call import Call
from sliceworks.serving.gateway.payload import parse_object, read_model
from sliceworks.serving.gateway.token_limit import limit_tokens

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.base.http.messages import HttpError, Request
    from sliceworks.base.http.response_writer import ResponseWriter
    from sliceworks.serving.gateway.router import Router
    from sliceworks.serving.gateway.state import Caller, ServedModel

BACKEND_KINDS = frozenset({"jetstream", "echo"})


class JetStreamCall(Call):
    """A call whose response is a stream of bare JSON objects."""

    def stream_error(self, error: HttpError) -> bytes:
        """One more object, with the error."""
        return errors.open_inference_error(error)


class JetStreamAdapter:
    """Forwards `/v1/generate` unchanged."""

    def __init__(self, router: Router) -> None:
        self._router = router

    def routes(self) -> Mapping[str, str]:
        return {"/v1/generate": "POST"}

    async def handle(self, request: Request, response: ResponseWriter, caller: Caller) -> None:
        """Forward a request."""
        body = request.body
        served = self._find_model(request, caller, (await read_model(body)).model)
        if served.max_tokens is not None:
            body = limit_tokens(parse_object(body), served.max_tokens, ("max_tokens",)) or body
        await self._router.forward(JetStreamCall(request, response, caller, served, "generate", request.path, body))

    def _find_model(self, request: Request, caller: Caller, field: str | None) -> ServedModel:
        name = field or request.headers.get("x-sliceworks-model") or parse_qs(request.query).get("model", [""])[0]
        if name:
            served = self._router.find_model(name, caller)
            if served.model.kind not in BACKEND_KINDS:
                raise bad_request(f"model: {served.name!r} is not served by JetStream")
            return served
        candidates = [served for served in self._router.state.models_for(caller) if served.model.kind in BACKEND_KINDS]
        if len(candidates) != 1:
            raise bad_request("model: required in the body or in the header x-sliceworks-model")
        return candidates[0]
