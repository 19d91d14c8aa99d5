"""The API server: authenticate, authorize and route a request, and what all handlers share (store, registry, admission)."""

from __future__ import annotations

import asyncio
import gzip
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks import schemas
from sliceworks.base import budget
from sliceworks.base.errors import ApiError, BadRequest, InternalError, RequestEntityTooLarge, ServerTimeout
from sliceworks.base.http.flow_control import FlowControl
from sliceworks.base.names import path_segment_errors
from sliceworks.twin.apiserver import codec
from sliceworks.twin.apiserver.admission import certificate_signing, chain, resource_quota
from sliceworks.twin.apiserver.admission.chain import QUOTAS, Admission, ObjectCache
from sliceworks.twin.apiserver.aggregation.api_services import ApiServices
from sliceworks.twin.apiserver.auth import escalation
from sliceworks.twin.apiserver.auth.authentication import impersonate
from sliceworks.twin.apiserver.auth.rbac import GROUP as RBAC_GROUP
from sliceworks.twin.apiserver.auth.rbac import Attributes
from sliceworks.twin.apiserver.handlers import watch
from sliceworks.twin.apiserver.handlers.delete import DeleteHandler
from sliceworks.twin.apiserver.handlers.read import ReadHandler
from sliceworks.twin.apiserver.handlers.review import ReviewHandler
from sliceworks.twin.apiserver.handlers.subresource import SubresourceHandler
from sliceworks.twin.apiserver.handlers.write import WriteHandler
from sliceworks.twin.apiserver.non_resource import PAGE_NOT_FOUND, NonResourceHandler
from sliceworks.twin.apiserver.patch.patcher import patch_type
from sliceworks.twin.apiserver.registry import service_allocator
from sliceworks.twin.apiserver.registry.api_service_strategy import KEY
from sliceworks.twin.apiserver.registry.crd_registry import CrdRegistry
from sliceworks.twin.apiserver.request_info import (
    Call,
    ObjectModified,
    method_not_allowed,
    parse_request_info,
    selected_name,
    unknown_path,
)
from sliceworks.twin.store.entry import Entry

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from ipaddress import IPv4Network
    from pathlib import Path

    from sliceworks.base.transport import Request, Response
    from sliceworks.schemas.field_errors import FieldError
    from sliceworks.twin.apiserver.admission.dynamic_admission import DynamicAdmission
    from sliceworks.twin.apiserver.auth.authentication import Authenticator, User
    from sliceworks.twin.apiserver.auth.rbac import Rbac
    from sliceworks.twin.apiserver.auth.service_account_token import TokenIssuer
    from sliceworks.twin.apiserver.handlers.connect import Kubelet
    from sliceworks.twin.apiserver.registry.resources import AggregatedApi, Registry, Resource
    from sliceworks.twin.apiserver.request_info import RequestInfo
    from sliceworks.twin.store.store import Store
    from sliceworks.twin.store.watch_cache import Change

log = logging.getLogger("sliceworks.twin.apiserver")
Obj = dict[str, Any]
MAX_BODY_BYTES = 3 * 1024 * 1024
_REVISION_TIMEOUT = 3.0
_MIN_GZIP_BYTES = 128 * 1024
_READ_CPU_SECONDS, _WRITE_CPU_SECONDS = 10.0, 3.0
"""CPU time of a request until it waits, about ten times what the largest lists and CRDs need."""
_MEMORY_BYTES = 1 << 30
_MODIFIED_RETRIES = 4
_ADMISSION_GROUP = "admissionregistration.k8s.io/"
_POSTED = frozenset({"binding", "eviction", "token"})
"""Subresources whose response has no table."""
_INTERACTIVE_CLIENTS = ("curl", "Wget", "Mozilla/5.0")


