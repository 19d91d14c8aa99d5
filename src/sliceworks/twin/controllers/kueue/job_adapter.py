"""Starts and stops jobs of any kind; what admission injects into their pod templates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import NotFound
from sliceworks.twin.apiserver.codec import deep_copy
from sliceworks.twin.controllers.kueue import kueue_api, workload_status
from sliceworks.twin.controllers.kueue.kueue_api import POD_SET_LABEL, RESOURCE_FLAVORS, WORKLOAD_ANNOTATION, Obj
from sliceworks.twin.controllers.kueue.workload_writer import KueueWriter, workload_key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sliceworks.twin.controllers.kueue.integrations import Integration
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext

_METADATA_FIELDS = ("annotations", "labels")
_MAP_FIELDS = (*_METADATA_FIELDS, "nodeSelector")
_LIST_FIELDS = ("tolerations", "schedulingGates")


class PodSetInfoConflict(Exception):
    """Two sources set one key to different values: the job can never be started."""


def pod_set_infos(workload: Mapping[str, Any], get_flavor: Callable[[str], Mapping[str, Any]]) -> list[Obj]:
    """What admission adds to each pod template of an admitted Workload."""
    status = workload["status"]
    infos = []
    for assignment in status["admission"]["podSetAssignments"]:
        info: Obj = {
            "labels": {},
            "annotations": {WORKLOAD_ANNOTATION: workload["metadata"]["name"]},
            "nodeSelector": {},
            "tolerations": [],
        }
        for name in dict.fromkeys((assignment.get("flavors") or {}).values()):
            spec = get_flavor(name).get("spec") or {}
            info["nodeSelector"] |= spec.get("nodeLabels") or {}
            info["tolerations"] += spec.get("tolerations") or ()
        info["labels"][POD_SET_LABEL] = assignment["name"]
        for check in workload_status.check_states(workload):
            for update in check.get("podSetUpdates") or ():
                if update["name"] == assignment["name"]:
                    _merge(info, update)
        infos.append(info | {"name": assignment["name"], "count": assignment.get("count", 0)})
    return infos


def _merge(info: Obj, update: Mapping[str, Any]) -> None:
    for field in _MAP_FIELDS:
        _check_conflicts(field, info.get(field) or {}, update.get(field) or {})
        if update.get(field):
            info[field] = {**(info.get(field) or {}), **update[field]}
    for field in _LIST_FIELDS:
        present = info.get(field) or []
        added = [item for item in update.get(field) or () if item not in present]
        if added:
            info[field] = [*present, *added]


def _check_conflicts(field: str, present: Mapping[str, str], new: Mapping[str, str]) -> None:
    for key, value in new.items():
        if key in present and present[key] != value:
            conflict = f"conflict for key={key}, value1={present[key]}, value2={value}"
            raise PodSetInfoConflict(f"invalid admission check PodSetUpdate: conflict for {field}: {conflict}")


def apply_pod_set_info(template: Obj, info: Mapping[str, Any]) -> None:
    """Merge a pod set info into a pod template."""
    fields = _injected_fields(template)
    _merge(fields, info)
    _set_fields(template, fields)


def restore_template(template: Obj, original: Mapping[str, Any], kept_labels: Mapping[str, str]) -> None:
    """Undo `apply_pod_set_info`, except for these labels."""
    fields = _injected_fields(original)
    if kept_labels:
        fields["labels"] = {**(fields.get("labels") or {}), **kept_labels}
    _set_fields(template, fields)


def _injected_fields(template: Mapping[str, Any]) -> Obj:
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    return {
        **{field: metadata.get(field) for field in _METADATA_FIELDS},
        **{field: spec.get(field) for field in ("nodeSelector", *_LIST_FIELDS)},
    }


def _set_fields(template: Obj, fields: Mapping[str, Any]) -> None:
    metadata, spec = template.setdefault("metadata", {}), template["spec"]
    for field, value in fields.items():
        target = metadata if field in _METADATA_FIELDS else spec
        if value:
            target[field] = value
        else:
            target.pop(field, None)
    if not metadata:
        del template["metadata"]


class JobAdapter:
    """Starts and stops the jobs of one integration."""

    def __init__(self, context: ControllerContext, integration: Integration) -> None:
        self._context, self.integration = context, integration
        self.writer = KueueWriter(context, integration.component)

    async def start(self, job: Obj, workload: Obj) -> None:
        """Start an admitted job; finishes the Workload as failed when its pod set infos conflict."""
        try:
            infos = pod_set_infos(workload, self._get_flavor)
            message = f"Admitted by clusterQueue {workload['status']['admission']['clusterQueue']}"
            await self.run_with_pod_sets_info(job, infos, message)
        except PodSetInfoConflict as conflict:
            reason = str(conflict)
            await self.writer.update_status(
                workload_key(workload), lambda obj: workload_status.set_finished(obj, "FailedToStart", reason)
            )

    async def run_with_pod_sets_info(self, job: Obj, infos: list[Obj], message: str) -> None:
        raise NotImplementedError

    async def stop(self, job: Obj, workload: Obj | None, reason: str, message: str) -> None:
        raise NotImplementedError

    async def finalize(self, job: Obj) -> None:
        """Remove Kueue's finalizers from a finished or deleted job."""

    async def prepare_workload(self, job: Obj) -> bool:
        """Prepare a job for the construction of its Workload; False when the Workload cannot be created yet."""
        return True

    async def reconcile_workload(self, job: Obj, workload: Obj) -> bool:
        """Bring a job and its existing Workload into agreement; returns whether anything changed."""
        return False

    async def report_checks(self, job: Obj, workload: Obj) -> None:
        pending = (check for check in workload_status.check_states(workload) if check["state"] == "Pending")
        message = "; ".join(f"{check['name']}: {check['message']}" for check in pending if check.get("message"))
        if message:
            await self.writer.normal(job, "UpdatedAdmissionCheck", message)

    def _get_flavor(self, name: str) -> Mapping[str, Any]:
        flavor = self._context.get(RESOURCE_FLAVORS, "", name)
        if flavor is None:
            raise NotFound(f'ResourceFlavor.kueue.x-k8s.io "{name}" not found')
        return flavor


