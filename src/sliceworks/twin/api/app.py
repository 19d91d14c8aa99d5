"""The API as one function from request to response: who asks, may they, and who answers.

Everything a client can do wrong ends as an ApiError and is answered with its Status. Nothing of a request is logged but its method,
its path without the query, and the answer's status.
"""

from __future__ import annotations

import gzip
import hashlib
import logging
from typing import TYPE_CHECKING

import orjson

from sliceworks.base.errors import ApiError, BadRequest, InternalError, MethodNotAllowed, RequestEntityTooLarge
from sliceworks.base.names import path_segment_errors
from sliceworks.kube.transport import Request, Response
from sliceworks.twin.api import media, watching
from sliceworks.twin.api.calls import Call
from sliceworks.twin.api.core import unknown_path
from sliceworks.twin.api.discovery import AGGREGATED, Discovery
from sliceworks.twin.api.openapi import OpenApi
from sliceworks.twin.api.patching import patch_type
from sliceworks.twin.api.paths import parse
from sliceworks.twin.api.reviews import Reviews
from sliceworks.twin.auth.impersonation import impersonated

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sliceworks.twin.api.core import Core
    from sliceworks.twin.auth.identity import User
    from sliceworks.twin.auth.tokens import Authenticator

log = logging.getLogger("sliceworks.twin.api")

LARGEST_BODY = 3 * 1024 * 1024
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
_WORTH_PACKING = 128 * 1024
_TEXT = {"content-type": "text/plain; charset=utf-8"}
_NO_PAGE = Response(404, {**_TEXT, "x-content-type-options": "nosniff"}, b"404 page not found\n")
_FOR_PEOPLE = ("curl", "Wget", "Mozilla/5.0")
_HEALTH = {"healthz", "livez", "readyz"}


