"""Writes Workloads: status updates, and the Workload of a job with its priority."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import AlreadyExists, NotFound
from sliceworks.kube.resources import owner_reference
from sliceworks.twin.apiserver.codec import deep_copy
from sliceworks.twin.controllers.kueue.kueue_api import (
    API_VERSION,
    FIELD_MANAGER,
    GROUP,
    GROUP_NAME_LABEL,
    IS_GROUP_WORKLOAD_ANNOTATION,
    JOB_UID_LABEL,
    MAX_EXEC_TIME_SECONDS_LABEL,
    PRIORITY_CLASS_LABEL,
    RESOURCE_IN_USE_FINALIZER,
    USER,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Obj,
    label_value,
    queue_name,
    workload_name,
)
from sliceworks.twin.controllers.runtime.api_writer import ApiWriter
from sliceworks.twin.controllers.runtime.controller_context import object_key
from sliceworks.twin.controllers.runtime.recorder import Recorder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sliceworks.twin.controllers.kueue.integrations import Integration
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext

    Get = Callable[[str, str, str], Mapping[str, Any] | None]

_PRIORITY_CLASSES = "scheduling.k8s.io/priorityclasses"


class KueueWriter:
    """Writes objects as Kueue's manager, and records events as one of its components."""

    def __init__(self, context: ControllerContext, component: str) -> None:
        self._context = context
        self.api = ApiWriter(context, USER, fieldManager=FIELD_MANAGER)
        recorder = Recorder(context, USER, component)
        self.normal, self.warning = recorder.normal, recorder.warning

    async def update_status(self, key: tuple[str, str], change: Callable[[Obj], Any]) -> Obj | None:
        """Apply a change to the current status of a Workload; None when nothing changed or the Workload is deleted."""
        obj = self._context.get(WORKLOADS, *key)
        if obj is None:
            return None
        before = deep_copy(obj.get("status"))
        if change(obj) is False or obj.get("status") == before:
            return None
        return await self.update(WORKLOADS, obj, "status")

    async def update(self, resource: str, obj: Obj, subresource: str = "") -> Obj | None:
        """Update an object; None when it is deleted."""
        with suppress(NotFound):
            return (await self.api.update(resource, obj, subresource)).object()
        return None

    async def remove_finalizer(self, resource: str, obj: Obj, finalizer: str) -> None:
        finalizers = obj["metadata"].get("finalizers") or []
        if finalizer in finalizers:
            finalizers.remove(finalizer)
            await self.update(resource, obj)


def priority_of(get: Get, job: Mapping[str, Any], pod_sets: Iterable[Mapping[str, Any]]) -> Obj:
    """The fields of a Workload's spec that state its priority."""
    name = label_value(job, PRIORITY_CLASS_LABEL)
    if name:
        priority_class = get(WORKLOAD_PRIORITY_CLASSES, "", name)
        if priority_class is None:
            raise NotFound(f'WorkloadPriorityClass.kueue.x-k8s.io "{name}" not found')
        return _priority_fields(GROUP, "WorkloadPriorityClass", name, priority_class["value"])
    names = ((pods["template"].get("spec") or {}).get("priorityClassName") for pods in pod_sets)
    name = next(filter(None, names), "")
    if not name:
        return {"priority": 0}
    priority_class = get(_PRIORITY_CLASSES, "", name)
    if priority_class is None:
        raise NotFound(f'priorityclasses.scheduling.k8s.io "{name}" not found')
    return _priority_fields("scheduling.k8s.io", "PriorityClass", name, priority_class["value"])


def _priority_fields(group: str, kind: str, name: str, value: int) -> Obj:
    return {"priority": value, "priorityClassRef": {"group": group, "kind": kind, "name": name}}


class WorkloadWriter:
    """Writes the Workloads of one integration's jobs, and records events on the jobs."""

    def __init__(self, context: ControllerContext, integration: Integration, writer: KueueWriter) -> None:
        self._context, self._integration, self._writer = context, integration, writer

    async def create(self, job: Obj, pod_sets: list[Obj]) -> None:
        workload = self._construct_workload(job, pod_sets)
        with suppress(AlreadyExists):
            await self._writer.api.create(WORKLOADS, job["metadata"]["namespace"], workload)
            await self._writer.normal(job, "CreatedWorkload", f"Created Workload: {_full_name(workload)}")

    async def update(self, job: Obj, pod_sets: list[Obj], workload: Obj) -> None:
        """Update a Workload without quota to match its job."""
        workload["spec"] = self._construct_workload(job, pod_sets)["spec"]
        await self._writer.update(WORKLOADS, workload)
        message = f"Updated not matching Workload for suspended job: {_full_name(workload)}"
        await self._writer.normal(job, "UpdatedWorkload", message)

    async def delete_workload(self, job: Obj, workload: Obj) -> None:
        await self._writer.remove_finalizer(WORKLOADS, workload, RESOURCE_IN_USE_FINALIZER)
        await self._writer.api.delete_if_exists(object_key(WORKLOADS, workload))
        await self._writer.normal(job, "DeletedWorkload", f"Deleted not matching Workload: {_full_name(workload)}")

    async def update_priority(self, job: Obj, workload: Obj) -> bool:
        """Apply a changed priority class label of the job; returns whether it changed."""
        ref = workload["spec"].get("priorityClassRef") or {}
        if ref.get("kind") != "WorkloadPriorityClass" or ref.get("name") == label_value(job, PRIORITY_CLASS_LABEL):
            return False
        workload["spec"] |= priority_of(self._context.get, job, workload["spec"]["podSets"])
        await self._writer.update(WORKLOADS, workload)
        await self._writer.normal(job, "UpdatedWorkload", f"Updated workload priority class: {_full_name(workload)}")
        return True

    def _construct_workload(self, job: Obj, pod_sets: list[Obj]) -> Obj:
        metadata = job["metadata"]
        spec: Obj = {"podSets": pod_sets, "queueName": queue_name(job), **priority_of(self._context.get, job, pod_sets)}
        seconds = label_value(job, MAX_EXEC_TIME_SECONDS_LABEL)
        if seconds.isdigit():
            spec["maximumExecutionTimeSeconds"] = int(seconds)
        workload_metadata = {
            "namespace": metadata["namespace"],
            "finalizers": [RESOURCE_IN_USE_FINALIZER],
            **self._name_and_owners(job),
        }
        return {"apiVersion": API_VERSION, "kind": "Workload", "metadata": workload_metadata, "spec": spec}

    def _name_and_owners(self, job: Obj) -> Obj:
        metadata, integration = job["metadata"], self._integration
        if "pods" in job:
            return {
                "name": metadata["labels"][GROUP_NAME_LABEL],
                "annotations": {IS_GROUP_WORKLOAD_ANNOTATION: "true"},
                "ownerReferences": [pod_owner_reference(pod) for pod in job["pods"]],
            }
        return {
            "name": workload_name(integration.name, integration.resource, metadata["name"], metadata["uid"]),
            "labels": {JOB_UID_LABEL: metadata["uid"]},
            "ownerReferences": [owner_reference(job)],
        }


def pod_owner_reference(pod: Mapping[str, Any]) -> Obj:
    """A reference to a pod of a group, one of several owners of the Workload."""
    return {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}


def workload_key(workload: Mapping[str, Any]) -> tuple[str, str]:
    """The namespace and the name of a Workload."""
    return workload["metadata"]["namespace"], workload["metadata"]["name"]


def _full_name(workload: Mapping[str, Any]) -> str:
    return "/".join(workload_key(workload))
