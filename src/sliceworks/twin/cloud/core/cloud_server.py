"""Dispatches a request to its service and route: authentication, enabled services, permissions, faults, response.

    status, headers, body = await cloud.handle("GET", "/container/v1/projects/p/locations/-/clusters", headers, b"")

A call takes effect in one transaction of the store or not at all; the response is sent once the transaction is durable.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qsl

import orjson

from sliceworks.base import clock
from sliceworks.base.transport import Request, Response
from sliceworks.catalog import gke_rules
from sliceworks.twin.cloud.core import exceptions
from sliceworks.twin.cloud.core.authorization import AccessTokens, Authorizer
from sliceworks.twin.cloud.core.document_store import Table
from sliceworks.twin.cloud.core.enabled_services import EnabledServices
from sliceworks.twin.cloud.core.exceptions import GoogleError
from sliceworks.twin.cloud.core.faults import Faults
from sliceworks.twin.cloud.core.routes import Call, Media

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sliceworks.twin.apiserver.auth.authentication import User
    from sliceworks.twin.cloud.core.routes import Route
    from sliceworks.twin.cloud.core.service import Service
    from sliceworks.twin.store.store import Store

log = logging.getLogger(__name__)

Obj = dict[str, Any]
RawResponse = tuple[int, dict[str, str], bytes]
_JSON = {"content-type": "application/json; charset=UTF-8"}
_MAX_QUERY_FIELDS = 200
_GET_TOKEN = "iam.serviceAccounts.getAccessToken"
IMPERSONATION = "~"
"""Separates a caller's token from the service account that the caller acts as. Such a token does not expire, whatever the speed of
the twin's clock; the permission is checked on every call."""


