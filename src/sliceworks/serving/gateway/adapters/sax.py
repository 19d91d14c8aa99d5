"""The routes of the Sax proxy: generate, score and list. Publication is on the admin listener."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import orjson

from sliceworks.base.http.messages import JSON_CONTENT, HttpError, bad_request
from sliceworks.serving.gateway.call import Call
from sliceworks.serving.gateway.payload import check_fields, estimate_tokens, parse_object
from sliceworks.serving.gateway.sax_client import MAX_DECODE_STEPS, sax_options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sliceworks.base.http.messages import Request
    from sliceworks.base.http.response_writer import ResponseWriter
    from sliceworks.serving.gateway.router import Router
    from sliceworks.serving.gateway.sax_client import SaxClient
    from sliceworks.serving.gateway.state import Caller, ServedModel

    SaxCall = Callable[[SaxClient, str, float], dict[str, Any]]


class SaxAdapter:
    """Serves `/generate`, `/score` and `/listcell`. `model_id` is the model's name or its path in the cell."""

    def __init__(self, router: Router) -> None:
        self._router = router

    def routes(self) -> Mapping[str, str]:
        return {"/generate": "POST", "/score": "POST", "/listcell": "GET"}

    async def handle(self, request: Request, response: ResponseWriter, caller: Caller) -> None:
        """Respond with the result of a Sax call."""
        data = {}
        if request.method == "POST":
            check_fields(request.body)
            data = parse_object(request.body)
        name = data.get("model_id") or parse_qs(request.query).get("model_id", [None])[0]
        served = self._find_model(name, caller)
        call = Call(request, response, caller, served, request.path[1:], request.path, request.body, requested_tokens=0)
        build = {"/generate": self._generate, "/score": self._score, "/listcell": self._list}[request.path]
        sax_call = build(call, data)
        await self._router.forward(call, lambda: self._respond(call, sax_call))

    def _find_model(self, name: Any, caller: Caller) -> ServedModel:
        if not isinstance(name, str) or not name:
            raise bad_request("model_id: required field is missing", param="model_id")
        for served in self._router.state.models_for(caller):
            if served.model.kind == "sax" and name in {upstream.backend.url for upstream in served.balancer.upstreams}:
                return served
        served = self._router.find_model(name, caller)
        if served.model.kind != "sax":
            raise bad_request(f"model_id: {served.name!r} is not served by Sax")
        return served

    async def _respond(self, call: Call, sax_call: SaxCall) -> None:
        upstream = await call.next_upstream([])
        upstream.request_started(call)
        failed, counts = True, False
        try:
            timeout = call.time_left
            result = await self._router.sax_executor.call(lambda client: sax_call(client, upstream.backend.url, timeout), timeout)
            failed, counts = False, True
        except HttpError as error:
            counts = error.status in {500, 504}
            raise
        finally:
            upstream.request_finished(call, failed=failed, counts=counts)
        call.response.send(200, [JSON_CONTENT, *call.common_headers()], orjson.dumps(result))

    def _generate(self, call: Call, data: dict[str, Any]) -> SaxCall:
        served = call.served
        prompt, model_options = data.get("prompt"), data.get("model_options") or {}
        if not isinstance(prompt, str) or not isinstance(model_options, dict):
            raise bad_request("prompt must be a string and model_options an object")
        requested = model_options.get(MAX_DECODE_STEPS)
        steps: Any = served.max_tokens if requested is None else requested
        if not isinstance(steps, int | None) or isinstance(steps, bool):
            raise bad_request(f"model_options.{MAX_DECODE_STEPS}: must be an integer")
        if steps is not None and steps < 1:
            raise bad_request(f"model_options.{MAX_DECODE_STEPS}: must be at least 1, got {steps}")
        if served.max_tokens is not None and (steps or 0) > served.max_tokens:
            message = f"model_options.{MAX_DECODE_STEPS}: must be at most {served.max_tokens}, got {steps}"
            raise HttpError(400, "too_many_tokens", message)
        options = sax_options(model_options, steps)
        call.requested_tokens = steps or 0

        def generate(client: SaxClient, path: str, timeout: float) -> dict[str, Any]:
            completions = client.generate(path, prompt, options, timeout)
            call.usage = (call.estimated_tokens, sum(estimate_tokens(text.encode()) for text, _ in completions))
            return {"completions": completions}

        return generate

    def _score(self, call: Call, data: dict[str, Any]) -> SaxCall:
        prefix, suffixes = data.get("prefix", data.get("prompt")), data.get("suffix", data.get("suffixes"))
        suffixes = [suffixes] if isinstance(suffixes, str) else suffixes
        if not isinstance(prefix, str) or not isinstance(suffixes, list) or not all(isinstance(suffix, str) for suffix in suffixes):
            raise bad_request("prefix must be a string and suffix a string or a list of strings")
        return lambda client, path, timeout: {"scores": client.score(path, prefix, suffixes, timeout)}

    def _list(self, call: Call, data: dict[str, Any]) -> SaxCall:
        return lambda client, path, _: client.details(path)
