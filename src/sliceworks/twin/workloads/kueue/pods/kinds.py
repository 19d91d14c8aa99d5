"""Pods and groups of pods behind the face of Kueue's kinds of jobs. A group is an object with the metadata of its first pod."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from sliceworks.twin.workloads.kueue import conditions
from sliceworks.twin.workloads.kueue.keys import GROUP_FAST, GROUP_SERVING, MANAGED, MOST_SECONDS, PODS, Obj
from sliceworks.twin.workloads.kueue.kinds import Kind
from sliceworks.twin.workloads.kueue.pods.members import (
    Groups,
    annotation,
    ended,
    final,
    gated,
    group_of,
    phase,
    running,
    sort_out,
    total_of,
    usable,
)
from sliceworks.twin.workloads.kueue.pods.roles import role_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.controllers.world import World


class PodKind(Kind):
    """A pod that is in no group."""

    resource, group, version, plural, name, component = PODS, "", "v1", "pods", "Pod", "pod-kueue-controller"

    def load(self, world: World, namespace: str, name: str) -> Obj | None:
        pod = world.get(PODS, namespace, name)
        return pod if pod is None or not group_of(pod) else None

    def queued(self, job: Mapping[str, Any]) -> bool:
        return super().queued(job) and (job["metadata"].get("labels") or {}).get(MANAGED) == "true"

    def templates(self, job: Obj) -> list[Obj]:
        return [job]

    def pod_sets(self, job: Obj) -> list[Obj]:
        return [{"name": "main", "count": 1, "template": {"spec": copy.deepcopy(job["spec"])}}]

    def suspended(self, job: Mapping[str, Any]) -> bool:
        return ended(job) or gated(job)

    def active(self, job: Mapping[str, Any]) -> bool:
        return False

    def finished(self, job: Mapping[str, Any]) -> tuple[bool, str] | None:
        if not ended(job):
            return None
        return phase(job) == "Succeeded", str((job.get("status") or {}).get("message") or "")

    def ready(self, job: Mapping[str, Any]) -> bool:
        return _ready(job)

    def reclaimable(self, job: Mapping[str, Any]) -> list[Obj]:
        return []


class PodGroupKind(Kind):
    """A group of pods: `{"metadata": …, "pods": […]}`, and `absent` once it was held against its Workload."""

    resource, group, version, plural, name, component = PODS, "", "v1", "pods", "PodGroup", "pod-kueue-controller"

    def load(self, world: World, namespace: str, name: str) -> Obj | None:
        names = world.shared(Groups).names.get((namespace, name), ())
        pods = [pod for one in sorted(names) if (pod := world.get(PODS, namespace, one)) is not None]
        if not pods:
            return None
        return {"apiVersion": "v1", "kind": "Pod", "metadata": pods[0]["metadata"], "pods": pods, "absent": 0}

    def leaving(self, job: Mapping[str, Any]) -> bool:
        return False

    def queued(self, job: Mapping[str, Any]) -> bool:
        return super().queued(job) and (job["metadata"].get("labels") or {}).get(MANAGED) == "true"

    def templates(self, job: Obj) -> list[Obj]:
        pods: list[Obj] = job["pods"]
        return pods

    def pod_sets(self, job: Obj) -> list[Obj]:
        first, found = job["pods"][0], _roles(job["pods"])
        if annotation(first, GROUP_FAST) is None:
            return found
        role = next((role_of(pod) for pod in job["pods"] if usable(pod)), "")
        return [{**one, "count": total_of(first)} for one in found if one["name"] == role]

    def matches(self, job: Obj, wanted: list[Obj], workload: Mapping[str, Any]) -> bool:
        """Whether the pods that stay are those of the Workload; some may be missing."""
        most = (job["metadata"].get("labels") or {}).get(MOST_SECONDS)
        if str(workload["spec"].get("maximumExecutionTimeSeconds", "")) != (most or ""):
            return False
        kept = sort_out(job["pods"], workload).kept
        over = conditions.true(workload, "Finished")
        counts = {one["name"]: one["count"] for one in conditions.pod_sets_of(workload)}
        return bool(kept) and all(over or one["count"] <= counts[one["name"]] for one in _roles(kept))

    def suspended(self, job: Mapping[str, Any]) -> bool:
        return any(ended(pod) or gated(pod) for pod in job["pods"])

    def active(self, job: Mapping[str, Any]) -> bool:
        return any(running(pod) for pod in job["pods"])

    def finished(self, job: Mapping[str, Any]) -> tuple[bool, str] | None:
        pods, total = job["pods"], total_of(job["pods"][0])
        if self._serves(job) or not total:
            return None
        well = sum(phase(pod) == "Succeeded" for pod in pods)
        if well == total or (final(pods) and all(map(ended, pods))):
            return True, f"Pods succeeded: {well}/{total}."
        return None

    def ready(self, job: Mapping[str, Any]) -> bool:
        return all(map(_ready, job["pods"]))

    def reclaimable(self, job: Mapping[str, Any]) -> list[Obj]:
        counts: dict[str, int] = {}
        for pod in () if self._serves(job) else job["pods"]:
            if phase(pod) == "Succeeded":
                counts[role_of(pod)] = counts.get(role_of(pod), 0) + 1
        return [{"name": role, "count": counts[role]} for role in sorted(counts)]

    def _serves(self, job: Mapping[str, Any]) -> bool:
        return annotation(job["pods"][0], GROUP_SERVING) == "true"


def _roles(pods: list[Obj]) -> list[Obj]:
    """One set of pods for each role."""
    found: dict[str, Obj] = {}
    for pod in filter(usable, pods):
        role = role_of(pod)
        one = found.setdefault(role, {"name": role, "count": 0, "template": {"spec": copy.deepcopy(pod["spec"])}})
        one["count"] += 1
    return [found[role] for role in sorted(found)]


def _ready(pod: Mapping[str, Any]) -> bool:
    return conditions.true(pod, "Ready")
