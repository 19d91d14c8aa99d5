"""The integrations of single pods and pod groups: gates, deletion and finalizers."""

from __future__ import annotations

import copy
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.conditions import find_condition, is_condition_true
from sliceworks.base.errors import NotFound
from sliceworks.twin.controllers.kueue import job_adapter, workload_status
from sliceworks.twin.controllers.kueue.integrations import Integration, has_same_maximum_time
from sliceworks.twin.controllers.kueue.job_adapter import JobAdapter
from sliceworks.twin.controllers.kueue.kueue_api import (
    EVICTED,
    FINISHED,
    GROUP_FAST_ADMISSION_ANNOTATION,
    GROUP_SERVING_ANNOTATION,
    MANAGED,
    SCHEDULING_GATES,
    WAITING_FOR_REPLACEMENT_PODS,
    WORKLOADS,
    Obj,
    queue_name,
)
from sliceworks.twin.controllers.kueue.pod_group import (
    PodGroupIndex,
    annotation,
    group_name_of,
    is_deleting,
    is_gated,
    is_managed,
    is_runnable_or_succeeded,
    is_running,
    is_unretriable,
    partition_pods,
    phase,
    role_of,
    sort_active_pods,
    total_of,
)
from sliceworks.twin.controllers.kueue.workload_writer import pod_owner_reference, workload_key
from sliceworks.twin.controllers.runtime.controller_context import APPLY_PATCH, object_key
from sliceworks.twin.controllers.runtime.pod_index import is_finished
from sliceworks.twin.controllers.runtime.resource_keys import PODS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext


_MAX_ROLES = 8


class PodIntegration(Integration):
    """A pod without a group."""

    resource, name, component = PODS, "Pod", "pod-kueue-controller"

    def load(self, context: ControllerContext, namespace: str, name: str) -> Obj | None:
        pod = context.get(PODS, namespace, name)
        return pod if pod is None or not group_name_of(pod) else None

    def is_queued(self, job: Mapping[str, Any]) -> bool:
        return super().is_queued(job) and (job["metadata"].get("labels") or {}).get(MANAGED) == "true"

    def templates(self, job: Obj) -> list[Obj]:
        return [job]

    def pod_sets(self, job: Obj) -> list[Obj]:
        return [{"name": "main", "count": 1, "template": {"spec": copy.deepcopy(job["spec"])}}]

    def is_suspended(self, job: Mapping[str, Any]) -> bool:
        return is_finished(job) or is_gated(job)

    def is_active(self, job: Mapping[str, Any]) -> bool:
        return False

    def finished(self, job: Mapping[str, Any]) -> tuple[bool, str] | None:
        if not is_finished(job):
            return None
        return phase(job) == "Succeeded", str((job.get("status") or {}).get("message") or "")

    def are_pods_ready(self, job: Mapping[str, Any]) -> bool:
        return _is_ready(job)

    def reclaimable_pods(self, job: Mapping[str, Any]) -> list[Obj]:
        return []


