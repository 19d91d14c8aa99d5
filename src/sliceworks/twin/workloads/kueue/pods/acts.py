"""What Kueue does to pods: opens their gate, deletes them to stop them, and keeps the pods of a group as many as they should be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import NotFound
from sliceworks.twin.controllers.world import APPLY, STRATEGIC
from sliceworks.twin.workloads.kueue import conditions, placing
from sliceworks.twin.workloads.kueue.acts import Acts
from sliceworks.twin.workloads.kueue.keys import EVICTED, GATES, GROUP_FAST, MANAGED, MANAGER, REPLACING, USER, Obj
from sliceworks.twin.workloads.kueue.kinds import queue_name
from sliceworks.twin.workloads.kueue.paperwork import owner, place
from sliceworks.twin.workloads.kueue.pods.members import (
    annotation,
    by_worth,
    ended,
    gated,
    held,
    leaving,
    phase,
    sort_out,
    total_of,
    usable,
)
from sliceworks.twin.workloads.kueue.pods.roles import role_of

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_ROLES = 8
_TARGET = "TerminationTarget"


class PodActs(Acts):
    """For a pod that is in no group."""

    def pods(self, job: Obj) -> list[Obj]:
        return [job]

    async def run(self, job: Obj, infos: list[Obj], message: str) -> None:
        """Open the gates of those pods that still have one."""
        for pod in filter(gated, self.pods(job)):
            info = self._info(pod, infos)
            if info is None:
                continue
            placing.apply(pod, info)
            gates = [gate for gate in pod["spec"].get("schedulingGates") or () if gate["name"] not in GATES]
            pod["spec"]["schedulingGates"] = gates
            await self.world.send(USER, "PUT", _path(pod), pod, fieldManager=MANAGER)
            await self.hands.normal(pod, "Started", message)

    def _info(self, pod: Obj, infos: list[Obj]) -> Obj | None:
        return infos[0]

    async def stop(self, job: Obj, workload: Obj | None, reason: str, message: str) -> None:
        """Delete those that run; with the Workload also those that have ended."""
        for pod in self.pods(job):
            if leaving(pod) or (reason != "WorkloadDeleted" and (ended(pod) or gated(pod))):
                continue
            await self._mark(pod, reason, message)
            await self._delete(pod)
            await self.hands.normal(pod, "Stopped", message)

    async def _mark(self, pod: Obj, reason: str, message: str) -> None:
        now = clock.timestamp()
        target = {"type": _TARGET, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message}
        metadata = {key: pod["metadata"][key] for key in ("name", "namespace", "uid")}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {"conditions": [target]}}
        try:
            await self.world.tell(USER, "PATCH", _path(pod, "status"), body, content_type=APPLY, fieldManager=MANAGER)
        except NotFound:
            return

    async def _delete(self, pod: Obj) -> None:
        try:
            await self.world.tell(USER, "DELETE", _path(pod))
        except NotFound:
            return

    async def finalize(self, job: Obj) -> None:
        await self.release(self.pods(job))

    async def release(self, pods: Iterable[Obj]) -> None:
        """Hold these pods no longer."""
        for pod in filter(held, pods):
            body = {"metadata": {"$deleteFromPrimitiveList/finalizers": [MANAGED]}}
            try:
                await self.world.tell(USER, "PATCH", _path(pod), body, content_type=STRATEGIC, fieldManager=MANAGER)
            except NotFound:
                continue


class GroupActs(PodActs):
    """For a group of pods."""

    def pods(self, job: Obj) -> list[Obj]:
        pods: list[Obj] = job["pods"]
        return pods

    def _info(self, pod: Obj, infos: list[Obj]) -> Obj | None:
        role = role_of(pod)
        return next((info for info in infos if info["name"] == role), None)

    async def stop(self, job: Obj, workload: Obj | None, reason: str, message: str) -> None:
        await super().stop(job, workload, reason, message)
        if reason == "WorkloadDeleted":
            await self.finalize(job)

    async def compose(self, job: Obj) -> bool:
        """A group is written down once it has all of its pods; those too many leave."""
        await self.release(pod for pod in job["pods"] if not usable(pod))
        good, first = [pod for pod in job["pods"] if usable(pod)], job["pods"][0]
        total = total_of(first)
        if annotation(first, GROUP_FAST) is None and len(good) < total:
            name = job["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"]
            await self.hands.warning(job, "ErrWorkloadCompose", f"'{name}' group has fewer runnable pods than expected")
            return False
        for pod in job["pods"]:
            if phase(pod) != "Failed" and (queue_name(pod), total_of(pod)) != (queue_name(job), total):
                return False
        job["pods"] = by_worth(good)
        await self._remove(job["pods"][total:])
        del job["pods"][total:]
        return bool(total) and len({role_of(pod) for pod in job["pods"]}) <= _MOST_ROLES

    async def _remove(self, pods: list[Obj]) -> None:
        await self.release(pods)
        for pod in pods:
            if not leaving(pod):
                await self._delete(pod)
                await self.hands.normal(pod, "ExcessPodDeleted", "Excess pod deleted")

    async def settle(self, job: Obj, workload: Obj) -> bool:
        found = sort_out(job["pods"], workload)
        job["pods"], job["absent"] = found.kept, found.absent
        if await self._own(found.kept, workload):
            return True
        await self._remove(found.excess)
        await self.release(found.replaced)
        return await self._say_absent(found.absent, workload)

    async def _own(self, pods: list[Obj], workload: Obj) -> bool:
        """Every pod of a group is an owner of its Workload."""
        owners = workload["metadata"].setdefault("ownerReferences", [])
        known = {ref["uid"] for ref in owners}
        new = [owner(pod) for pod in pods if pod["metadata"]["uid"] not in known]
        if not new:
            return False
        owners += new
        await self.hands.put("workloads", workload)
        await self.hands.normal(workload, "OwnerReferencesAdded", f"Added {len(new)} owner reference(s)")
        return True

    async def _say_absent(self, absent: int, workload: Obj) -> bool:
        said = _replacing(absent, workload)
        if said is None:
            return False
        return await self.hands.status(place(workload), lambda obj: conditions.put(obj, REPLACING, *said)) is not None


def _replacing(absent: int, workload: Obj) -> tuple[bool, str, str] | None:
    """The condition that tells of missing pods: its status, reason and message; None when it need not change."""
    old, evicted = conditions.find(workload, REPLACING), conditions.find(workload, EVICTED)
    if not absent:
        if old is None or old["status"] == "False":
            return None
        return False, "PodsReady", "No pods need replacement"
    if evicted is not None and evicted["status"] == "True":
        new = (True, evicted["reason"], evicted["message"])
        return None if old is not None and ("True", *new[1:]) == (old["status"], old["reason"], old["message"]) else new
    if old is not None and old["status"] == "True":
        return None
    return True, "PodsFailed", "Some Failed pods need replacement"


def _path(pod: Obj, below: str = "") -> str:
    metadata: dict[str, Any] = pod["metadata"]
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
    return f"{path}/{below}" if below else path
