"""The gateway's HTTP application: authenticates callers and matches routes."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from sliceworks.base.http.messages import HttpError
from sliceworks.base.http.server import Application as HttpApplication
from sliceworks.serving.gateway import errors
from sliceworks.serving.gateway.adapters import create_adapters
from sliceworks.serving.gateway.errors import draining, method_not_allowed, route_not_found
from sliceworks.serving.gateway.router import REQUEST_ID, access_log

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.base.http.messages import Request
    from sliceworks.base.http.response_writer import ResponseWriter
    from sliceworks.serving.gateway.adapters import Adapter
    from sliceworks.serving.gateway.router import Router
    from sliceworks.serving.gateway.state import Caller

PUBLIC_PATHS = frozenset({"/health", "/healthz", "/readyz", "/v2/health/live", "/v2/health/ready"})
"""Paths that require no key: probes of Kubernetes, of load balancers and of Triton's clients."""
_LIVENESS_PATHS = frozenset({"/healthz", "/v2/health/live"})


class Application(HttpApplication):
    """Serves the gateway's main port."""

    def __init__(self, router: Router) -> None:
        self.router = router
        self.draining = False
        self._exact: dict[str, tuple[str, Adapter]] = {}
        self._prefixes: list[tuple[str, str, Adapter]] = []
        for adapter in (HealthProbes(self), *create_adapters(router)):
            for path, methods in adapter.routes().items():
                if path.endswith("/"):
                    self._prefixes.append((path, methods, adapter))
                else:
                    self._exact[path] = (methods, adapter)

    def authenticate(self, method: str, path: str, headers: Mapping[str, str], peer: object = None) -> object:
        """Authenticate the caller and match the route before the body is read; raises HttpError."""
        caller = None
        try:
            if path not in PUBLIC_PATHS:
                caller = self.router.state.keys.authenticate(headers)
            allowed = self._match(method, path)[0]
            if method not in allowed.split() and not (method == "HEAD" and "GET" in allowed):
                raise method_not_allowed(method, path, allowed)
        except HttpError as error:
            self._log_rejection(error, headers, caller)
            raise
        return caller

    def _match(self, method: str, path: str) -> tuple[str, Adapter]:
        route = self._exact.get(path)
        if route is not None:
            return route
        for prefix, allowed, adapter in self._prefixes:
            if path.startswith(prefix):
                return allowed, adapter
        raise route_not_found(method, path)

    async def handle(self, request: Request, response: ResponseWriter) -> None:
        """Respond to a request."""
        _, adapter = self._match(request.method, request.path)
        caller = cast("Caller", request.user)
        try:
            await adapter.handle(request, response, caller)
        except HttpError as error:
            self._log_rejection(error, request.headers, caller)
            raise

    def write_error(self, path: str, error: HttpError, response: ResponseWriter) -> None:
        """Respond with an error in the format of the path's API."""
        self._log_rejection(error, {}, None)
        self.router.metrics.rejected.inc(error.code)
        errors.send(path, error, response)

    def _log_rejection(self, error: HttpError, headers: Mapping[str, str], caller: Caller | None) -> None:
        """Give a request that did not become a call an ID and an entry in the access log. Calls already have both."""
        if REQUEST_ID in error.extra_headers:
            return
        request_id = error.extra_headers[REQUEST_ID] = self.router.request_id(headers)
        if self.router.state.spec.access_log:
            name = caller.name if caller is not None else "-"
            access_log.info("%s %s - - %d 0.000s in=0 out=0", request_id.decode("latin-1"), name, error.status)


class HealthProbes:
    """Responds to liveness and readiness probes."""

    def __init__(self, application: Application) -> None:
        self._application = application

    def routes(self) -> Mapping[str, str]:
        return dict.fromkeys(PUBLIC_PATHS, "GET")

    async def handle(self, request: Request, response: ResponseWriter, caller: Caller | None) -> None:
        """200; 503 for readiness probes while the gateway drains."""
        if request.path not in _LIVENESS_PATHS and self._application.draining:
            raise draining()
        response.send(200, [])
