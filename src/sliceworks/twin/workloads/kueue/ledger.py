"""What Kueue remembers of a cluster's objects: one index for all of its controllers, with the core inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.kube.selectors import LabelSelector, from_label_selector
from sliceworks.twin.workloads.kueue import conditions, reading
from sliceworks.twin.workloads.kueue.configuration import CONFIG_MAPS, PLACE, read
from sliceworks.twin.workloads.kueue.core.brain import Brain, Refused
from sliceworks.twin.workloads.kueue.core.pending import NAMESPACE
from sliceworks.twin.workloads.kueue.keys import (
    CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    FINISHED,
    FLAVORS,
    IS_GROUP,
    LOCAL_QUEUES,
    NAMESPACES,
    RESERVED,
    WORKLOADS,
    Obj,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sliceworks.twin.controllers.loop import Change
    from sliceworks.twin.workloads.kueue.core.model import Item, Key

Owner = tuple[str, str, str]
"""The kind, namespace and name of a job."""
WATCHED = frozenset({CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, FLAVORS, WORKLOADS, CHECKS, NAMESPACES})


class Ledger:
    """Follows Kueue's objects. `workloads` are those of each job, `members` those that name a LocalQueue."""

    watches = WATCHED | {CONFIG_MAPS}

    def __init__(self) -> None:
        self.brain = Brain(self._veto)
        self.queues: dict[str, Obj] = {}
        self.locals: dict[Key, Obj] = {}
        self.workloads: dict[Owner, dict[Key, None]] = {}
        self.members: dict[Key, set[Key]] = {}
        self.failed_checks: set[Key] = set()
        self.assumed: set[Key] = set()
        self._checks: dict[str, bool] = {}
        self._labels: dict[str, dict[str, str]] = {}
        self._selectors: dict[str, LabelSelector] = {}
        self._owners: dict[Key, Owner] = {}
        self._queue_of: dict[Key, Key] = {}
        self._follow: dict[str, Callable[[Change], None]] = {
            CLUSTER_QUEUES: self._queue,
            COHORTS: self._cohort,
            LOCAL_QUEUES: self._local,
            FLAVORS: self._flavor,
            WORKLOADS: self._workload,
            CHECKS: self._check,
            NAMESPACES: self._namespace,
            CONFIG_MAPS: self._config,
        }
        self._by_eviction = True

    def observe(self, change: Change) -> None:
        self._follow[change.resource](change)

    def _config(self, change: Change) -> None:
        if (change.namespace, change.name) == PLACE:
            found = read(change.obj if change.type != "DELETED" else None).pods_ready
            self._by_eviction = found is None or found.by_eviction

    def _item(self, obj: Obj) -> Item:
        return reading.item(obj, clock.timestamp(), by_eviction=self._by_eviction)

    # Queues and what they need.

    def _queue(self, change: Change) -> None:
        name = change.name
        if change.type == "DELETED":
            self.queues.pop(name, None)
            self._selectors.pop(name, None)
            self.brain.drop_queue(name)
            return
        obj, old = change.obj, self.queues.get(name)
        if old is None or spec_of(old) != spec_of(obj):
            self._selectors[name] = _selector(obj)
            self.brain.put_queue(name, reading.cluster_queue(obj))
        self.queues[name] = obj
        self.brain.activate(name, self.problem(name) is None)

    def _cohort(self, change: Change) -> None:
        if change.type == "DELETED":
            self.brain.drop_cohort(change.name)
        else:
            spec = change.obj.get("spec") or {}
            self.brain.put_cohort(change.name, spec.get("parentName") or "", reading.quotas(spec))

    def _local(self, change: Change) -> None:
        key = (change.namespace, change.name)
        if change.type == "DELETED":
            self.locals.pop(key, None)
            self.brain.drop_local(key)
            return
        self.locals[key] = change.obj
        if stopped(change.obj):
            self.brain.drop_local(key)
        else:
            self.brain.put_local(key, spec_of(change.obj).get("clusterQueue") or "")

    def _flavor(self, change: Change) -> None:
        if change.type == "DELETED":
            self.brain.drop_flavor(change.name)
        else:
            new = reading.flavor(change.obj)
            if self.brain.flavors.get(change.name) == new:
                return
            self.brain.put_flavor(new)
        self._refresh_queues()

    def _check(self, change: Change) -> None:
        if change.type == "DELETED":
            self._checks.pop(change.name, None)
        else:
            self._checks[change.name] = conditions.true(change.obj, "Active")
        self._refresh_queues()

    def _refresh_queues(self) -> None:
        for name in self.queues:
            before = self.brain.tree.leaves[name].active
            self.brain.activate(name, self.problem(name) is None)
            if not before:
                self.brain.wake(name)

    def _namespace(self, change: Change) -> None:
        if change.type == "DELETED":
            self._labels.pop(change.name, None)
            return
        labels = change.obj["metadata"].get("labels") or {}
        if self._labels.get(change.name) != labels:
            self._labels[change.name] = labels
            for name in self.queues:
                self.brain.wake(name)

    def problem(self, name: str) -> tuple[str, str] | None:
        """Why a ClusterQueue cannot admit anything, as reason and message; None when it can."""
        obj = self.queues[name]
        if obj["metadata"].get("deletionTimestamp"):
            return "Terminating", "Can't admit new workloads; clusterQueue is terminating"
        found: list[tuple[str, str]] = []
        if stopped(obj):
            found.append(("Stopped", "is stopped"))
        missing = [one for one in flavors_of(obj) if one not in self.brain.flavors]
        if missing:
            found.append(("FlavorNotFound", f"references missing ResourceFlavor(s): {','.join(missing)}"))
        wanted = sorted(checks_of(obj))
        missing = [one for one in wanted if one not in self._checks]
        if missing:
            found.append(("AdmissionCheckNotFound", f"references missing AdmissionCheck(s): {','.join(missing)}"))
        inactive = [one for one in wanted if self._checks.get(one) is False]
        if inactive:
            found.append(("AdmissionCheckInactive", f"references inactive AdmissionCheck(s): {','.join(inactive)}"))
        if not found:
            return None
        return found[0][0], f"Can't admit new workloads: {', '.join(text for _, text in found)}."

    # Workloads.

    def _workload(self, change: Change) -> None:
        key = (change.namespace, change.name)
        if change.type == "DELETED":
            self._forget(key)
            return
        obj = change.obj
        self._learn(key, obj)
        if conditions.true(obj, FINISHED) or not conditions.active(obj):
            self.assumed.discard(key)
            self.brain.withdraw(key)
        elif conditions.true(obj, RESERVED):
            self._reserved(key, obj)
        elif key not in self.assumed:
            self._waiting(key, obj)

    def _learn(self, key: Key, obj: Mapping[str, Any]) -> None:
        owner = owner_of(obj)
        if owner is not None:
            self._owners[key] = owner
            self.workloads.setdefault(owner, {})[key] = None
        local = (key[0], obj["spec"].get("queueName") or "")
        if self._queue_of.get(key) != local:
            self.members.get(self._queue_of.get(key, local), set()).discard(key)
            self._queue_of[key] = local
            self.members.setdefault(local, set()).add(key)
        (self.failed_checks.add if conditions.has_check(obj, "Retry", "Rejected") else self.failed_checks.discard)(key)

    def _forget(self, key: Key) -> None:
        self.assumed.discard(key)
        self.failed_checks.discard(key)
        self.brain.withdraw(key)
        owner = self._owners.pop(key, None)
        if owner is not None:
            del self.workloads[owner][key]
            if not self.workloads[owner]:
                del self.workloads[owner]
        self.members.get(self._queue_of.pop(key, key), set()).discard(key)

    def _reserved(self, key: Key, obj: Obj) -> None:
        new = self._item(obj)
        old = self.brain.items.get(key)
        home = self.brain.tree.leaves.get(new.cluster_queue)
        self.assumed.discard(key)
        if old is not None and home is not None and self.brain.holds(old) and old.usage == new.usage:
            if old.priority != new.priority:
                old.priority = new.priority
                self.brain.wake(home.name)
            old.evicted, old.reserved_at, old.time, old.facts = new.evicted, new.reserved_at, new.time, new.facts
            return
        less = old is not None and old.cluster_queue == new.cluster_queue
        self.brain.reserve(new)
        if less:
            self.brain.wake(new.cluster_queue)

    def _waiting(self, key: Key, obj: Obj) -> None:
        new = self._item(obj)
        old = self.brain.items.get(key)
        home = self.brain.tree.leaves.get(old.cluster_queue) if old is not None else None
        if (
            old is not None
            and (home is None or home.items.get(key) is not old)
            and (old.facts, old.waits) == (new.facts, new.waits)
        ):
            return
        self.brain.submit(new)

    def retry(self, key: Key, obj: Obj | None) -> None:
        """A decision could not be written down: the Workload waits again."""
        if obj is not None and not conditions.true(obj, RESERVED):
            self._waiting(key, obj)

    def _veto(self, item: Item) -> Refused | None:
        if item.key in self.failed_checks:
            return Refused(item, "The workload has failed admission checks")
        labels = self._labels.get(item.key[0])
        if labels is None:
            return Refused(item, f'Could not obtain workload namespace: Namespace "{item.key[0]}" not found')
        if not self._selectors[item.cluster_queue].matches(labels):
            return Refused(item, "Workload namespace doesn't match ClusterQueue selector", NAMESPACE)
        return None


