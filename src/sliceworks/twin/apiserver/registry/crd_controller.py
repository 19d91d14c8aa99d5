"""The CustomResourceDefinition controller: accepts names, establishes, and finalizes.

It is level-triggered: it reconciles the stored state and keeps none of its own.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.conditions import is_condition_true
from sliceworks.base.retry import Backoff
from sliceworks.base.transport import Request
from sliceworks.kube.workqueue import WorkQueue, run_worker
from sliceworks.twin.apiserver.auth.authentication import User
from sliceworks.twin.apiserver.codec import MediaTypeOptions
from sliceworks.twin.apiserver.handlers.delete import DeleteOptions
from sliceworks.twin.apiserver.registry import crd_strategy
from sliceworks.twin.apiserver.registry.crd_registry import FINALIZER, KEY
from sliceworks.twin.apiserver.request_info import Call, RequestInfo
from sliceworks.twin.store.watch_cache import DELETED, Change

if TYPE_CHECKING:
    from sliceworks.twin.apiserver.generic_server import ApiServer
    from sliceworks.twin.apiserver.registry.resources import Resource, Version

log = logging.getLogger(__name__)
Obj = dict[str, Any]
_USER = User("system:apiserver", groups=("system:masters",))


class CrdController:
    """Reconciles definitions one at a time. A failed definition is requeued with backoff."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._queue: WorkQueue[str] = WorkQueue(Backoff(first=0.01, cap=60.0, jitter=0.0))
        self._terminating: dict[str, str] = {}

    async def run(self) -> None:
        """Reconcile until cancelled."""
        self._server.store.subscribe(self._observe)
        await run_worker(self._queue, self._sync, self._failed)

    def _observe(self, change: Change) -> None:
        if change.resource == KEY:
            self._queue.add(change.name)
        elif change.type == DELETED and change.resource in self._terminating:
            self._queue.add(self._terminating[change.resource])

    async def _sync(self, name: str) -> None:
        self._reconcile(name)

    def _failed(self, name: str, error: Exception) -> None:
        log.error("failed to reconcile CustomResourceDefinition %s", name, exc_info=error)
        self._queue.add_rate_limited(name)

    def _reconcile(self, name: str) -> None:
        entry = self._server.store.get(KEY, "", name)
        if entry is None:
            self._terminating = {key: other for key, other in self._terminating.items() if other != name}
            return
        definition = entry.object()
        if definition["metadata"].get("deletionTimestamp"):
            self._terminate(definition)
        elif self._update_status(definition):
            self._put(definition)

    def _update_status(self, definition: Obj) -> bool:
        """Update accepted names and conditions; returns whether anything changed."""
        status = definition.setdefault("status", {})
        old_status = repr(status)
        names = definition["spec"]["names"]
        conflict = self._conflict(definition)
        now = clock.timestamp()
        if conflict is None:
            status["acceptedNames"] = dict(names)
            crd_strategy.set_condition(definition, _condition("NamesAccepted", "True", "NoConflicts", "no conflicts found", now))
            message = "the initial names have been accepted"
            crd_strategy.set_condition(definition, _condition("Established", "True", "InitialNamesAccepted", message, now))
        else:
            crd_strategy.set_condition(definition, _condition("NamesAccepted", "False", *conflict, now))
            if not is_condition_true(definition, "Established"):
                crd_strategy.set_condition(
                    definition, _condition("Established", "False", "NotAccepted", "not all names are accepted", now)
                )
        return repr(status) != old_status

    def _conflict(self, definition: Obj) -> tuple[str, str] | None:
        spec = definition["spec"]
        names = spec["names"]
        others = [other for other in self._server.registry if other.group == spec["group"] and other.plural != names["plural"]]
        taken = {name for other in others for name in (other.plural, other.singular, *other.short_names)}
        kinds = {kind for other in others for kind in (other.kind, other.list_kind)}
        claims = (
            ("PluralConflict", names["plural"], taken),
            ("SingularConflict", names.get("singular"), taken),
            ("ShortNamesConflict", next((name for name in names.get("shortNames") or () if name in taken), None), taken),
            ("KindConflict", names["kind"], kinds),
            ("ListKindConflict", names.get("listKind"), kinds),
        )
        conflicts = [(reason, f'"{value}" is already in use') for reason, value, used in claims if value and value in used]
        return conflicts[-1] if conflicts else None

    def _terminate(self, definition: Obj) -> None:
        spec = definition["spec"]
        resource = self._server.registry.get(spec["group"], spec["names"]["plural"])
        key = f"{spec['group']}/{spec['names']['plural']}"
        self._terminating[key] = definition["metadata"]["name"]
        if resource is not None:
            self._delete_instances(resource, self._server.crd_registry.storage(definition))
        if self._server.store.count(key):
            message = "CustomResource deletion is in progress"
            condition = _condition("Terminating", "True", "InstanceDeletionInProgress", message, clock.timestamp())
            if crd_strategy.set_condition(definition, condition):
                self._put(definition)
            return
        metadata = definition["metadata"]
        metadata["finalizers"] = [name for name in metadata.get("finalizers") or () if name != FINALIZER]
        if metadata["finalizers"]:
            condition = _condition("Terminating", "False", "InstanceDeletionCompleted", "removed all instances", clock.timestamp())
            crd_strategy.set_condition(definition, condition)
            self._put(definition)
            return
        del metadata["finalizers"]
        self._server.store.remove(KEY, "", metadata["name"], definition)

    def _delete_instances(self, resource: Resource, version: Version) -> None:
        call = _delete_call(resource, version)
        for entry in list(self._server.store.scan(resource.storage_key)):
            if not entry.object()["metadata"].get("deletionTimestamp"):
                target = replace(call.target, namespace=entry.namespace, name=entry.name)
                self._server.deleter.remove_admitted(replace(call, target=target), entry, DeleteOptions())

    def _put(self, definition: Obj) -> None:
        self._server.store.put(KEY, "", definition["metadata"]["name"], definition)


def _delete_call(resource: Resource, version: Version) -> Call:
    target = RequestInfo("delete", "", resource.plural, resource.group, version.name)
    return Call(Request("DELETE", ""), target, _USER, resource, version, {}, MediaTypeOptions())


def _condition(kind: str, status: str, reason: str, message: str, now: str) -> Obj:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now}
