"""The Open Inference Protocol, version 2, as Triton speaks it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import orjson

import sliceworks
from sliceworks.base.http.messages import JSON_CONTENT, HttpError, bad_request
from sliceworks.serving.gateway.call import Call
from sliceworks.serving.gateway.errors import method_not_allowed, route_not_found
from sliceworks.serving.gateway.payload import check_fields, parse_object
from sliceworks.serving.gateway.token_limit import check_tensors, limit_tokens

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sliceworks.base.http.messages import Request
    from sliceworks.base.http.response_writer import ResponseWriter
    from sliceworks.serving.gateway.load_balancer import Upstream
    from sliceworks.serving.gateway.router import Router
    from sliceworks.serving.gateway.state import Caller, ServedModel
    from sliceworks.serving.gateway.token_limit import Tensor

_PATH = re.compile(r"/v2/models/(?P<model>[^/]+)(?P<version>/versions/[0-9]+)?(?P<action>/[a-z_]+)?")
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
_HEADER_LENGTH, _MAX_DIGITS = "inference-header-content-length", 12
BACKEND_KINDS = frozenset({"triton", "echo"})


@dataclass(slots=True)
class OpenInferenceCall(Call):
    """A call whose path names the model."""

    suffix: str = ""

    def path_for(self, upstream: Upstream) -> str:
        """The path with the model name that the upstream knows."""
        return f"{upstream.prefix}/v2/models/{quote(upstream.backend.model or self.served.name, safe='')}{self.suffix}"


class OpenInferenceAdapter:
    """The routes that Triton's clients use."""

    def __init__(self, router: Router) -> None:
        self._router = router

    def routes(self) -> Mapping[str, str]:
        return {"/v2": "GET", "/v2/models/": "GET POST", "/v2/repository/index": "POST"}

    async def handle(self, request: Request, response: ResponseWriter, caller: Caller) -> None:
        """Describe the gateway, list its models, or forward a request."""
        if request.path == "/v2":
            metadata = {"name": "sliceworks", "version": sliceworks.__version__, "extensions": _EXTENSIONS}
            response.send(200, [JSON_CONTENT, self._router.request_id_header(request)], orjson.dumps(metadata))
        elif request.path == "/v2/repository/index":
            models = self._router.state.models_for(caller)
            index = [repository_entry(served) for served in models if served.model.kind in BACKEND_KINDS]
            response.send(200, [JSON_CONTENT, self._router.request_id_header(request)], orjson.dumps(index))
        else:
            await self._forward(request, response, caller)

    async def _forward(self, request: Request, response: ResponseWriter, caller: Caller) -> None:
        match = _PATH.fullmatch(request.path)
        action = (match["action"] or "") if match else ""
        if match is None or action not in _METHODS:
            raise route_not_found(request.method, request.path)
        if request.method != _METHODS[action]:
            raise method_not_allowed(request.method, request.path, _METHODS[action])
        served = self._router.find_model(unquote(match["model"]), caller)
        if served.model.kind not in BACKEND_KINDS:
            raise HttpError(400, "wrong_protocol", f"model {served.name!r} does not support the Open Inference Protocol")
        call = OpenInferenceCall(
            request, response, caller, served, action.removeprefix("/") or "metadata", request.path, request.body
        )
        call.suffix = (match["version"] or "") + action
        call.requires_json = call.counts_tokens = action in {"/generate", "/generate_stream"}
        if call.counts_tokens and served.max_tokens is not None:
            check_fields(request.body)
            call.body = limit_tokens(parse_object(request.body), served.max_tokens, ("max_tokens",)) or request.body
        elif action == "/infer" and served.max_tokens is not None:
            call.requested_tokens = check_tensors(_read_tensors(request), served.max_tokens)
        await self._router.forward(call)


def _read_tensors(request: Request) -> Iterator[Tensor]:
    """The parameters and tensors of an inference request, whose JSON may be followed by binary tensors."""
    size = request.headers.get(_HEADER_LENGTH, "")
    body = request.body[: int(size)] if size.isascii() and size.isdigit() and len(size) < _MAX_DIGITS else request.body
    check_fields(body)
    data = parse_object(body)
    tensors = data.get("inputs") or []
    if not isinstance(tensors, list) or not all(isinstance(item, dict) and isinstance(item.get("name"), str) for item in tensors):
        raise bad_request("inputs: must be a list of tensors with names", param="inputs")
    parameters = data.get("parameters") or {}
    if not isinstance(parameters, dict):
        raise bad_request("parameters: must be an object", param="parameters")
    yield from ((name, partial(list, [value])) for name, value in parameters.items())
    yield from ((tensor["name"], partial(_read_values, tensor.get("data"))) for tensor in tensors)


def _read_values(data: Any) -> Iterator[Any] | None:
    return _flatten(data) if isinstance(data, list) else None


def _flatten(values: list[Any]) -> Iterator[Any]:
    stack = [iter(values)]
    while stack:
        for value in stack[-1]:
            if isinstance(value, list):
                stack.append(iter(value))
                break
            yield value
        else:
            stack.pop()


def repository_entry(served: ServedModel) -> dict[str, str]:
    """A model's entry in the repository index."""
    is_ready = any(upstream.healthy for upstream in served.balancer.upstreams)
    return {"name": served.name, "version": "1", "state": "READY" if is_ready else "UNAVAILABLE"}