class Api:
    """Answers requests. `handle` never raises but for cancellation."""

    def __init__(self, core: Core, authenticator: Authenticator) -> None:
        self.core = core
        self._authenticator = authenticator
        self._discovery = Discovery(core.registry, VERSION, core.pages)
        self._openapi = OpenApi(core.customs, core.pages)
        self._reviews = Reviews(core, authenticator)
        self.debug: dict[str, Callable[[Request], Awaitable[Response]]] = {}

    async def handle(self, request: Request, certificate: User | None = None) -> Response:
        try:
            return _finished(request, await self._handle(request, certificate))
        except ApiError as error:
            return media.error_response(error)
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            return media.error_response(InternalError("Internal error occurred: the twin's log says more"))

    async def _handle(self, request: Request, certificate: User | None) -> Response:
        user = self._authenticator.authenticate(request.headers, certificate)
        if any(name.startswith("impersonate-") for name in request.headers):
            user = impersonated(self.core.rbac, user, request.headers)
        params = _params(request)
        target = parse(request.method, request.path, watch=params.get("watch", [""])[0] in {"1", "true"})
        self.core.authorize(user, target)
        if len(request.body) > LARGEST_BODY:
            raise RequestEntityTooLarge(f"Request entity too large: limit is {LARGEST_BODY}")
        if not target.resource:
            return await self._outside(request)
        found = self.core.registry.find(target.group, target.version, target.resource)
        if found is None:
            page = self.core.pages.get(target.group)
            if page is not None:
                return media.json_response(200, orjson.dumps(page.answer(target, params)))
            if not self.core.registry.has_group(target.group):
                return _NO_PAGE
            raise unknown_path()
        call = Call(request, target, user, *found, params)
        if found[1].deprecation:
            call.warnings.append(found[1].deprecation)
        try:
            return await self._route(call)
        except ApiError as error:
            # A refusal may tell of what was written just now, such as a name that is taken: it waits as every answer does.
            await self.core.store.settled()
            return media.error_response(error, call.warnings)

    async def _route(self, call: Call) -> Response:
        target, core = call.target, self.core
        self._check(call)
        if target.subresource:
            return await core.subresources.handle(call)
        if self._reviews.answers(call):
            return await self._reviews.handle(call)
        if call.resource.key == "/bindings":
            return await core.subresources.bind(call)
        verb = target.verb
        if verb == "watch":
            return await watching.watch(core, call)
        if verb == "get":
            return await core.reader.get(call)
        if verb == "list":
            return await core.reader.list_objects(call)
        if verb == "delete":
            return await core.deleter.delete(call)
        if verb == "deletecollection":
            return await core.deleter.delete_collection(call)
        handler: Callable[[Call], Awaitable[Response]] = getattr(core.writer, verb)
        return await handler(call)

    def _check(self, call: Call) -> None:
        """Refuse paths, methods and media types that are not served, in the order in which the real server does."""
        target = call.target
        if target.namespace and not call.resource.namespaced and call.resource.key != "/namespaces":
            raise unknown_path()
        below = call.version.subresources.get(target.subresource)
        if target.subresource and (below is None or target.deeper):
            raise unknown_path()
        verbs = below.verbs if below is not None else call.version.verbs
        placed = target.namespace or not call.resource.namespaced or target.verb in {"list", "watch"}
        named = bool(target.name) or target.verb not in {"update", "patch"}
        misplaced = target.verb == "create" and target.name and below is None
        if call.request.method == "HEAD" or target.verb not in verbs or not placed or not named or misplaced:
            raise MethodNotAllowed("the server does not allow this method on the requested resource", details={})
        if target.verb == "patch":
            patch_type(call)
        call.form = media.accepted(call.request.headers, streamed=target.verb in {"list", "watch"})
        if target.verb == "create":
            media.check_type(media.content_type(call.request.headers), custom=call.resource.custom)
        for problem in path_segment_errors(target.name):
            raise BadRequest(f'Name parameter invalid: "{target.name}": {problem}')

    async def _outside(self, request: Request) -> Response:
        """Paths that are no resources: discovery, OpenAPI, version and health."""
        path = request.path.strip("/")
        if path in self.debug:
            return await self.debug[path](request)
        if request.path.startswith("//"):
            return _NO_PAGE
        if not path:
            return media.json_response(200, orjson.dumps({"paths": self._root()}))
        head = path.partition("/")[0]
        if request.method not in {"GET", "HEAD"}:
            if path in _HEALTH:
                return _health(request, head)
            if head not in {"api", "apis"} or (head == "apis" and path != head and not self._has_group(path)):
                return _NO_PAGE
            if self._discovery.document(path) is None:
                raise unknown_path()
            raise MethodNotAllowed("the server does not allow this method on the requested resource", details={})
        if head in _HEALTH and path.removeprefix(head) in {"", "/ping"}:
            return _health(request, head)
        if path == "version":
            return media.json_response(200, self._discovery.version)
        if path == ".well-known/openid-configuration":
            address = f"https://{request.headers.get('host', 'localhost')}"
            return media.json_response(200, orjson.dumps(self.core.issuer.configuration(address)))
        if path == "openid/v1/jwks":
            return Response(200, {"content-type": "application/jwk-set+json"}, orjson.dumps(self.core.issuer.jwks()))
        if path == "openapi/v2":
            kind, body = self._openapi.legacy(request.headers.get("accept", ""))
            return Response(200, {"content-type": kind, "vary": "Accept", "cache-control": "no-cache, private"}, body)
        if request.path == "/openapi/v3":
            return media.json_response(200, self._openapi.index())
        if path.startswith("openapi/v3/"):
            return self._openapi_document(request, path.removeprefix("openapi/v3/"))
        if head in {"api", "apis"}:
            return self._discover(request, path)
        return _NO_PAGE

    def _discover(self, request: Request, path: str) -> Response:
        accept = request.headers.get("accept", "")
        if path in {"api", "apis"} and "as=APIGroupDiscoveryList" in accept and "v=v2" in accept.replace("v=v2beta1", ""):
            body = self._discovery.document(f"{path}?aggregated")
            assert body is not None
            etag = f'"{hashlib.sha256(body).hexdigest().upper()}"'
            headers = {"content-type": AGGREGATED, "vary": "Accept", "etag": etag, "cache-control": "no-cache, private"}
            return _unless_known(request, Response(200, headers, body))
        media.accepted(request.headers)
        document = self._discovery.document(path)
        if document is None:
            if path.startswith("apis/") and not self._has_group(path):
                return _NO_PAGE
            raise unknown_path()
        return media.json_response(200, document)

    def _has_group(self, path: str) -> bool:
        group = path.split("/")[1]
        return group in self.core.pages or self.core.registry.has_group(group)

    def _openapi_document(self, request: Request, path: str) -> Response:
        document = self._openapi.document(path)
        if document is None:
            return _NO_PAGE
        asked = dict(request.query).get("hash")
        caching = "public, immutable" if asked and asked in self._openapi.etag(path) else "no-cache, private"
        headers = {
            "content-type": media.JSON,
            "etag": self._openapi.etag(path),
            "vary": "Accept",
            "cache-control": caching,
        }
        return _unless_known(request, Response(200, headers, document))

    def _root(self) -> list[str]:
        paths = ["/api", "/api/v1", "/apis"]
        for group, versions in self.core.registry.versions().items():
            if group:
                paths += [f"/apis/{group}", *(f"/apis/{group}/{version}" for version in versions)]
        return sorted([*paths, "/healthz", "/livez", "/readyz", "/openapi/v2", "/openapi/v3", "/version"])


def _health(request: Request, name: str) -> Response:
    headers = {**_TEXT, "x-content-type-options": "nosniff"}
    if "verbose" in dict(request.query):
        return Response(200, headers, f"[+]ping ok\n[+]store ok\n{name} check passed\n".encode())
    return Response(200, headers, b"ok")


def _unless_known(request: Request, response: Response) -> Response:
    """304 for a client that has this very document already."""
    if response.headers["etag"] in request.headers.get("if-none-match", ""):
        return Response(304, response.headers)
    return response


def _finished(request: Request, response: Response) -> Response:
    """Indented for people, compressed for clients far away."""
    if response.headers.get("content-type") == media.JSON and response.stream is None:
        if _for_people(request) and response.body:
            response.body = orjson.dumps(orjson.loads(response.body), option=orjson.OPT_INDENT_2)
        if len(response.body) > _WORTH_PACKING and "gzip" in request.headers.get("accept-encoding", ""):
            response.body = gzip.compress(response.body, 1)
            response.headers = {**response.headers, "content-encoding": "gzip", "vary": "Accept-Encoding"}
    return response


def _for_people(request: Request) -> bool:
    """Whether the answer is read by a person: one who says so, or who sits before curl or a browser and does not say otherwise."""
    wish = dict(request.query).get("pretty") if request.query else None
    if wish:
        return wish in {"1", "true"}
    return request.headers.get("user-agent", "").startswith(_FOR_PEOPLE)


def _params(request: Request) -> dict[str, list[str]]:
    params: dict[str, list[str]] = {}
    for name, value in request.query:
        params.setdefault(name, []).append(value)
    return params