def owner_of(obj: Mapping[str, Any]) -> Owner | None:
    """The job that a Workload is for."""
    metadata = obj["metadata"]
    if IS_GROUP in (metadata.get("annotations") or {}):
        return "PodGroup", metadata["namespace"], metadata["name"]
    for ref in metadata.get("ownerReferences") or ():
        if ref.get("controller"):
            return ref["kind"], metadata["namespace"], ref["name"]
    return None


def spec_of(queue: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a queue says of itself, which may be nothing."""
    return queue.get("spec") or {}


def stopped(obj: Mapping[str, Any]) -> bool:
    return (spec_of(obj).get("stopPolicy") or "None") != "None"


def _selector(obj: Mapping[str, Any]) -> LabelSelector:
    return from_label_selector(spec_of(obj).get("namespaceSelector"))


def flavors_of(obj: Mapping[str, Any]) -> list[str]:
    """The flavors of a ClusterQueue, in their order."""
    return [one["name"] for group in spec_of(obj).get("resourceGroups") or () for one in group["flavors"]]


def checks_of(obj: Mapping[str, Any]) -> dict[str, set[str]]:
    """The admission checks of a ClusterQueue, each with the flavors that it is for."""
    everything = set(flavors_of(obj))
    rules = (spec_of(obj).get("admissionChecksStrategy") or {}).get("admissionChecks") or ()
    return {rule["name"]: set(rule.get("onFlavors") or ()) or everything for rule in rules}


def checks_for(queue: Mapping[str, Any], workload: Mapping[str, Any]) -> set[str]:
    """The checks that a Workload must pass; those of some flavors only show once it has its flavors."""
    wanted, everything = checks_of(queue), set(flavors_of(queue))
    if all(flavors == everything for flavors in wanted.values()):
        return set(wanted)
    admission = (workload.get("status") or {}).get("admission")
    if not admission:
        return set()
    assigned = {flavor for one in admission["podSetAssignments"] for flavor in (one.get("flavors") or {}).values()}
    return {name for name, flavors in wanted.items() if flavors & assigned}
