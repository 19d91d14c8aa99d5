"""The controller of jobs: gives each its Workload, starts it when that is admitted, and stops it when that is evicted."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import AlreadyExists, NotFound
from sliceworks.twin.controllers.loop import Change, Controller
from sliceworks.twin.workloads.hands import reference
from sliceworks.twin.workloads.kueue import conditions, keys, placing
from sliceworks.twin.workloads.kueue.configuration import Configuration
from sliceworks.twin.workloads.kueue.hands import Hands
from sliceworks.twin.workloads.kueue.keys import ADMITTED, EVICTED, FINISHED, FLAVORS, IN_USE, READY, RESERVED, WORKLOADS, Obj
from sliceworks.twin.workloads.kueue.kinds import KINDS, Kind
from sliceworks.twin.workloads.kueue.ledger import Ledger, owner_of
from sliceworks.twin.workloads.kueue.likeness import equivalent, readiness
from sliceworks.twin.workloads.kueue.priorities import priority_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.controllers.world import World

_LABEL = keys.QUEUE.encode()
_BY_RESOURCE = {kind.resource: kind for kind in KINDS}
_BY_NAME = {kind.name: kind for kind in KINDS}
JobKey = tuple[str, str, str]
"""Kind, namespace and name."""


class Jobs(Controller[JobKey]):
    """Jobs and JobSets alike. Each pass makes at most one change to a Workload: the change brings the next pass."""

    watches = frozenset({*_BY_RESOURCE, WORKLOADS})

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._ledger = world.shared(Ledger)
        self._hands = {kind.name: Hands(world, kind.component) for kind in KINDS}
        self._config = Configuration(world.get)

    def observe(self, change: Change) -> None:
        kind = _BY_RESOURCE.get(change.resource)
        if kind is not None:
            key = (kind.name, change.namespace, change.name)
            if _LABEL in change.entry.data or key in self._ledger.workloads:
                self.queue.add(key)
            return
        owner = owner_of(change.obj)
        if owner is not None and owner[0] in _BY_NAME:
            self.queue.add(owner)

    async def sync(self, key: JobKey) -> None:
        # 1. What is there.
        kind, hands = _BY_NAME[key[0]], self._hands[key[0]]
        job = self.world.get(kind.resource, *key[1:])
        found = list(filter(None, (self.world.get(WORKLOADS, *name) for name in self._ledger.workloads.get(key, ()))))
        if job is None or job["metadata"].get("deletionTimestamp"):
            for one in found:
                await hands.drop_finalizer("workloads", one, IN_USE)
            return
        if not _queue_name(job) or self._has_managed_owner(job):
            return
        # 2. Its one Workload.
        workload = await self._one_workload(kind, hands, job, found)
        if workload is None:
            return
        # 3. What has ended.
        if await self._over(kind, hands, job, workload):
            return
        # 4. What runs: what it no longer needs, and whether it is ready.
        if await self._reclaim(kind, hands, job, workload) or await self._pods_ready(kind, hands, job, workload):
            return
        # 5. Stop it, start it, or let it be.
        if conditions.true(workload, EVICTED):
            await self._evicted(kind, hands, job, workload)
        elif kind.suspended(job):
            await self._suspended(kind, hands, job, workload)
        elif not conditions.true(workload, ADMITTED):
            await self._stop(kind, hands, job, workload, "Not admitted by cluster queue")

    def _has_managed_owner(self, job: Mapping[str, Any]) -> bool:
        """Whether a job belongs to another one that is queued itself."""
        for ref in job["metadata"].get("ownerReferences") or ():
            kind = _BY_NAME.get(ref["kind"]) if ref.get("controller") else None
            if kind is not None:
                owner = self.world.get(kind.resource, job["metadata"]["namespace"], ref["name"])
                return owner is not None and bool(_queue_name(owner))
        return False

    async def _one_workload(self, kind: Kind, hands: Hands, job: Obj, found: list[Obj]) -> Obj | None:
        wanted = kind.pod_sets(job)
        match = next((one for one in found if equivalent(job, wanted, one)), None)
        others = [one for one in found if one is not match]
        ended = kind.finished(job)
        if match is None and others and kind.suspended(job) and not conditions.true(others[0], RESERVED) and ended is None:
            first = others[0]
            first["spec"] = self._workload(kind, job, wanted)["spec"]
            await hands.put("workloads", first)
            name = f"{first['metadata']['namespace']}/{first['metadata']['name']}"
            await hands.normal(job, "UpdatedWorkload", f"Updated not matching Workload for suspended job: {name}")
            return None
        if match is None and not kind.suspended(job) and ended is None:
            text = "Missing Workload; unable to restore pod templates"
            if others:
                text = "No matching Workload; restoring pod templates according to existent Workload"
            await self._stop(kind, hands, job, others[0] if others else None, text)
        for one in others:
            await hands.drop_finalizer("workloads", one, IN_USE)
            await self._delete(one)
            name = f"{one['metadata']['namespace']}/{one['metadata']['name']}"
            await hands.normal(job, "DeletedWorkload", f"Deleted not matching Workload: {name}")
        if others:
            self.queue.add((kind.name, job["metadata"]["namespace"], job["metadata"]["name"]))
            return None
        if match is None:
            await self._create(kind, hands, job, wanted, over=ended is not None)
            return None
        return None if await self._change_priority(hands, job, match) else match

    async def _delete(self, workload: Obj) -> None:
        metadata = workload["metadata"]
        try:
            await self.world.send(keys.USER, "DELETE", keys.path("workloads", metadata["namespace"], metadata["name"]))
        except NotFound:
            return

    async def _create(self, kind: Kind, hands: Hands, job: Obj, wanted: list[Obj], *, over: bool) -> None:
        current = self.world.get(kind.resource, job["metadata"]["namespace"], job["metadata"]["name"])
        if over or current is None or kind.active(current):
            return
        workload = self._workload(kind, job, wanted)
        home = keys.path("workloads", job["metadata"]["namespace"])
        try:
            made = await self.world.send(keys.USER, "POST", home, workload, fieldManager=keys.MANAGER)
        except AlreadyExists:
            return
        name = f"{made['metadata']['namespace']}/{made['metadata']['name']}"
        await hands.normal(job, "CreatedWorkload", f"Created Workload: {name}")

    def _workload(self, kind: Kind, job: Obj, wanted: list[Obj]) -> Obj:
        metadata = job["metadata"]
        spec: Obj = {"podSets": wanted, "queueName": _queue_name(job), **priority_of(self.world.get, job, wanted)}
        most = (metadata.get("labels") or {}).get(keys.MOST_SECONDS, "")
        if most.isdigit():
            spec["maximumExecutionTimeSeconds"] = int(most)
        return {
            "apiVersion": keys.API_VERSION,
            "kind": "Workload",
            "metadata": {
                "name": keys.workload_name(kind.name, kind.group, metadata["name"], metadata["uid"]),
                "namespace": metadata["namespace"],
                "labels": {keys.JOB_UID: metadata["uid"]},
                "finalizers": [IN_USE],
                "ownerReferences": [reference(job)],
            },
            "spec": spec,
        }

    async def _change_priority(self, hands: Hands, job: Obj, workload: Obj) -> bool:
        """Follow the job's label to another priority class."""
        ref = workload["spec"].get("priorityClassRef") or {}
        label = (job["metadata"].get("labels") or {}).get(keys.PRIORITY, "")
        if ref.get("kind") != "WorkloadPriorityClass" or ref.get("name") == label:
            return False
        workload["spec"] |= priority_of(self.world.get, job, workload["spec"]["podSets"])
        await hands.put("workloads", workload)
        name = f"{workload['metadata']['namespace']}/{workload['metadata']['name']}"
        await hands.normal(job, "UpdatedWorkload", f"Updated workload priority class: {name}")
        return True

    async def _over(self, kind: Kind, hands: Hands, job: Obj, workload: Obj) -> bool:
        metadata = workload["metadata"]
        name = f"{metadata['namespace']}/{metadata['name']}"
        if conditions.true(workload, FINISHED):
            if IN_USE in (metadata.get("finalizers") or ()):
                await hands.normal(job, "FinishedWorkload", f"Workload '{name}' is declared finished")
                await hands.drop_finalizer("workloads", workload, IN_USE)
            return True
        if metadata.get("deletionTimestamp"):
            await self._stop(kind, hands, job, workload, "Workload is deleted")
            await hands.drop_finalizer("workloads", workload, IN_USE)
            return True
        ended = kind.finished(job)
        if ended is None:
            return False
        reason = "Succeeded" if ended[0] else "Failed"
        place = (metadata["namespace"], metadata["name"])
        await hands.status(place, lambda obj: conditions.finish(obj, reason, ended[1]))
        await hands.normal(job, "FinishedWorkload", f"Workload '{name}' is declared finished")
        return True

    async def _reclaim(self, kind: Kind, hands: Hands, job: Obj, workload: Obj) -> bool:
        found = kind.reclaimable(job)
        if found == ((workload.get("status") or {}).get("reclaimablePods") or []):
            return False

        def change(obj: Obj) -> None:
            obj.setdefault("status", {})["reclaimablePods"] = found

        return await hands.status(_place(workload), change) is not None

    async def _pods_ready(self, kind: Kind, hands: Hands, job: Obj, workload: Obj) -> bool:
        if self._config.pods_ready is None:
            return False
        status, reason, message = readiness(workload, kind.ready(job))
        old = conditions.find(workload, READY)
        if old is not None and (old["status"] == "True", old["reason"], old["message"]) == (status, reason, message):
            return False
        written = await hands.status(_place(workload), lambda obj: conditions.put(obj, READY, status, reason, message))
        return written is not None

    async def _evicted(self, kind: Kind, hands: Hands, job: Obj, workload: Obj) -> None:
        evicted = conditions.find(workload, EVICTED)
        assert evicted is not None
        await self._stop(kind, hands, job, workload, evicted["message"])
        current = self.world.get(kind.resource, job["metadata"]["namespace"], job["metadata"]["name"])
        if not conditions.true(workload, RESERVED) or current is None or kind.active(current):
            return

        def release(obj: Obj) -> None:
            again = evicted["reason"] in ("Preempted", "NodeFailures")
            conditions.requeued(obj, evicted["reason"], evicted["message"], again)
            conditions.unreserve(obj, "Pending", evicted["message"])

        await hands.status(_place(workload), release)

    async def _suspended(self, kind: Kind, hands: Hands, job: Obj, workload: Obj) -> None:
        if conditions.true(workload, ADMITTED):
            await self._start(kind, hands, job, workload)
            return
        if conditions.true(workload, RESERVED):
            await self._tell_checks(hands, job, workload)
        if workload["spec"].get("queueName") != _queue_name(job):
            workload["spec"]["queueName"] = _queue_name(job)
            await hands.put("workloads", workload)

    async def _tell_checks(self, hands: Hands, job: Obj, workload: Obj) -> None:
        checks = workload["status"].get("admissionChecks") or ()
        told = "; ".join(f"{one['name']}: {one['message']}" for one in checks if one["state"] == "Pending" and one.get("message"))
        if told:
            await hands.normal(job, "UpdatedAdmissionCheck", told)

    async def _start(self, kind: Kind, hands: Hands, job: Obj, workload: Obj) -> None:
        try:
            infos = placing.infos(workload, self._flavor)
            for template, info in zip(kind.templates(job), infos, strict=True):
                placing.apply(template, info)
        except placing.Clash as clash:
            text = str(clash)
            await hands.status(_place(workload), lambda obj: conditions.finish(obj, "FailedToStart", text))
            return
        kind.resize(job, [info["count"] for info in infos])
        job["spec"]["suspend"] = False
        await self._put(kind, job)
        await hands.normal(job, "Started", f"Admitted by clusterQueue {workload['status']['admission']['clusterQueue']}")

    def _flavor(self, name: str) -> Mapping[str, Any]:
        found = self.world.get(FLAVORS, "", name)
        if found is None:
            raise NotFound(f'ResourceFlavor.kueue.x-k8s.io "{name}" not found')
        return found

    async def _put(self, kind: Kind, job: Obj, below: str = "") -> Obj:
        return await self.world.send(keys.USER, "PUT", kind.path(job, below), job, fieldManager=keys.MANAGER)

    async def _stop(self, kind: Kind, hands: Hands, job: Obj, workload: Obj | None, message: str) -> None:
        """Suspend a job and make its templates what they were. A Job's templates can be changed once it has forgotten its start."""
        stopping = not kind.suspended(job)
        if not stopping and kind.name != "Job":
            return
        if stopping:
            job["spec"]["suspend"] = True
            if kind.name == "Job":
                job["metadata"].setdefault("annotations", {})[keys.STOPPING] = "true"
                job = await self._put(kind, job)
        if kind.name == "Job" and (job.get("status") or {}).get("startTime"):
            del job["status"]["startTime"]
            job = await self._put(kind, job, "status")
        before = copy.deepcopy(job)
        if workload is not None:
            for template, pods in zip(kind.templates(job), workload["spec"]["podSets"], strict=False):
                placing.restore(template, pods["template"], kind.kept_labels(template))
            kind.resize(job, [pods["count"] for pods in workload["spec"]["podSets"]])
        (job["metadata"].get("annotations") or {}).pop(keys.STOPPING, None)
        if job != before or (stopping and kind.name != "Job"):
            job = await self._put(kind, job)
        if stopping:
            await hands.normal(job, "Stopped", message)


def _queue_name(job: Mapping[str, Any]) -> str:
    return str((job["metadata"].get("labels") or {}).get(keys.QUEUE) or "")


def _place(workload: Mapping[str, Any]) -> tuple[str, str]:
    return workload["metadata"]["namespace"], workload["metadata"]["name"]