class CloudServer:
    """Google's APIs of one twin. `tokens` maps accepted bearer tokens to callers."""

    def __init__(self, store: Store, services: Iterable[Service], tokens: Mapping[str, str], faults: Faults | None = None) -> None:
        self.services = {service.name: service for service in services}
        self.faults = faults or Faults(store)
        self._store = store
        self._tokens = dict(tokens)
        self._authorizer = Authorizer(store)
        self._access_tokens = AccessTokens(store)
        self._enabled_services = EnabledServices(store)
        self._buckets = Table(store, "storage/buckets", "Bucket")

    def start(self) -> None:
        """Start every service."""
        for service in self.services.values():
            service.start()

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for service in self.services.values():
            await service.stop()

    async def handle(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> RawResponse:
        """Handle one request. `target` is a raw path with an optional query; header names are in lower case."""
        path, _, query = target.partition("?")
        try:
            pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=_MAX_QUERY_FIELDS)
        except ValueError:
            return _error_response(exceptions.invalid_argument("Request contains an invalid argument."))
        return await self._respond(method, path, pairs, headers, body)

    async def serve(self, request: Request, _certificate: User | None = None) -> Response:
        """Handle one request of the twin's HTTP server."""
        status, headers, body = await self._respond(request.method, request.path, request.query, request.headers, request.body)
        return Response(status, headers, body)

    async def _respond(
        self, method: str, path: str, query: Sequence[tuple[str, str]], headers: Mapping[str, str], body: bytes
    ) -> RawResponse:
        try:
            caller = self._authenticate(headers)
            service, version, rest = self._find_service(self._resolve_alias(path))
            match = service.versions[version].find(method, rest)
            if match is None:
                raise _unimplemented(method, path)
            schema = service.versions[version].schema
            message, raw = (schema.read(match.route.request, body), b"") if schema else ({}, body)
            call = Call(
                service.name,
                version,
                match.route.method,
                match.params,
                dict(query),
                message,
                caller,
                raw,
                headers.get("content-type", ""),
                headers,
                tuple(query),
            )
            result = await self._call(service, match.route, call, rest)
        except GoogleError as error:
            # An error can depend on a write that is not durable yet, such as ALREADY_EXISTS.
            await self._store.wait_durable()
            return _error_response(error)
        except Exception:
            log.exception("%s %s failed", method, path)
            return _error_response(GoogleError("INTERNAL", "Internal error encountered."))
        if isinstance(result, Media):
            return result.status, {"content-type": result.content_type, **result.headers}, result.data
        return 200, dict(_JSON), orjson.dumps(result)

    async def _call(self, service: Service, route: Route, call: Call, path: str) -> Obj | Media:
        attributes = {**service.attributes(call), "service": call.service, "method": call.method, "permission": route.permission}
        self._authorize(route, call, path, attributes)
        fault = self.faults.inject("request", attributes)
        if fault is not None:
            if fault.seconds:
                await clock.sleep(fault.seconds)
            raise fault.error(attributes)
        result = route.handler(call)
        await self._store.wait_durable()
        fault = self.faults.inject("response", attributes)
        if fault is not None:
            await clock.sleep(fault.seconds or 0.0)
            if fault.kind.status:
                raise fault.error(attributes)
        return result

    def _authorize(self, route: Route, call: Call, path: str, attributes: Mapping[str, str]) -> None:
        """Raise PERMISSION_DENIED if the project has not enabled the service or the caller lacks the permission of the method."""
        project = self._project(call)
        self._enabled_services.check(call.service, project)
        if not route.permission or ("bucket" in call.params and not project):
            return  # Cloud Storage tells every caller that a bucket does not exist
        if not self._authorizer.is_allowed(call.caller, route.permission, project, _policy_resource(call, path, project)):
            rule = _PERMISSION_RULES.get(call.service, "permission-denied")
            if route.permission == _GET_TOKEN:
                rule = "access-token"
            resource = attributes.get("resource") or f"projects/{project}"
            violation = gke_rules.violate(rule, permission=route.permission, resource=resource)
            raise exceptions.refusal(violation, permission=route.permission)

    def _project(self, call: Call) -> str:
        project = call.params.get("project") or call.query.get("project") or ""
        if project == "-":
            return call.params.get("account", "").partition("@")[2].partition(".")[0]
        if not project and "bucket" in call.params:
            bucket = self._buckets.get(_BUCKETS, call.params["bucket"])
            return str(bucket.inner["project"]) if bucket else ""
        return project

    def _authenticate(self, headers: Mapping[str, str]) -> str:
        scheme, _, token = headers.get("authorization", "").strip().partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise exceptions.no_credentials()
        own, _, account = token.strip().partition(IMPERSONATION)
        caller = self._tokens.get(own) or self._access_tokens.find(own)
        if caller is None:
            raise exceptions.bad_credentials()
        return self._impersonate(caller, account) if account else caller

    def _impersonate(self, caller: str, account: str) -> str:
        """The service account that a caller acts as; raises PERMISSION_DENIED without the permission to get its tokens."""
        project = account.partition("@")[2].partition(".")[0]
        resource = ("iam", f"projects/{project}/serviceAccounts/{account}")
        if not self._authorizer.is_allowed(caller, _GET_TOKEN, project, resource):
            raise exceptions.refusal(gke_rules.violate("access-token"), permission=_GET_TOKEN)
        return account

    def _find_service(self, path: str) -> tuple[Service, str, str]:
        """Return the service of a path, the API version and the rest of the path."""
        name, _, rest = path.lstrip("/").partition("/")
        version, _, rest = rest.partition("/")
        service = self.services.get(name)
        if service is None or version not in service.versions:
            raise _unimplemented("", path)
        return service, version, rest

    def _resolve_alias(self, path: str) -> str:
        """Return the canonical path: some clients omit the service name."""
        if path.lstrip("/").partition("/")[0] in self.services:
            return path
        aliases = (service.resolve_alias(path) for service in self.services.values())
        return next(filter(None, aliases), path)


_PERMISSION_RULES = {"container": "permission-container", "compute": "permission-compute"}
_BUCKETS = "buckets"


def _policy_resource(call: Call, path: str, project: str) -> tuple[str, str]:
    """Service and path of the IAM policy of the resource that a call names."""
    if "bucket" in call.params:
        return "storage", f"b/{call.params['bucket']}"
    if "account" in call.params:
        return "iam", f"projects/{project}/serviceAccounts/{call.params['account']}"
    head, slash, last = path.rpartition("/")
    return call.service, head + slash + last.partition(":")[0]


def _error_response(error: GoogleError) -> RawResponse:
    return error.code, dict(_JSON), orjson.dumps(error.body())


def _unimplemented(method: str, path: str) -> GoogleError:
    """Neither 404, which reports a deleted resource, nor 503, which clients retry."""
    return GoogleError("UNIMPLEMENTED", f"{f'{method} ' if method else ''}{path}: the twin does not implement this method")
