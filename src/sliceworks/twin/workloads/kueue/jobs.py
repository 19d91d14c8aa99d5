"""The controller of jobs: gives each its Workload, starts it when that is admitted, and stops it when that is evicted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.controllers.loop import Change, Controller
from sliceworks.twin.workloads.kueue import conditions, keys
from sliceworks.twin.workloads.kueue.configuration import Configuration
from sliceworks.twin.workloads.kueue.keys import ADMITTED, EVICTED, FINISHED, IN_USE, PODS, READY, RESERVED, WORKLOADS, Obj
from sliceworks.twin.workloads.kueue.kinds import JobKind, JobSetKind, queue_name
from sliceworks.twin.workloads.kueue.ledger import Ledger, owner_of
from sliceworks.twin.workloads.kueue.likeness import readiness
from sliceworks.twin.workloads.kueue.paperwork import Paperwork, place
from sliceworks.twin.workloads.kueue.pods.acts import GroupActs, PodActs
from sliceworks.twin.workloads.kueue.pods.kinds import PodGroupKind, PodKind
from sliceworks.twin.workloads.kueue.pods.members import Groups, group_of
from sliceworks.twin.workloads.kueue.suspending import Suspending

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.controllers.world import World
    from sliceworks.twin.workloads.kueue.acts import Acts

_LABEL = keys.QUEUE.encode()
_MANAGED = keys.MANAGED.encode()
JobKey = tuple[str, str, str]
"""Kind, namespace and name."""


class Jobs(Controller[JobKey]):
    """All kinds alike. Each pass makes at most one change to a Workload: the change brings the next pass."""

    watches = frozenset({keys.JOBS, keys.JOBSETS, PODS, WORKLOADS})

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._ledger = world.shared(Ledger)
        world.shared(Groups)
        self._config = Configuration(world.get)
        acts: tuple[Acts, ...] = (
            Suspending(world, JobKind()),
            Suspending(world, JobSetKind()),
            PodActs(world, PodKind()),
            GroupActs(world, PodGroupKind()),
        )
        self._acts = {one.kind.name: one for one in acts}
        self._papers = {name: Paperwork(world, one.kind, one.hands) for name, one in self._acts.items()}
        self._names = {keys.JOBS: "Job", keys.JOBSETS: "JobSet"}

    def observe(self, change: Change) -> None:
        if change.resource == PODS:
            if _MANAGED in change.entry.data:
                group = group_of(change.obj)
                self.queue.add(("PodGroup", change.namespace, group) if group else ("Pod", change.namespace, change.name))
            return
        name = self._names.get(change.resource)
        if name is not None:
            key = (name, change.namespace, change.name)
            if _LABEL in change.entry.data or key in self._ledger.workloads:
                self.queue.add(key)
            return
        owner = owner_of(change.obj)
        if owner is not None and owner[0] in self._acts:
            self.queue.add(owner)

    async def sync(self, key: JobKey) -> None:
        # 1. What is there.
        acts = self._acts[key[0]]
        job = acts.kind.load(self.world, *key[1:])
        found = list(filter(None, (self.world.get(WORKLOADS, *name) for name in self._ledger.workloads.get(key, ()))))
        if job is None or acts.kind.leaving(job):
            for one in found:
                await acts.hands.drop_finalizer("workloads", one, IN_USE)
            if job is not None:
                await acts.finalize(job)
            return
        if not acts.kind.queued(job) or self._has_managed_owner(acts, job):
            return
        # 2. Its one Workload.
        workload = await self._one_workload(acts, key, job, found)
        if workload is None or await acts.settle(job, workload):
            return
        # 3. What has ended.
        if await self._over(acts, job, workload):
            return
        # 4. What runs: what it no longer needs, and whether it is ready.
        if await self._reclaim(acts, job, workload) or await self._pods_ready(acts, job, workload):
            return
        # 5. Stop it, start it, or let it be.
        if conditions.true(workload, EVICTED):
            await self._evicted(acts, key, job, workload)
        elif acts.kind.suspended(job):
            await self._suspended(acts, job, workload)
        elif not conditions.true(workload, ADMITTED):
            await acts.stop(job, workload, "NotAdmitted", "Not admitted by cluster queue")

    def _has_managed_owner(self, acts: Acts, job: Mapping[str, Any]) -> bool:
        """Whether a job belongs to another one that is queued itself. Pods that do were never held."""
        for ref in job["metadata"].get("ownerReferences") or () if acts.kind.resource != PODS else ():
            above = self._acts.get(ref["kind"]) if ref.get("controller") else None
            if above is not None:
                owner = self.world.get(above.kind.resource, job["metadata"]["namespace"], ref["name"])
                return owner is not None and bool(queue_name(owner))
        return False

    async def _one_workload(self, acts: Acts, key: JobKey, job: Obj, found: list[Obj]) -> Obj | None:
        kind, papers = acts.kind, self._papers[key[0]]
        wanted = kind.pod_sets(job)
        match = next((one for one in found if kind.matches(job, wanted, one)), None)
        others = [one for one in found if one is not match]
        ended = kind.finished(job)
        if match is None and others and kind.suspended(job) and not conditions.true(others[0], RESERVED) and ended is None:
            if await acts.compose(job):
                await papers.rewrite(job, kind.pod_sets(job), others[0])
            return None
        if match is None and not kind.suspended(job) and ended is None:
            text = "Missing Workload; unable to restore pod templates"
            if others:
                text = "No matching Workload; restoring pod templates according to existent Workload"
            await acts.stop(job, others[0] if others else None, "NoMatchingWorkload", text)
        for one in others:
            await papers.throw_away(job, one)
        if others:
            self.queue.add(key)
            return None
        if match is None:
            current = kind.load(self.world, *key[1:])
            if ended is None and current is not None and not kind.active(current) and await acts.compose(current):
                await papers.create(current, kind.pod_sets(current))
            elif ended is not None:
                await acts.finalize(job)
            return None
        return None if await papers.change_priority(job, match) else match

    async def _over(self, acts: Acts, job: Obj, workload: Obj) -> bool:
        metadata, hands = workload["metadata"], acts.hands
        told = f"Workload '{metadata['namespace']}/{metadata['name']}' is declared finished"
        if conditions.true(workload, FINISHED):
            await acts.finalize(job)
            if IN_USE in (metadata.get("finalizers") or ()):
                await hands.normal(job, "FinishedWorkload", told)
                await hands.drop_finalizer("workloads", workload, IN_USE)
            return True
        if metadata.get("deletionTimestamp"):
            await acts.stop(job, workload, "WorkloadDeleted", "Workload is deleted")
            await hands.drop_finalizer("workloads", workload, IN_USE)
            return True
        ended = acts.kind.finished(job)
        if ended is None:
            return False
        reason = "Succeeded" if ended[0] else "Failed"
        await hands.status(place(workload), lambda obj: conditions.finish(obj, reason, ended[1]))
        await hands.normal(job, "FinishedWorkload", told)
        return True

    async def _reclaim(self, acts: Acts, job: Obj, workload: Obj) -> bool:
        found = acts.kind.reclaimable(job)
        if found == ((workload.get("status") or {}).get("reclaimablePods") or []):
            return False

        def change(obj: Obj) -> None:
            obj.setdefault("status", {})["reclaimablePods"] = found

        return await acts.hands.status(place(workload), change) is not None

    async def _pods_ready(self, acts: Acts, job: Obj, workload: Obj) -> bool:
        if self._config.pods_ready is None:
            return False
        status, reason, message = readiness(workload, acts.kind.ready(job))
        old = conditions.find(workload, READY)
        if old is not None and (old["status"] == "True", old["reason"], old["message"]) == (status, reason, message):
            return False
        written = await acts.hands.status(place(workload), lambda obj: conditions.put(obj, READY, status, reason, message))
        return written is not None

    async def _evicted(self, acts: Acts, key: JobKey, job: Obj, workload: Obj) -> None:
        evicted = conditions.find(workload, EVICTED)
        assert evicted is not None
        await acts.stop(job, workload, f"WorkloadEvictedDueTo{evicted['reason']}", evicted["message"])
        current = acts.kind.load(self.world, *key[1:])
        if not conditions.true(workload, RESERVED) or current is None or acts.kind.active(current):
            return

        def release(obj: Obj) -> None:
            again = evicted["reason"] in ("Preempted", "NodeFailures")
            conditions.requeued(obj, evicted["reason"], evicted["message"], again)
            conditions.unreserve(obj, "Pending", evicted["message"])

        await acts.hands.status(place(workload), release)

    async def _suspended(self, acts: Acts, job: Obj, workload: Obj) -> None:
        if conditions.true(workload, ADMITTED):
            await acts.start(job, workload)
            return
        if conditions.true(workload, RESERVED):
            await acts.tell_checks(job, workload)
        if workload["spec"].get("queueName") != queue_name(job):
            workload["spec"]["queueName"] = queue_name(job)
            await acts.hands.put("workloads", workload)
