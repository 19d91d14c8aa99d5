"""Runs the core's cycles and writes down what they decide."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import ApiError
from sliceworks.twin.controllers.loop import Change, Controller
from sliceworks.twin.workloads.kueue import conditions
from sliceworks.twin.workloads.kueue.configuration import Configuration
from sliceworks.twin.workloads.kueue.core.model import amount_text
from sliceworks.twin.workloads.kueue.core.preemption import WORDS
from sliceworks.twin.workloads.kueue.hands import Hands
from sliceworks.twin.workloads.kueue.keys import ADMISSION, JOB_UID, PREEMPTED, READY, REQUEUED, WORKLOADS, Obj
from sliceworks.twin.workloads.kueue.ledger import WATCHED, Ledger, checks_for

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.controllers.world import World
    from sliceworks.twin.workloads.kueue.core.cycle import Entry
    from sliceworks.twin.workloads.kueue.core.model import Item, PodSet
    from sliceworks.twin.workloads.kueue.core.preemption import Target

_CYCLE = "cycle"


class Scheduling(Controller[str]):
    """One cycle at a time, as long as there is something that may succeed."""

    watches = WATCHED

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._ledger = world.shared(Ledger)
        self._hands = Hands(world, ADMISSION)
        self._config = Configuration(world.get)
        self._changed = asyncio.Event()

    def observe(self, change: Change) -> None:
        if change.resource == WORKLOADS:
            self._changed.set()
        if self._ledger.brain.ready:
            self.queue.add(_CYCLE)

    async def sync(self, key: str) -> None:
        brain = self._ledger.brain
        while brain.ready:
            done = brain.cycle()
            # What was decided counts already; writing it down takes a while, in which other things may happen.
            admitted = [entry for entry in done.entries if entry.admitted]
            for entry in admitted:
                entry.item.reserved_at = clock.timestamp()
                self._ledger.assumed.add(entry.item.key)
            for entry in admitted:
                await self._all_ready(entry)
                await self._admit(entry)
            for entry in done.entries:
                for target in entry.evicting:
                    await self._preempt(entry, target)
                if not entry.admitted:
                    await self._wait(entry.item, entry.message)
            for refused in done.refused:
                await self._wait(refused.item, refused.message)

    async def _all_ready(self, entry: Entry) -> None:
        """Where nobody is admitted before the pods of all others are ready, wait for them; nothing else is decided meanwhile."""
        told = False
        while (config := self._config.pods_ready) is not None and config.block and self._unready():
            self._changed.clear()
            if not told:
                await self._hands.status(entry.item.key, _say_waiting)
            told = True
            await self._changed.wait()

    def _unready(self) -> bool:
        for leaf in self._ledger.brain.tree.leaves.values():
            for key in leaf.items:
                obj = None if key in self._ledger.assumed else self.world.get(WORKLOADS, *key)
                if obj is not None and not conditions.true(obj, READY):
                    return True
        return False

    async def _admit(self, entry: Entry) -> None:
        key = entry.item.key
        admission = _admission(entry)
        before = self.world.get(WORKLOADS, *key)

        def reserve(obj: Obj) -> None:
            conditions.reserve(obj, admission)
            queue = self._ledger.queues.get(admission["clusterQueue"])
            checks = {one["name"] for one in (obj["status"].get("admissionChecks") or ())}
            if queue is not None and checks_for(queue, obj) <= checks:
                conditions.sync_admitted(obj)

        try:
            written = await self._hands.status(key, reserve)
        except ApiError:
            self._ledger.assumed.discard(key)
            if before is not None:
                self._ledger.brain.withdraw(key)
                self._ledger.retry(key, self.world.get(WORKLOADS, *key))
            raise
        if written is None or before is None:
            self._ledger.assumed.discard(key)
            self._ledger.brain.withdraw(key)
            return
        await self._tell_admitted(written, entry)

    async def _tell_admitted(self, obj: Obj, entry: Entry) -> None:
        name = entry.queue.name
        text = f"Quota reserved in ClusterQueue {name}, wait time since queued was {_waited(obj):.0f}s"
        considered = entry.assignment.considered()
        await self._hands.normal(obj, "QuotaReserved", f"{text}; Flavors considered: {considered}" if considered else text)
        if conditions.true(obj, "Admitted"):
            text = f"Admitted by ClusterQueue {name}, wait time since reservation was 0s"
            await self._hands.normal(obj, "Admitted", text)

    async def _preempt(self, entry: Entry, target: Target) -> None:
        preemptor = self.world.get(WORKLOADS, *entry.item.key)
        home = self._ledger.brain.tree.leaves.get(target.item.cluster_queue)
        labels = ((preemptor or {}).get("metadata") or {}).get("labels") or {}
        message = (
            f"Preempted to accommodate a workload (UID: {entry.item.uid}, JobUID: {labels.get(JOB_UID) or 'UNKNOWN'}) "
            f"due to {WORDS[target.reason]}; preemptor path: {entry.queue.path}; "
            f"preemptee path: {home.path if home is not None else 'UNKNOWN'}"
        )

        def evict(obj: Obj) -> None:
            conditions.put(obj, PREEMPTED, True, target.reason, message, observed=False)
            conditions.evict(obj, PREEMPTED, message)

        written = await self._hands.status(target.item.key, evict)
        if written is not None:
            await self._hands.normal(written, "EvictedDueToPreempted", message)
            await self._hands.normal(written, "Preempted", message)

    async def _wait(self, item: Item, message: str) -> None:
        def pending(obj: Obj) -> bool:
            if conditions.true(obj, "QuotaReserved") or conditions.true(obj, "Finished"):
                return False
            conditions.unreserve(obj, "Pending", message)
            obj["status"]["resourceRequests"] = [
                {"name": pods.name, "resources": _amounts(pods)} if pods.requests else {"name": pods.name} for pods in item.pod_sets
            ]
            return True

        written = await self._hands.status(item.key, pending)
        if written is not None:
            await self._hands.warning(written, "Pending", message)


def _say_waiting(obj: Obj) -> None:
    conditions.unreserve(obj, "Waiting", "waiting for all admitted workloads to be in PodsReady condition")


def _admission(entry: Entry) -> Obj:
    assignments = []
    for assigned in entry.assignment.pod_sets:
        pods = assigned.pods
        one: Obj = {"name": pods.name, "count": pods.count}
        if assigned.chosen:
            requests = {**pods.requests, "pods": pods.count}
            one["flavors"] = {resource: chosen.flavor for resource, chosen in sorted(assigned.chosen.items())}
            one["resourceUsage"] = {name: amount_text(name, requests[name]) for name in sorted(assigned.chosen)}
        assignments.append(one)
    return {"clusterQueue": entry.queue.name, "podSetAssignments": assignments}


def _amounts(pods: PodSet) -> dict[str, str]:
    return {name: amount_text(name, amount) for name, amount in sorted(pods.requests.items())}


def _waited(obj: Mapping[str, Any]) -> float:
    """How long a Workload has been in its queue."""
    requeued = conditions.find(obj, REQUEUED)
    since = requeued["lastTransitionTime"] if requeued else obj["metadata"]["creationTimestamp"]
    return (clock.now() - datetime.fromisoformat(since)).total_seconds()