class PodGroupIntegration(Integration):
    """A pod group as one job: `{"metadata": …, "pods": […]}`, where `metadata` is that of its first pod."""

    resource, name, component = PODS, "PodGroup", "pod-kueue-controller"

    def load(self, context: ControllerContext, namespace: str, name: str) -> Obj | None:
        names = context.shared_index(PodGroupIndex).names.get((namespace, name), ())
        pods = [pod for pod_name in sorted(names) if (pod := context.get(PODS, namespace, pod_name)) is not None]
        if not pods:
            return None
        return {"apiVersion": "v1", "kind": "Pod", "metadata": pods[0]["metadata"], "pods": pods}

    def is_deleting(self, job: Mapping[str, Any]) -> bool:
        return False

    def is_queued(self, job: Mapping[str, Any]) -> bool:
        return super().is_queued(job) and (job["metadata"].get("labels") or {}).get(MANAGED) == "true"

    def templates(self, job: Obj) -> list[Obj]:
        pods: list[Obj] = job["pods"]
        return pods

    def pod_sets(self, job: Obj) -> list[Obj]:
        first, pod_sets = job["pods"][0], _pod_sets_by_role(job["pods"])
        if annotation(first, GROUP_FAST_ADMISSION_ANNOTATION) is None:
            return pod_sets
        role = next((role_of(pod) for pod in job["pods"] if is_runnable_or_succeeded(pod)), "")
        return [{**pod_set, "count": total_of(first)} for pod_set in pod_sets if pod_set["name"] == role]

    def matches(self, job: Obj, pod_sets: list[Obj], workload: Mapping[str, Any]) -> bool:
        """Whether the Workload has all roles of the kept pods; some pods may be missing."""
        if not has_same_maximum_time(job, workload):
            return False
        kept = partition_pods(job["pods"], workload).kept
        is_over = is_condition_true(workload, FINISHED)
        counts = {pod_set["name"]: pod_set["count"] for pod_set in workload_status.pod_sets_of(workload)}
        return bool(kept) and all(is_over or pod_set["count"] <= counts[pod_set["name"]] for pod_set in _pod_sets_by_role(kept))

    def is_suspended(self, job: Mapping[str, Any]) -> bool:
        return any(is_finished(pod) or is_gated(pod) for pod in job["pods"])

    def is_active(self, job: Mapping[str, Any]) -> bool:
        return any(is_running(pod) for pod in job["pods"])

    def finished(self, job: Mapping[str, Any]) -> tuple[bool, str] | None:
        pods, total = job["pods"], total_of(job["pods"][0])
        if _is_serving(job) or not total:
            return None
        succeeded = sum(phase(pod) == "Succeeded" for pod in pods)
        if succeeded == total or (is_unretriable(pods) and all(map(is_finished, pods))):
            return True, f"Pods succeeded: {succeeded}/{total}."
        return None

    def are_pods_ready(self, job: Mapping[str, Any]) -> bool:
        return all(map(_is_ready, job["pods"]))

    def reclaimable_pods(self, job: Mapping[str, Any]) -> list[Obj]:
        counts: dict[str, int] = {}
        for pod in () if _is_serving(job) else job["pods"]:
            if phase(pod) == "Succeeded":
                counts[role_of(pod)] = counts.get(role_of(pod), 0) + 1
        return [{"name": role, "count": counts[role]} for role in sorted(counts)]


def _is_serving(job: Mapping[str, Any]) -> bool:
    return annotation(job["pods"][0], GROUP_SERVING_ANNOTATION) == "true"


def _pod_sets_by_role(pods: list[Obj]) -> list[Obj]:
    pod_sets: dict[str, Obj] = {}
    for pod in filter(is_runnable_or_succeeded, pods):
        role = role_of(pod)
        pod_set = pod_sets.setdefault(role, {"name": role, "count": 0, "template": {"spec": copy.deepcopy(pod["spec"])}})
        pod_set["count"] += 1
    return [pod_sets[role] for role in sorted(pod_sets)]


def _is_ready(pod: Mapping[str, Any]) -> bool:
    return is_condition_true(pod, "Ready")


class PodAdapter(JobAdapter):
    """For pods without a group."""

    def pods(self, job: Obj) -> list[Obj]:
        return [job]

    async def run_with_pod_sets_info(self, job: Obj, infos: list[Obj], message: str) -> None:
        """Remove the scheduling gates of gated pods."""
        for pod in filter(is_gated, self.pods(job)):
            info = self._info(pod, infos)
            if info is None:
                continue
            job_adapter.apply_pod_set_info(pod, info)
            gates = [gate for gate in pod["spec"].get("schedulingGates") or () if gate["name"] not in SCHEDULING_GATES]
            pod["spec"]["schedulingGates"] = gates
            await self.writer.api.update(PODS, pod)
            await self.writer.normal(pod, "Started", message)

    def _info(self, pod: Obj, infos: list[Obj]) -> Obj | None:
        return infos[0]

    async def stop(self, job: Obj, workload: Obj | None, reason: str, message: str) -> None:
        """Delete running pods; when the Workload is deleted, gated and finished pods too."""
        for pod in self.pods(job):
            if is_deleting(pod) or (reason != "WorkloadDeleted" and (is_finished(pod) or is_gated(pod))):
                continue
            await self._set_termination_target(pod, reason, message)
            await self.writer.api.delete_if_exists(object_key(PODS, pod))
            await self.writer.normal(pod, "Stopped", message)

    async def _set_termination_target(self, pod: Obj, reason: str, message: str) -> None:
        condition = {
            "type": "TerminationTarget",
            "status": "True",
            "lastTransitionTime": clock.timestamp(),
            "reason": reason,
            "message": message,
        }
        metadata = {key: pod["metadata"][key] for key in ("name", "namespace", "uid")}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {"conditions": [condition]}}
        with suppress(NotFound):
            await self.writer.api.patch(object_key(PODS, pod), body, "status", content_type=APPLY_PATCH)

    async def finalize(self, job: Obj) -> None:
        await self.remove_finalizers(self.pods(job))

    async def remove_finalizers(self, pods: Iterable[Obj]) -> None:
        for pod in filter(is_managed, pods):
            with suppress(NotFound):
                await self.writer.api.patch_strategic(object_key(PODS, pod), "", {"$deleteFromPrimitiveList/finalizers": [MANAGED]})


