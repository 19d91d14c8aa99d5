"""The controller of CustomResourceDefinitions: accepts names, establishes, and on deletion removes what was defined.

It works from what the store says now: being stopped anywhere loses nothing.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.conditions import is_true
from sliceworks.kube.backoff import Backoff
from sliceworks.kube.workqueue import WorkQueue, work
from sliceworks.schemas import crds
from sliceworks.twin.api.calls import Call
from sliceworks.twin.api.customs import FINALIZER, KEY
from sliceworks.twin.api.deletes import DeleteOptions
from sliceworks.twin.api.media import Form
from sliceworks.twin.api.paths import Target
from sliceworks.twin.auth.identity import User
from sliceworks.twin.store.entries import DELETED, Change

if TYPE_CHECKING:
    from sliceworks.twin.api.core import Core
    from sliceworks.twin.api.resources import Resource, Version

log = logging.getLogger(__name__)
Obj = dict[str, Any]
_USER = User("system:apiserver", groups=("system:masters",))


class DefinitionController:
    """Brings each definition to where it should be, one at a time. One that fails is tried again, and keeps no other waiting."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._queue: WorkQueue[str] = WorkQueue(Backoff(first=0.01, cap=60.0, jitter=0.0))
        self._terminating: dict[str, str] = {}

    async def run(self) -> None:
        """Work until cancelled."""
        self._core.store.subscribe(self._changed)
        await work(self._queue, self._sync, self._failed)

    def _changed(self, change: Change) -> None:
        if change.resource == KEY:
            self._queue.add(change.name)
        elif change.type == DELETED and change.resource in self._terminating:
            self._queue.add(self._terminating[change.resource])

    async def _sync(self, name: str) -> None:
        self._reconcile(name)

    def _failed(self, name: str, error: Exception) -> None:
        log.error("the definition %s", name, exc_info=error)
        self._queue.add_rate_limited(name)

    def _reconcile(self, name: str) -> None:
        entry = self._core.store.get(KEY, "", name)
        if entry is None:
            self._terminating = {key: found for key, found in self._terminating.items() if found != name}
            return
        definition = entry.object()
        if definition["metadata"].get("deletionTimestamp"):
            self._terminate(definition)
        elif self._settle(definition):
            self._put(definition)

    def _settle(self, definition: Obj) -> bool:
        """Bring names, conditions and stored versions up to date; tells whether anything changed."""
        status = definition.setdefault("status", {})
        before = repr(status)
        names = definition["spec"]["names"]
        conflict = self._conflict(definition)
        now = clock.timestamp()
        if conflict is None:
            status["acceptedNames"] = dict(names)
            crds.set_condition(definition, _condition("NamesAccepted", "True", "NoConflicts", "no conflicts found", now))
            text = "the initial names have been accepted"
            crds.set_condition(definition, _condition("Established", "True", "InitialNamesAccepted", text, now))
        else:
            crds.set_condition(definition, _condition("NamesAccepted", "False", *conflict, now))
            if not is_true(definition, "Established"):
                crds.set_condition(definition, _condition("Established", "False", "NotAccepted", "not all names are accepted", now))
        return repr(status) != before

    def _conflict(self, definition: Obj) -> tuple[str, str] | None:
        spec = definition["spec"]
        names = spec["names"]
        others = [r for r in self._core.registry if r.group == spec["group"] and r.plural != names["plural"]]
        taken = {name for r in others for name in (r.plural, r.singular, *r.short_names)}
        kinds = {kind for r in others for kind in (r.kind, r.list_kind)}
        claims = (
            ("PluralConflict", names["plural"], taken),
            ("SingularConflict", names.get("singular"), taken),
            ("ShortNamesConflict", next((n for n in names.get("shortNames") or () if n in taken), None), taken),
            ("KindConflict", names["kind"], kinds),
            ("ListKindConflict", names.get("listKind"), kinds),
        )
        found = [(reason, f'"{value}" is already in use') for reason, value, pool in claims if value and value in pool]
        return found[-1] if found else None

    def _terminate(self, definition: Obj) -> None:
        spec = definition["spec"]
        resource = self._core.registry.get(spec["group"], spec["names"]["plural"])
        key = f"{spec['group']}/{spec['names']['plural']}"
        self._terminating[key] = definition["metadata"]["name"]
        if resource is not None:
            self._delete_instances(resource, self._core.customs.storage(definition))
        if self._core.store.count(key):
            text = "CustomResource deletion is in progress"
            condition = _condition("Terminating", "True", "InstanceDeletionInProgress", text, clock.timestamp())
            if crds.set_condition(definition, condition):
                self._put(definition)
            return
        metadata = definition["metadata"]
        metadata["finalizers"] = [name for name in metadata.get("finalizers") or () if name != FINALIZER]
        if metadata["finalizers"]:
            text = "removed all instances"
            crds.set_condition(definition, _condition("Terminating", "False", "InstanceDeletionCompleted", text, clock.timestamp()))
            self._put(definition)
            return
        del metadata["finalizers"]
        self._core.store.remove(KEY, "", metadata["name"], definition)

    def _delete_instances(self, resource: Resource, version: Version) -> None:
        call = _call(resource, version)
        for entry in list(self._core.store.scan(resource.stored_as)):
            if not entry.object()["metadata"].get("deletionTimestamp"):
                target = replace(call.target, namespace=entry.namespace, name=entry.name)
                self._core.deleter.remove(replace(call, target=target), entry, DeleteOptions())

    def _put(self, definition: Obj) -> None:
        self._core.store.put(KEY, "", definition["metadata"]["name"], definition)


def _call(resource: Resource, version: Version) -> Call:
    from sliceworks.kube.transport import Request

    target = Target("delete", "", resource.plural, resource.group, version.name)
    return Call(Request("DELETE", ""), target, _USER, resource, version, {}, Form())


def _condition(kind: str, status: str, reason: str, message: str, now: str) -> Obj:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now}
