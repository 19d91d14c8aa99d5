"""Paths that are not resources: discovery, OpenAPI, version, health and OpenID configuration."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import orjson

from sliceworks.base.transport import Request, Response
from sliceworks.twin.apiserver import codec
from sliceworks.twin.apiserver.discovery import AGGREGATED, Discovery
from sliceworks.twin.apiserver.openapi.documents import OpenApi
from sliceworks.twin.apiserver.request_info import method_not_allowed, unknown_path

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sliceworks.twin.apiserver.generic_server import ApiServer

VERSION = {
    "major": "1",
    "minor": "35",
    "emulationMajor": "1",
    "emulationMinor": "35",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "34",
    "gitVersion": "v1.35.4+sliceworks",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "",
}
_TEXT = {"content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff"}
PAGE_NOT_FOUND = Response(404, _TEXT, b"404 page not found\n")
_VERSION_PARTS = 3
"""The number of path segments of a group's version: apis/GROUP/VERSION."""
_HEALTH_CHECKS = {"healthz", "livez", "readyz"}
_FAIRNESS = {
    "x-kubernetes-pf-flowschema-uid": "5c7e0b1e-8f5c-4b6a-9d52-0b7c6a8e1f10",
    "x-kubernetes-pf-prioritylevel-uid": "1d2f3c44-6a77-4e0b-8c3e-2f9b5d7a6e21",
}
"""Clients that find API Priority and Fairness here do not limit their own requests; the twin shares its time between clients."""


class NonResourceHandler:
    """Handles requests for non-resource paths."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._discovery = Discovery(server.registry, VERSION, server.aggregated_apis, server.api_services)
        self._openapi = OpenApi(server.crd_registry, server.aggregated_apis, server.api_services)
        self.debug: dict[str, Callable[[Request], Awaitable[Response]]] = {}

    async def handle(self, request: Request) -> Response:
        path = request.path.strip("/")
        if path in self.debug:
            return await self.debug[path](request)
        if request.path.startswith("//"):
            return PAGE_NOT_FOUND
        if not path:
            return codec.json_response(200, orjson.dumps({"paths": self._paths()}))
        head = path.partition("/")[0]
        if request.method not in {"GET", "HEAD"}:
            if path in _HEALTH_CHECKS:
                return _health(request, head)
            if head not in {"api", "apis"} or (head == "apis" and path != head and not self._has_group(path)):
                return PAGE_NOT_FOUND
            raise unknown_path() if self._discovery.document(path) is None else method_not_allowed()
        if head in _HEALTH_CHECKS and path.removeprefix(head) in {"", "/ping"}:
            return _health(request, head)
        if path == "version":
            return codec.json_response(200, self._discovery.version)
        if path == ".well-known/openid-configuration":
            address = f"https://{request.headers.get('host', 'localhost')}"
            return _published("application/json", self._server.issuer.configuration(address))
        if path == "openid/v1/jwks":
            return _published("application/jwk-set+json", self._server.issuer.jwks())
        if path == "openapi/v2":
            media_type, body = self._openapi.legacy(request.headers.get("accept", ""))
            return Response(200, {"content-type": media_type, "vary": "Accept", "cache-control": "no-cache, private"}, body)
        if request.path == "/openapi/v3":
            return codec.json_response(200, self._openapi.index())
        if path.startswith("openapi/v3/"):
            return self._openapi_document(request, path.removeprefix("openapi/v3/"))
        if head in {"api", "apis"}:
            return self._discover(request, path)
        return PAGE_NOT_FOUND

    def _discover(self, request: Request, path: str) -> Response:
        is_root = path in {"api", "apis"}
        parts = path.split("/")
        form = codec.negotiate_discovery(
            request.headers, aggregated=is_root, is_group=parts[0] == "apis" and len(parts) < _VERSION_PARTS
        )
        if form.view:
            return self._discover_aggregated(request, path, form)
        document = self._discovery.document(path)
        if document is None:
            if path.startswith("apis/") and not self._has_group(path):
                return PAGE_NOT_FOUND
            raise unknown_path()
        return codec.json_response(200, document, form)

    def _discover_aggregated(self, request: Request, path: str, form: codec.MediaTypeOptions) -> Response:
        document = self._discovery.document(f"{path}?aggregated")
        assert document is not None
        headers = {
            "content-type": AGGREGATED.replace(codec.JSON, form.media),
            "vary": "Accept",
            "etag": f'"{hashlib.sha256(document).hexdigest().upper()}"',
            "cache-control": "no-cache, private",
        }
        return _unless_cached(request, Response(200, headers, codec.json_response(200, document, form).body))

    def _has_group(self, path: str) -> bool:
        group = path.split("/")[1]
        server = self._server
        return group in server.aggregated_apis or server.registry.has_group(group) or server.api_services.has_group(group)

    def _openapi_document(self, request: Request, path: str) -> Response:
        document = self._openapi.document(path)
        if document is None:
            return PAGE_NOT_FOUND
        requested_hash = dict(request.query).get("hash")
        immutable = requested_hash and requested_hash in self._openapi.etag(path)
        headers = {
            "content-type": codec.JSON,
            "etag": self._openapi.etag(path),
            "vary": "Accept",
            "cache-control": "public, immutable" if immutable else "no-cache, private",
        }
        return _unless_cached(request, Response(200, headers, document))

    def _paths(self) -> list[str]:
        paths = ["/api", "/api/v1", "/apis"]
        for group, versions in self._server.registry.versions().items():
            if group:
                paths += [f"/apis/{group}", *(f"/apis/{group}/{version}" for version in versions)]
        for group, version in self._server.api_services.group_versions():
            paths += [f"/apis/{group}", f"/apis/{group}/{version}"]
        return sorted({*paths, "/healthz", "/livez", "/readyz", "/openapi/v2", "/openapi/v3", "/version"})


def _published(media: str, document: dict[str, object]) -> Response:
    """A document about the issuer of tokens, which clients may cache."""
    return Response(200, {"content-type": media, "cache-control": "public, max-age=3600"}, orjson.dumps(document))


def _health(request: Request, name: str) -> Response:
    if "verbose" in dict(request.query):
        return Response(200, _TEXT, f"[+]ping ok\n[+]store ok\n{name} check passed\n".encode())
    return Response(200, {**_TEXT, **_FAIRNESS}, b"ok")


def _unless_cached(request: Request, response: Response) -> Response:
    """304 if the client already has the document with this ETag."""
    if response.headers["etag"] in request.headers.get("if-none-match", ""):
        return Response(304, response.headers)
    return response