class SuspendableJobAdapter(JobAdapter):
    """For jobs with `spec.suspend`. Stopping one also restores its pod templates."""

    async def run_with_pod_sets_info(self, job: Obj, infos: list[Obj], message: str) -> None:
        for template, info in zip(self.integration.templates(job), infos, strict=True):
            apply_pod_set_info(template, info)
        self.integration.resize(job, [info["count"] for info in infos])
        job["spec"]["suspend"] = False
        await self.writer.api.update(self.integration.resource, job)
        await self.writer.normal(job, "Started", message)

    async def stop(self, job: Obj, workload: Obj | None, reason: str, message: str) -> None:
        integration = self.integration
        is_batch_job, stopping = integration.name == "Job", not integration.is_suspended(job)
        if not stopping and not is_batch_job:
            return
        if stopping:
            job["spec"]["suspend"] = True
            if is_batch_job:
                job["metadata"].setdefault("annotations", {})[kueue_api.STOPPING_ANNOTATION] = "true"
                job = (await self.writer.api.update(integration.resource, job)).object()
        # The pod template of a Job is mutable only while its status has no start time.
        if is_batch_job and (job.get("status") or {}).get("startTime"):
            del job["status"]["startTime"]
            job = (await self.writer.api.update(integration.resource, job, "status")).object()
        before = deep_copy(job)
        if workload is not None:
            pod_sets = workload_status.pod_sets_of(workload)
            for template, pod_set in zip(integration.templates(job), pod_sets, strict=False):
                restore_template(template, pod_set["template"], integration.kept_labels(template))
            if pod_sets:
                integration.resize(job, [pod_set["count"] for pod_set in pod_sets])
        (job["metadata"].get("annotations") or {}).pop(kueue_api.STOPPING_ANNOTATION, None)
        if job != before or (stopping and not is_batch_job):
            job = (await self.writer.api.update(integration.resource, job)).object()
        if stopping:
            await self.writer.normal(job, "Stopped", message)