class PodGroupAdapter(PodAdapter):
    """For pod groups."""

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

    async def prepare_workload(self, job: Obj) -> bool:
        """A group gets its Workload once it has all of its pods; deletes excess pods."""
        await self.remove_finalizers(pod for pod in job["pods"] if not is_runnable_or_succeeded(pod))
        active, first = [pod for pod in job["pods"] if is_runnable_or_succeeded(pod)], job["pods"][0]
        total = total_of(first)
        if annotation(first, GROUP_FAST_ADMISSION_ANNOTATION) is None and len(active) < total:
            name = group_name_of(job)
            await self.writer.warning(job, "ErrWorkloadCompose", f"'{name}' group has fewer runnable pods than expected")
            return False
        for pod in job["pods"]:
            if phase(pod) != "Failed" and (queue_name(pod), total_of(pod)) != (queue_name(job), total):
                return False
        job["pods"] = sort_active_pods(active)
        await self._delete_excess(job["pods"][total:])
        del job["pods"][total:]
        return bool(total) and len({role_of(pod) for pod in job["pods"]}) <= _MAX_ROLES

    async def _delete_excess(self, pods: list[Obj]) -> None:
        await self.remove_finalizers(pods)
        for pod in pods:
            if not is_deleting(pod):
                await self.writer.api.delete_if_exists(object_key(PODS, pod))
                await self.writer.normal(pod, "ExcessPodDeleted", "Excess pod deleted")

    async def reconcile_workload(self, job: Obj, workload: Obj) -> bool:
        partition = partition_pods(job["pods"], workload)
        job["pods"] = partition.kept
        if await self._add_owners(partition.kept, workload):
            return True
        await self._delete_excess(partition.excess)
        await self.remove_finalizers(partition.replaced)
        return await self._report_absent(partition.absent, workload)

    async def _add_owners(self, pods: list[Obj], workload: Obj) -> bool:
        """Make every pod of a group an owner of its Workload; returns whether one was missing."""
        owners = workload["metadata"].setdefault("ownerReferences", [])
        uids = {ref["uid"] for ref in owners}
        new = [pod_owner_reference(pod) for pod in pods if pod["metadata"]["uid"] not in uids]
        if not new:
            return False
        owners += new
        await self.writer.update(WORKLOADS, workload)
        await self.writer.normal(workload, "OwnerReferencesAdded", f"Added {len(new)} owner reference(s)")
        return True

    async def _report_absent(self, absent: int, workload: Obj) -> bool:
        condition = _replacement_condition(absent, workload)
        if condition is None:
            return False
        written = await self.writer.update_status(
            workload_key(workload),
            lambda obj: workload_status.set_condition(obj, WAITING_FOR_REPLACEMENT_PODS, *condition),
        )
        return written is not None


def _replacement_condition(absent: int, workload: Obj) -> tuple[bool, str, str] | None:
    """The status, reason and message of WaitingForReplacementPods; None when it need not change."""
    old, evicted = find_condition(workload, WAITING_FOR_REPLACEMENT_PODS), find_condition(workload, EVICTED)
    was_waiting = old.get("status") == "True"
    if not absent:
        return (False, "PodsReady", "No pods need replacement") if was_waiting else None
    if evicted.get("status") == "True":
        new = (True, evicted["reason"], evicted["message"])
        return None if was_waiting and new[1:] == (old["reason"], old["message"]) else new
    return None if was_waiting else (True, "PodsFailed", "Some Failed pods need replacement")