class StoreView:
    """Other objects, read from the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.service_network = service_allocator.SERVICE_NETWORK

    def get(self, resource: str, namespace: str, name: str) -> Obj | None:
        entry = self._store.get(resource, namespace, name)
        return entry.object() if entry else None

    def list(self, resource: str, namespace: str | None = None) -> Iterator[Obj]:
        return (entry.object() for entry in self._store.scan(resource, namespace or None))

    def search(self, resource: str, text: str) -> Iterator[Obj]:
        """The objects whose JSON contains a string: only these are decoded."""
        pattern = text.encode()
        return (entry.object() for entry in self._store.scan(resource) if pattern in entry.data)


class ApiServer:
    """What the handlers of one cluster's API share."""

    kubelet: Kubelet | None = None
    pod_network: IPv4Network | None = None
    """The loopback network of pods that run as processes: endpoints may have addresses in it, which are invalid otherwise."""

    proxy_client: Path | None = None
    """The client certificate that this server shows to aggregated APIs."""

    def __init__(self, store: Store, registry: Registry, rbac: Rbac, issuer: TokenIssuer) -> None:
        self.store = store
        self.registry = registry
        self.rbac = rbac
        self.issuer = issuer
        self.view = StoreView(store)
        self.webhooks = chain.Webhooks()
        self.aggregated_apis: dict[str, AggregatedApi] = {}
        """By group: APIs whose objects are not stored."""
        self.api_services = ApiServices(self)
        self.observers: dict[str, list[Callable[[Change], None]]] = {KEY: [self.api_services.observe]}
        """By resource: what to call for each change, so that most writes call nothing."""
        self.crd_registry = CrdRegistry(store, registry)
        self.reader = ReadHandler(self)
        self.writer = WriteHandler(self)
        self.deleter = DeleteHandler(self)
        self.subresources = SubresourceHandler(self)
        self._objects = ObjectCache(store)
        self._dynamic: DynamicAdmission | None = None
        self.dynamic: DynamicAdmission | None = None
        """Webhooks and policies that objects in the cluster configure; None while there are no such objects."""
        store.subscribe(self._observe)

    def _observe(self, change: Change) -> None:
        for observer in self.observers.get(change.resource, ()):
            observer(change)
        if change.resource.startswith(_ADMISSION_GROUP):
            self._observe_admission(change)

    def _observe_admission(self, change: Change) -> None:
        dynamic = self._get_dynamic()
        dynamic.observe(change)
        self.dynamic = None if dynamic.is_empty else dynamic

    def _get_dynamic(self) -> DynamicAdmission:
        if self._dynamic is None:
            from sliceworks.twin.apiserver.admission.dynamic_admission import DynamicAdmission

            self._dynamic = DynamicAdmission(self)
        return self._dynamic

    async def served_entries(self, call: Call, entries: list[Entry]) -> list[Entry]:
        """Stored objects for the version of a call: converted by the webhook of their definition, if it has one."""
        if call.resource.conversion is None or not entries:
            return entries
        from sliceworks.twin.apiserver.conversion_webhook import convert_entries

        return await convert_entries(self._get_dynamic().client, call.resource, call.version, entries)

    async def served_entry(self, call: Call, entry: Entry) -> Entry:
        """One stored object for the version of a call."""
        return entry if call.resource.conversion is None else (await self.served_entries(call, [entry]))[0]

    async def to_storage(self, call: Call, obj: Obj) -> Obj:
        """An object for the store: converted by the webhook of its definition, if it has one."""
        resource = call.resource
        if resource.conversion is None or call.version.name == resource.storage_version:
            return obj
        from sliceworks.twin.apiserver.conversion_webhook import convert

        version = self.crd_registry.storage_version(resource)
        return (await convert(self._get_dynamic().client, resource, version, [obj]))[0]

    async def close(self) -> None:
        """Close the connections to webhooks."""
        if self._dynamic is not None:
            await self._dynamic.client.close()

    def authorize(self, user: User, target: RequestInfo, *, verb: str = "", name: str = "") -> None:
        """Raise Forbidden unless the user may perform the request, or another verb on the same target or one with a name."""
        self.rbac.require(
            Attributes(
                user=user,
                verb=verb or target.verb,
                group=target.group,
                version=target.version,
                resource=target.resource,
                subresource=target.subresource,
                namespace=target.namespace,
                name=name or target.name,
                path="" if target.resource else target.path,
            )
        )

    async def admit(self, call: Call, operation: str, obj: Obj, old: Obj | None) -> None:
        """Run mutating admission, before validation; a deletion's validating admission too."""
        call.admission = Admission(
            user=call.user,
            operation=operation,
            resource=call.resource.key,
            subresource=call.target.subresource,
            namespace=call.namespace,
            name=call.target.name,
            dry_run=call.dry_run,
            get=self._objects.get,
            find_all=self._objects.find_all,
            warn=call.warnings.append,
        )
        self._run_mutating(call, obj, old)
        if self.dynamic is not None and not call.body_admitted:
            await self.dynamic.mutate(call, operation, obj, old, lambda: self._run_mutating(call, obj, old))
            if operation == chain.DELETE:
                await self.dynamic.validate(call, operation, obj, old)

    def _run_mutating(self, call: Call, obj: Obj, old: Obj | None) -> None:
        assert call.admission is not None
        webhook_ran = chain.admit(call.admission, obj, old, call.resource.strategy, self.webhooks)
        if webhook_ran and call.resource.custom:
            # Fields that a webhook adds get their defaults too.
            schemas.set_defaults(call.version.schema(), obj)

    async def admit_body(self, call: Call, operation: str, body: Obj, old: Obj | None = None) -> None:
        """Run webhooks and policies on the body of a subresource or review, which has another kind than the resource."""
        if self.dynamic is not None:
            await self.dynamic.mutate(call, operation, body, old, lambda: None)
            await self.dynamic.validate(call, operation, body, old)

    async def validate_admission(self, call: Call, obj: Obj, old: Obj | None) -> None:
        """Run validating admission and the RBAC escalation check on a valid object."""
        assert call.admission is not None
        ctx = call.admission
        chain.validate(ctx, obj, old, call.resource.strategy, self.webhooks)
        if self.dynamic is not None and not call.body_admitted:
            await self.dynamic.validate(call, ctx.operation, obj, old)
        if ctx.namespace and ctx.operation != chain.DELETE and (quotas := ctx.find_all(QUOTAS, ctx.namespace)):
            resource_quota.charge(ctx, obj, old, quotas)
        if call.resource.group == RBAC_GROUP:
            write = escalation.Write(call.user, call.resource.plural, call.namespace, call.name)
            escalation.check(self.rbac, write, obj, old)
        elif call.resource.key == certificate_signing.KEY and old is not None:
            certificate_signing.check_signer(self.rbac, ctx, obj, old)

    def write_quota_charges(self, call: Call) -> None:
        """Add the usage of an admitted object to the status of its quotas."""
        charges = call.admission.charges if call.admission else ()
        for charge in charges:
            quota = self.view.get("/resourcequotas", charge.namespace, charge.name)
            if quota is not None and not call.dry_run:
                quota["status"] = {**(quota.get("status") or {}), "used": charge.used}
                self.store.put("/resourcequotas", charge.namespace, charge.name, quota)

    def cel(self, schema: Any, value: Any, old: Any, path: str) -> list[FieldError]:
        """Evaluate the CEL rules of a schema."""
        from sliceworks.cel.rules import evaluate_rules

        return evaluate_rules(schema, value, old, path)

    async def wait_for_revision(self, revision: int) -> None:
        """Return once the store has reached a revision; raise ServerTimeout if it does not."""
        if revision <= self.store.revision:
            return
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _REVISION_TIMEOUT
        while revision > self.store.revision:
            if loop.time() >= deadline:
                cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
                raise ServerTimeout(
                    f"Timeout: Too large resource version: {revision}, current: {self.store.revision}",
                    details={"causes": [cause], "retryAfterSeconds": 1},
                )
            await asyncio.sleep(0.05)

    def put(self, resource: Resource, namespace: str, name: str, obj: Obj, dry_run: bool) -> Entry:
        """Store an object; a dry run only returns its entry."""
        if dry_run:
            return Entry(resource.storage_key, namespace, name, 0, orjson.dumps(obj))
        return self.store.put(resource.storage_key, namespace, name, obj)

    def remove(self, resource: Resource, namespace: str, name: str, obj: Obj, dry_run: bool) -> Entry:
        """Delete an object; a dry run only returns its entry."""
        if dry_run:
            return Entry(resource.storage_key, namespace, name, 0, orjson.dumps(obj))
        return self.store.remove(resource.storage_key, namespace, name, obj)


