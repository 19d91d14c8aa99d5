"""The Workload of a job: how it is written, rewritten when the job has changed, and thrown away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import AlreadyExists, NotFound
from sliceworks.kube.resources import owner_reference
from sliceworks.twin.workloads.kueue import keys
from sliceworks.twin.workloads.kueue.keys import IN_USE, Obj
from sliceworks.twin.workloads.kueue.kinds import queue_name
from sliceworks.twin.workloads.kueue.priorities import priority_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.controllers.world import World
    from sliceworks.twin.workloads.kueue.hands import Hands
    from sliceworks.twin.workloads.kueue.kinds import Kind


class Paperwork:
    """Does that for the jobs of one kind, and tells of it in events on the job."""

    def __init__(self, world: World, kind: Kind, hands: Hands) -> None:
        self._world, self._kind, self._hands = world, kind, hands

    async def create(self, job: Obj, pod_sets: list[Obj]) -> None:
        home = keys.path("workloads", job["metadata"]["namespace"])
        try:
            made = await self._world.send(keys.USER, "POST", home, self._workload(job, pod_sets), fieldManager=keys.MANAGER)
        except AlreadyExists:
            return
        await self._hands.normal(job, "CreatedWorkload", f"Created Workload: {_name(made)}")

    async def rewrite(self, job: Obj, pod_sets: list[Obj], workload: Obj) -> None:
        """Make a Workload that still waits what the job is now."""
        workload["spec"] = self._workload(job, pod_sets)["spec"]
        await self._hands.put("workloads", workload)
        told = f"Updated not matching Workload for suspended job: {_name(workload)}"
        await self._hands.normal(job, "UpdatedWorkload", told)

    async def throw_away(self, job: Obj, workload: Obj) -> None:
        await self._hands.drop_finalizer("workloads", workload, IN_USE)
        try:
            await self._world.send(keys.USER, "DELETE", keys.path("workloads", *place(workload)))
        except NotFound:
            return
        finally:
            await self._hands.normal(job, "DeletedWorkload", f"Deleted not matching Workload: {_name(workload)}")

    async def change_priority(self, job: Obj, workload: Obj) -> bool:
        """Follow the job's label to another priority class."""
        ref = workload["spec"].get("priorityClassRef") or {}
        label = (job["metadata"].get("labels") or {}).get(keys.PRIORITY, "")
        if ref.get("kind") != "WorkloadPriorityClass" or ref.get("name") == label:
            return False
        workload["spec"] |= priority_of(self._world.get, job, workload["spec"]["podSets"])
        await self._hands.put("workloads", workload)
        await self._hands.normal(job, "UpdatedWorkload", f"Updated workload priority class: {_name(workload)}")
        return True

    def _workload(self, job: Obj, pod_sets: list[Obj]) -> Obj:
        metadata = job["metadata"]
        spec: Obj = {"podSets": pod_sets, "queueName": queue_name(job), **priority_of(self._world.get, job, pod_sets)}
        most = (metadata.get("labels") or {}).get(keys.MOST_SECONDS, "")
        if most.isdigit():
            spec["maximumExecutionTimeSeconds"] = int(most)
        about = {"namespace": metadata["namespace"], "finalizers": [IN_USE], **self._about(job)}
        return {"apiVersion": keys.API_VERSION, "kind": "Workload", "metadata": about, "spec": spec}

    def _about(self, job: Obj) -> Obj:
        if "pods" in job:
            owners = [owner(pod) for pod in job["pods"]]
            name = job["metadata"]["labels"][keys.GROUP_NAME]
            return {"name": name, "annotations": {keys.IS_GROUP: "true"}, "ownerReferences": owners}
        metadata, kind = job["metadata"], self._kind
        return {
            "name": keys.workload_name(kind.name, kind.group, metadata["name"], metadata["uid"]),
            "labels": {keys.JOB_UID: metadata["uid"]},
            "ownerReferences": [owner_reference(job)],
        }


def owner(pod: Mapping[str, Any]) -> Obj:
    """A reference to a pod of a group: it is one of several owners."""
    return {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}


def place(workload: Mapping[str, Any]) -> tuple[str, str]:
    """The namespace and the name of a Workload."""
    return workload["metadata"]["namespace"], workload["metadata"]["name"]


def _name(workload: Mapping[str, Any]) -> str:
    return "/".join(place(workload))
