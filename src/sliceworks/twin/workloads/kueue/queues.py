"""The controllers of what Workloads wait in: what ClusterQueues and LocalQueues say of themselves, and who is still needed."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from sliceworks.twin.controllers.loop import Change, Controller
from sliceworks.twin.workloads.kueue import conditions
from sliceworks.twin.workloads.kueue.core.model import amount_text
from sliceworks.twin.workloads.kueue.hands import Hands
from sliceworks.twin.workloads.kueue.keys import CHECKS, CLUSTER_QUEUES, CONTROLLER, FLAVORS, IN_USE, LOCAL_QUEUES, WORKLOADS, Obj
from sliceworks.twin.workloads.kueue.ledger import WATCHED, Ledger, checks_of, flavors_of, spec_of, stopped

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.twin.controllers.world import World
    from sliceworks.twin.workloads.kueue.core.model import Item, Key, Queue
    from sliceworks.twin.workloads.kueue.core.quotas import Amounts

_INACTIVE = "Can't submit new workloads to clusterQueue"
Place = tuple[str, str, str]
"""A resource, a namespace and a name."""


class Queues(Controller[Place]):
    """One controller for all four kinds: they only count, and let go of what nobody uses any more."""

    watches = WATCHED

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._ledger = world.shared(Ledger)
        self._hands = Hands(world, CONTROLLER)

    def observe(self, change: Change) -> None:
        resource = change.resource
        if resource == WORKLOADS:
            self._touch_queues(change)
            return
        if resource not in (CLUSTER_QUEUES, LOCAL_QUEUES, FLAVORS, CHECKS):
            return
        self.queue.add((resource, change.namespace, change.name))
        if resource == CLUSTER_QUEUES:
            for key, name in self._ledger.brain.local.items():
                if name == change.name:
                    self.queue.add((LOCAL_QUEUES, *key))
            used = [(FLAVORS, one) for one in flavors_of(change.obj)] + [(CHECKS, one) for one in checks_of(change.obj)]
            for kind, name in used:
                self.queue.add((kind, "", name))
        elif resource in (FLAVORS, CHECKS):
            for name in self._ledger.queues:
                self.queue.add((CLUSTER_QUEUES, "", name))

    def _touch_queues(self, change: Change) -> None:
        local = (change.namespace, change.obj["spec"].get("queueName") or "")
        if local in self._ledger.locals:
            self.queue.add((LOCAL_QUEUES, *local))
        admission = (change.obj.get("status") or {}).get("admission") or {}
        for name in {self._ledger.brain.local.get(local), admission.get("clusterQueue")}:
            if name in self._ledger.queues:
                self.queue.add((CLUSTER_QUEUES, "", name or ""))

    async def sync(self, key: Place) -> None:
        resource, namespace, name = key
        obj = self.world.get(resource, namespace, name)
        if obj is None:
            return
        if resource == LOCAL_QUEUES:
            await self._local(obj, (namespace, name))
        elif resource == CLUSTER_QUEUES:
            await self._cluster(obj, name)
        else:
            await self._needed(obj, resource)

    async def _needed(self, obj: Obj, resource: str) -> None:
        """A flavor or a check stays while a ClusterQueue names it."""
        name, plural = obj["metadata"]["name"], resource.rpartition("/")[2]
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if not obj["metadata"].get("deletionTimestamp"):
            if IN_USE not in finalizers:
                finalizers.append(IN_USE)
                await self._hands.put(plural, obj)
            return
        uses = flavors_of if resource == FLAVORS else checks_of
        if not any(name in uses(queue) for queue in self._ledger.queues.values()):
            await self._hands.drop_finalizer(plural, obj, IN_USE)

    async def _cluster(self, obj: Obj, name: str) -> None:
        queue = self._ledger.brain.tree.leaves.get(name)
        if queue is None:
            return
        metadata = obj["metadata"]
        if metadata.get("deletionTimestamp"):
            if not queue.items:
                await self._hands.drop_finalizer("clusterqueues", obj, IN_USE)
            return
        if IN_USE not in metadata.setdefault("finalizers", []):
            metadata["finalizers"].append(IN_USE)
            await self._hands.put("clusterqueues", obj)
            return
        before, status = copy.deepcopy(obj.get("status")), obj.setdefault("status", {})
        admitted = [item for item in queue.items.values() if self._admitted(item.key)]
        reason, message = self._ledger.problem(name) or ("Ready", "Can admit new workloads")
        conditions.put(obj, "Active", reason == "Ready", reason, message)
        status["flavorsReservation"] = _usage(queue, queue.usage, obj, borrowed=True)
        status["flavorsUsage"] = _usage(queue, _sum(admitted), obj, borrowed=True)
        status["reservingWorkloads"] = len(queue.items)
        status["admittedWorkloads"] = len(admitted)
        status["pendingWorkloads"] = len(self._ledger.brain.pending[name])
        if status != before:
            await self._hands.put("clusterqueues", obj, "status")

    def _admitted(self, key: Key) -> bool:
        found = self.world.get(WORKLOADS, *key)
        return found is not None and conditions.true(found, "Admitted")

    async def _local(self, obj: Obj, key: Key) -> None:
        before, status = copy.deepcopy(obj.get("status")), obj.setdefault("status", {})
        name = spec_of(obj).get("clusterQueue") or ""
        queue, cluster = self._ledger.brain.tree.leaves.get(name), self._ledger.queues.get(name)
        conditions.put(obj, "Active", *self._local_state(obj, cluster))
        members = self._ledger.members.get(key, set())
        held = [item for one in members if (item := self._ledger.brain.items.get(one)) and self._ledger.brain.holds(item)]
        waiting = sum(1 for one in members if (item := self._ledger.brain.items.get(one)) and not self._ledger.brain.holds(item))
        admitted = [item for item in held if self._admitted(item.key)]
        status["pendingWorkloads"] = 0 if stopped(obj) else waiting
        status["reservingWorkloads"], status["admittedWorkloads"] = len(held), len(admitted)
        if queue is not None and cluster is not None:
            status["flavorsReservation"] = _usage(queue, _sum(held), cluster, borrowed=False)
            status["flavorsUsage"] = _usage(queue, _sum(admitted), cluster, borrowed=False)
        if status != before:
            await self._hands.put("localqueues", obj, "status")

    def _local_state(self, obj: Obj, cluster: Obj | None) -> tuple[bool, str, str]:
        if stopped(obj):
            return False, "Stopped", "LocalQueue is stopped"
        if cluster is None:
            return False, "ClusterQueueDoesNotExist", _INACTIVE
        if not conditions.true(cluster, "Active"):
            return False, "ClusterQueueIsInactive", _INACTIVE
        return True, "Ready", "Can submit new workloads to localQueue"


def _sum(items: Iterable[Item]) -> Amounts:
    total: Amounts = {}
    for item in items:
        for cell, amount in item.usage.items():
            total[cell] = total.get(cell, 0) + amount
    return total


def _usage(queue: Queue, usage: Amounts, obj: Obj, *, borrowed: bool) -> list[Obj]:
    """What is used of each flavor, in the order of the ClusterQueue's flavors."""
    return [
        {
            "name": flavor["name"],
            "resources": [
                _one(queue, flavor["name"], name, usage, borrowed=borrowed) for name in sorted(group["coveredResources"])
            ],
        }
        for group in spec_of(obj).get("resourceGroups") or ()
        for flavor in group["flavors"]
    ]


def _one(queue: Queue, flavor: str, resource: str, usage: Amounts, *, borrowed: bool) -> dict[str, Any]:
    used = usage.get((flavor, resource), 0)
    found: dict[str, Any] = {"name": resource, "total": amount_text(resource, used)}
    if borrowed:
        quota = queue.quotas.get((flavor, resource))
        beyond = used - quota.nominal if quota is not None and queue.parent is not None else 0
        found["borrowed"] = amount_text(resource, max(0, beyond))
    return found