class ApiHandler:
    """Handles requests. `handle` raises nothing but CancelledError."""

    def __init__(self, server: ApiServer, authenticator: Authenticator) -> None:
        self.server = server
        self._authenticator = authenticator
        self._non_resource = NonResourceHandler(server)
        self._reviews = ReviewHandler(server, authenticator)
        self._flow_control = FlowControl()

    @property
    def debug(self) -> dict[str, Callable[[Request], Awaitable[Response]]]:
        """Handlers of the twin's own debug paths."""
        return self._non_resource.debug

    async def handle_remote(self, request: Request, certificate: User | None = None) -> Response:
        """Handle a request of a client in another process: it waits while requests of others come first."""
        return await self.handle(request, certificate, flow_control=self._flow_control)

    async def handle(
        self, request: Request, certificate: User | None = None, *, flow_control: FlowControl | None = None
    ) -> Response:
        try:
            seconds = _READ_CPU_SECONDS if request.method in {"GET", "HEAD"} else _WRITE_CPU_SECONDS
            handling = self._handle(request, certificate, flow_control)
            return await _finish(request, await budget.limited(handling, seconds, _MEMORY_BYTES))
        except ApiError as error:
            return codec.error_response(error, request.headers)
        except budget.BudgetExceeded as exceeded:
            log.warning("%s %s exceeded its %s budget", request.method, request.path, exceeded.resource)
            message = f"Request entity too large: its processing exceeds the {exceeded.resource} budget"
            return codec.error_response(RequestEntityTooLarge(message), request.headers)
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            return codec.error_response(InternalError("Internal error occurred: see the log of the twin"), request.headers)

    def admit(self, request: Request, certificate: User | None) -> None:
        """Raise Unauthorized or Forbidden for a request whose sender may not make it; the body is not needed."""
        self._authorize(request, certificate, _params(request))

    def _authorize(self, request: Request, certificate: User | None, params: dict[str, list[str]]) -> tuple[User, RequestInfo]:
        user = self._authenticator.authenticate(request.headers, certificate)
        if any(name.startswith("impersonate-") for name in request.headers):
            user = impersonate(self.server.rbac, user, request.headers)
        target = parse_request_info(request.method, request.path, watch=params.get("watch", [""])[0] in {"1", "true"})
        self.server.authorize(user, target, name=selected_name(target, params))
        return user, target

    async def _handle(self, request: Request, certificate: User | None, flow_control: FlowControl | None) -> Response:
        params = _params(request)
        user, target = self._authorize(request, certificate, params)
        if len(request.body) > MAX_BODY_BYTES:
            raise RequestEntityTooLarge(f"Request entity too large: limit is {MAX_BODY_BYTES}")
        remote = self.server.api_services.find(target.path) if self.server.api_services.remotes else None
        if remote is None and not target.resource:
            return await self._non_resource.handle(request)
        if flow_control is not None:
            await flow_control.wait(user.name, user.flow_priority)
        if remote is not None:
            return await remote.proxy(request, target, user)
        served = self.server.registry.find(target.group, target.version, target.resource)
        if served is None:
            return self._handle_aggregated(target, params)
        resource, version = served
        call = Call(request, target, user, resource, version, params)
        if version.deprecation:
            call.warnings.append(version.deprecation)
        try:
            return await self._route_again(call)
        except ApiError as error:
            # An error may reveal a pending write, such as a name that is taken: it waits until that is durable, as responses do.
            await self.server.store.wait_durable()
            return codec.error_response(error, request.headers, call.warnings)

    def _handle_aggregated(self, target: RequestInfo, params: dict[str, list[str]]) -> Response:
        api = self.server.aggregated_apis.get(target.group)
        if api is not None:
            return codec.json_response(200, orjson.dumps(api.answer(target, params)))
        if not self.server.registry.has_group(target.group):
            return PAGE_NOT_FOUND
        raise unknown_path()

    async def _route_again(self, call: Call) -> Response:
        """Handle a call; again if its object changed while webhooks were called."""
        for _ in range(_MODIFIED_RETRIES):
            try:
                return await self._route(call)
            except ObjectModified:
                call.warnings.clear()
        return await self._route(call)

    async def _route(self, call: Call) -> Response:
        server, verb = self.server, call.target.verb
        self._check(call)
        if call.target.subresource:
            return await server.subresources.handle(call)
        if call.resource.strategy.create_only:
            return await (server.subresources.bind(call) if call.resource.key == "/bindings" else self._reviews.handle(call))
        if verb == "watch":
            return await watch.serve_watch(server, call)
        if verb == "get":
            return await server.reader.get(call)
        if verb == "list":
            return await server.reader.list_objects(call)
        if verb == "delete":
            return await server.deleter.delete(call)
        if verb == "deletecollection":
            return await server.deleter.delete_collection(call)
        handler: Callable[[Call], Awaitable[Response]] = getattr(server.writer, verb)
        return await handler(call)

    def _check(self, call: Call) -> None:
        """Reject paths, methods and media types that are not served, in kube-apiserver's order."""
        target = call.target
        if target.namespace and not call.resource.namespaced and call.resource.key != "/namespaces":
            raise unknown_path()
        if target.name and not target.namespace and call.resource.namespaced:
            raise unknown_path()  # controllers take it for an object that does not exist
        subresource = call.version.subresources.get(target.subresource)
        is_proxied = target.subresource == "proxy"
        if target.subresource and (subresource is None or (target.deeper and not is_proxied)):
            raise unknown_path()
        verbs = subresource.verbs if subresource is not None else call.version.verbs
        has_scope = target.namespace or not call.resource.namespaced or target.verb in {"list", "watch"}
        has_name = bool(target.name) or target.verb not in {"update", "patch"}
        creates_by_name = target.verb == "create" and target.name and subresource is None
        has_verb = target.verb in verbs and call.request.method != "HEAD"
        if is_proxied:  # the pod or Service decides what it answers
            has_verb = has_verb or call.request.method in {"HEAD", "OPTIONS"}
        if not has_verb or not has_scope or not has_name or creates_by_name:
            raise method_not_allowed()
        if is_proxied:
            return  # the pod or Service decides which media types it accepts
        if target.verb == "patch":
            patch_type(call)
        tables = not (call.resource.strategy.create_only or target.subresource in _POSTED)
        custom = call.resource.custom and target.subresource != "scale"
        is_streamed = target.verb in {"list", "watch"}
        call.form = codec.negotiate_output(call.request.headers, streamed=is_streamed, tables=tables, custom=custom)
        if target.verb == "create":
            codec.check_content_type(codec.content_type(call.request.headers), custom=call.resource.custom)
        for problem in path_segment_errors(target.name):
            raise BadRequest(f'Name parameter invalid: "{target.name}": {problem}')


