"""Admission that objects in the cluster configure: webhooks and policies, parsed when they change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.apiserver import service_endpoints
from sliceworks.twin.apiserver.admission.match_criteria import WriteAttributes
from sliceworks.twin.apiserver.admission.mutating_policy import BINDINGS as MUTATING_BINDINGS
from sliceworks.twin.apiserver.admission.mutating_policy import POLICIES as MUTATING_POLICIES
from sliceworks.twin.apiserver.admission.mutating_policy import MutatingPolicyDispatcher
from sliceworks.twin.apiserver.admission.validating_policy import BINDINGS, POLICIES, PolicyDispatcher
from sliceworks.twin.apiserver.admission.webhook_dispatcher import (
    MUTATING,
    VALIDATING,
    Deadline,
    Reinvocation,
    WebhookDispatcher,
    parse_configurations,
)
from sliceworks.twin.apiserver.webhook_client import CallError, WebhookClient
from sliceworks.twin.store.watch_cache import DELETED

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.twin.apiserver.generic_server import ApiServer
    from sliceworks.twin.apiserver.request_info import Call
    from sliceworks.twin.store.watch_cache import Change

Obj = dict[str, Any]
GROUP = "admissionregistration.k8s.io"


class DynamicAdmission:
    """Webhooks and policies of one cluster."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._objects: dict[str, dict[str, Obj]] = {}
        self._changed = True
        self.client = WebhookClient(self._resolve)
        self._webhooks = WebhookDispatcher(self.client)
        self._policies = PolicyDispatcher()
        self._mutations = MutatingPolicyDispatcher()

    def observe(self, change: Change) -> None:
        """Follow a change of a configuration, policy or binding."""
        objects = self._objects.setdefault(change.resource, {})
        if change.type == DELETED:
            objects.pop(change.name, None)
        else:
            objects[change.name] = change.obj
        self._changed = True

    @property
    def is_empty(self) -> bool:
        """Whether no object configures admission."""
        return not any(self._objects.values())

    def _parse(self) -> None:
        if self._changed:
            self._changed = False
            self._webhooks.mutating = parse_configurations(self._objects.get(MUTATING, {}).values())
            self._webhooks.validating = parse_configurations(self._objects.get(VALIDATING, {}).values())
            mutations, bindings = (self._objects.get(key, {}).values() for key in (MUTATING_POLICIES, MUTATING_BINDINGS))
            self._mutations.configure(mutations, bindings)
            self._policies.configure(self._objects.get(POLICIES, {}).values(), self._objects.get(BINDINGS, {}).values())

    async def mutate(self, call: Call, operation: str, obj: Obj, old: Obj | None, run_plugins: Callable[[], None]) -> None:
        """Run policies, then webhooks. If one changed the object, plugins and what is reinvocable run again."""
        self._parse()
        if call.resource.group == GROUP or not (self._webhooks.mutating or self._mutations.hooks):
            return
        attributes = self._attributes(call, operation, obj, old)
        policies, webhooks, deadline = Reinvocation(), Reinvocation(), Deadline()
        changed = self._mutations.mutate(attributes, policies)
        policies.end_round(attributes.obj)
        changed = await self._webhooks.mutate(attributes, webhooks, deadline) or changed
        webhooks.end_round(attributes.obj)
        if not changed:
            return
        run_plugins()
        if policies.start_again(attributes.obj):
            self._mutations.mutate(attributes, policies, again=True)
        if webhooks.start_again(attributes.obj):
            await self._webhooks.mutate(attributes, webhooks, deadline, again=True)

    async def validate(self, call: Call, operation: str, obj: Obj, old: Obj | None) -> None:
        """Run policies, then validating webhooks."""
        self._parse()
        if call.resource.group == GROUP:
            return
        attributes = self._attributes(call, operation, obj, old)
        self._policies.validate(attributes)
        await self._webhooks.validate(attributes)

    def _attributes(self, call: Call, operation: str, obj: Obj, old: Obj | None) -> WriteAttributes:
        deleted = operation == "DELETE"
        return WriteAttributes(self._server, call, operation, None if deleted else obj, old, _options(call, operation))

    def _resolve(self, namespace: str, name: str, port: int) -> tuple[str, int]:
        try:
            return service_endpoints.resolve_server(self._server, namespace, name, port)
        except service_endpoints.NoEndpoint as error:
            raise CallError(str(error)) from error


def _options(call: Call, operation: str) -> Obj | None:
    kind = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}.get(operation)
    if kind is None:
        return None
    options: Obj = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
    if operation == "DELETE":
        return {**options, **(call.delete_options or {})}
    if call.params.get("dryRun"):
        options["dryRun"] = call.params["dryRun"]
    return options | {name: call.param(name) for name in ("fieldManager", "fieldValidation") if call.param(name)}
