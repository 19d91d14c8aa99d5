"""The admin listener: metrics, status, reload, drain, and publication of Sax models."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import orjson

from sliceworks.base.errors import SliceworksError
from sliceworks.base.http.flow_control import FairApplication
from sliceworks.base.http.messages import JSON_CONTENT, HttpError, bad_request
from sliceworks.base.http.server import Limits
from sliceworks.serving.gateway import errors
from sliceworks.serving.gateway.errors import draining, invalid_api_key, method_not_allowed, route_not_found
from sliceworks.serving.gateway.payload import parse_object
from sliceworks.serving.gateway.state import hash_key, read_key

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from sliceworks.base.http.messages import Request
    from sliceworks.base.http.response_writer import ResponseWriter
    from sliceworks.serving.gateway.app import Application
    from sliceworks.serving.gateway.load_balancer import Upstream
    from sliceworks.serving.gateway.sax_client import SaxExecutor

PUBLICATION_PATHS = frozenset({"/publish", "/update", "/unpublish"})
_PUBLICATION_FIELDS = {"model_id": str, "model_path": str, "checkpoint": str, "replicas": int}


async def change_publication(executor: SaxExecutor, request: Request) -> dict[str, Any]:
    """Publish, update or unpublish a Sax model; returns what was changed."""
    if request.path == "/unpublish":
        model: Any = parse_qs(request.query).get("model_id", [""])[0]
        if not model and request.body:
            model = parse_object(request.body).get("model_id")
        if not isinstance(model, str) or not model:
            raise bad_request("model_id: required field is missing", param="model_id")
        await executor.call(lambda client: client.unpublish(model))
        return {"model": model}
    data = parse_object(request.body)
    for name, kind in _PUBLICATION_FIELDS.items():
        if not isinstance(data.get(name), kind) or isinstance(data.get(name), bool):
            raise bad_request(f"{name}: required, must be {'a string' if kind is str else 'an integer'}", param=name)
    model, path, checkpoint, replicas = (data[name] for name in _PUBLICATION_FIELDS)
    if request.path == "/publish":
        await executor.call(lambda client: client.publish(model, path, checkpoint, replicas))
    else:
        await executor.call(lambda client: client.update(model, path, checkpoint, replicas))
    return {"model": model, "path": path, "checkpoint": checkpoint, "replicas": replicas}


LIMITS = Limits(body=64 * 1024, connections=256)
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
_METRICS_CONTENT = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")


class AdminApplication(FairApplication):
    """Serves the admin port. `reload` reloads the document; `read_problem` returns the error of the last reload."""

    unlimited = _PROBES

    def __init__(self, application: Application, reload: Callable[[], Awaitable[bool]], read_problem: Callable[[], str]) -> None:
        super().__init__()
        self._application, self._router = application, application.router
        self._reload_document, self._read_problem = reload, read_problem

    def authenticate(self, method: str, path: str, headers: Mapping[str, str], peer: object = None) -> object:
        """Require the admin key, except for probes and public metrics; match the route."""
        state = self._router.state
        has_public_metrics = state.spec.admin is not None and state.spec.admin.public_metrics
        if path not in _PROBES and not (path == "/metrics" and has_public_metrics):
            key = state.admin_key
            if key is None or not hmac.compare_digest(key, hash_key(read_key(headers))):
                raise invalid_api_key()
        if path not in _ROUTES:
            raise route_not_found(method, path)
        if method != _ROUTES[path] and (method, _ROUTES[path]) != ("HEAD", "GET"):
            raise method_not_allowed(method, path, _ROUTES[path])
        return None

    async def respond(self, request: Request, response: ResponseWriter) -> None:
        """Respond to a request."""
        path = request.path
        if path == "/metrics":
            response.send(200, [_METRICS_CONTENT], self._router.metrics.registry.render().encode())
        elif path == "/admin/status":
            response.send(200, [JSON_CONTENT], orjson.dumps(self._status()))
        elif path == "/admin/reload":
            await self._reload(response)
        elif path in PUBLICATION_PATHS:
            response.send(200, [JSON_CONTENT], orjson.dumps(await change_publication(self._router.sax_executor, request)))
        elif path == "/admin/drain":
            self._application.draining = True
            response.send(202, [JSON_CONTENT], b'{"draining":true}')
        elif path == "/readyz" and self._application.draining:
            raise draining()
        else:
            response.send(200, [])

    async def _reload(self, response: ResponseWriter) -> None:
        try:
            is_changed = await self._reload_document()
        except SliceworksError as error:
            message = f"config reload failed; keeping the previous configuration: {error.message}"
            raise HttpError(422, "invalid_document", message) from error
        response.send(200, [JSON_CONTENT], orjson.dumps({"changed": is_changed}))

    def _status(self) -> dict[str, Any]:
        return {
            "draining": self._application.draining,
            "inFlight": self._router.in_flight,
            "problem": self._read_problem(),
            "models": [
                {
                    "name": served.name,
                    "kind": served.model.kind,
                    "waiting": served.balancer.waiting,
                    "backends": [_backend_status(upstream) for upstream in served.balancer.upstreams],
                }
                for served in self._router.state.models.values()
            ],
        }

    def write_error(self, path: str, error: HttpError, response: ResponseWriter) -> None:
        """Respond with an error in the format of the path's API."""
        errors.send(path, error, response)


def _backend_status(upstream: Upstream) -> dict[str, Any]:
    return {
        "url": upstream.name,
        "healthy": upstream.healthy,
        "circuitOpen": upstream.circuit_open,
        "outstanding": upstream.outstanding,
        "connections": upstream.pool.open_connections,
    }