async def _finish(request: Request, response: Response) -> Response:
    """Indent JSON for interactive clients, and compress large responses."""
    media = response.headers.get("content-type")
    if media in {codec.JSON, codec.PROTOBUF} and response.stream is None:
        if media == codec.JSON and _is_pretty(request) and response.body:
            response.body = await budget.run_by_size(len(response.body), partial(_indent, response.body))
        if len(response.body) > _MIN_GZIP_BYTES and "gzip" in request.headers.get("accept-encoding", ""):
            response.body = await budget.run_by_size(len(response.body), partial(gzip.compress, response.body, 1))
            response.headers = {**response.headers, "content-encoding": "gzip", "vary": "Accept-Encoding"}
    return response


def _indent(body: bytes) -> bytes:
    return orjson.dumps(orjson.loads(body), option=orjson.OPT_INDENT_2)


def _is_pretty(request: Request) -> bool:
    """Whether to indent: by the `pretty` option, else for curl, Wget and browsers."""
    pretty = dict(request.query).get("pretty") if request.query else None
    if pretty:
        return pretty in {"1", "true"}
    return request.headers.get("user-agent", "").startswith(_INTERACTIVE_CLIENTS)


def _params(request: Request) -> dict[str, list[str]]:
    params: dict[str, list[str]] = {}
    for name, value in request.query:
        params.setdefault(name, []).append(value)
    return params
