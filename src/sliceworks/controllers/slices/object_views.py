"""Builds views of pods, JobSets and Workloads; invalid input becomes a Problem in the view."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock, duration
from sliceworks.base.conditions import find_condition, is_condition_true
from sliceworks.base.errors import SliceworksError
from sliceworks.controllers.slices import node_pool_requirements, well_known
from sliceworks.controllers.slices.model import (
    Attempt,
    ConditionView,
    JobSetView,
    Leader,
    ObjectReference,
    Problem,
    ReplicatedJobView,
    WorkloadView,
)
from sliceworks.kube.resources import Key, controller_of, key_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.controllers.slices.node_pool_requirements import NodePoolRequirements
    from sliceworks.controllers.slices.settings import Settings

Object = dict[str, Any]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_leader(pod: Mapping[str, Any], settings: Settings) -> Leader | None:
    """The view of an unschedulable leader that needs a node pool; None for every other pod."""
    metadata, spec, status = pod["metadata"], pod.get("spec") or {}, pod.get("status") or {}
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    jobset = annotations.get(well_known.JOBSET_NAME) or labels.get(well_known.JOBSET_NAME)
    index = annotations.get(well_known.COMPLETION_INDEX) or labels.get(well_known.COMPLETION_INDEX)
    if not jobset or index != "0" or metadata.get("deletionTimestamp") or status.get("phase") != "Pending":
        return None
    scheduled = find_condition(pod, "PodScheduled")
    if scheduled.get("status") != "False" or scheduled.get("reason") != "Unschedulable":
        return None
    kind = node_pool_requirements.accelerator_type(metadata, spec)
    owner = controller_of(pod)
    if kind is None or owner is None:
        return None
    namespace = metadata["namespace"]
    job = Key(namespace, owner["name"])
    return Leader(
        subject=object_reference("v1", "Pod", metadata),
        job=job,
        job_kind=owner["kind"],
        job_key=labels.get(well_known.JOB_KEY, ""),
        jobset=Key(namespace, jobset),
        template=labels.get(well_known.REPLICATED_JOB, ""),
        requirements=_requirements(kind, metadata, spec, settings),
        since=clock.parse(metadata.get("creationTimestamp")) or _EPOCH,
        condition=condition_view(pod, well_known.POD_CONDITION),
        version=resource_version(metadata),
    )


def read_jobset(obj: Mapping[str, Any]) -> JobSetView:
    """The view of a JobSet."""
    metadata, spec = obj["metadata"], obj.get("spec") or {}
    annotations = metadata.get("annotations") or {}
    ended = next((name for name in ("Completed", "Failed") if is_condition_true(obj, name)), "")
    suspended = bool(spec.get("suspend"))
    suspended_condition = find_condition(obj, "Suspended")
    queued = well_known.QUEUE_NAME in (metadata.get("labels") or {})
    templates = {entry["name"]: _template(entry, queued) for entry in spec.get("replicatedJobs") or ()}
    return JobSetView(
        subject=object_reference(obj.get("apiVersion", "jobset.x-k8s.io/v1alpha2"), "JobSet", metadata),
        ref=key_of(obj),
        ended=ended.lower(),
        ended_at=clock.parse(find_condition(obj, ended).get("lastTransitionTime")) if ended else None,
        deleting="deletionTimestamp" in metadata,
        suspended=suspended,
        suspended_since=_suspended_since(suspended_condition, metadata) if suspended else None,
        queued=queued,
        drained=is_drained(obj),
        suspended_until=clock.parse(annotations.get(well_known.HELD_UNTIL)),
        time_limit=_time_limit(annotations.get(well_known.TIME_LIMIT)),
        jobs=frozenset(
            f"{metadata['name']}-{template.name}-{index}" for template in templates.values() for index in range(template.replicas)
        ),
        templates=templates,
        attempts=_attempts(annotations.get(well_known.ATTEMPTS)),
        condition=condition_view(obj, well_known.JOBSET_CONDITION),
        version=resource_version(metadata),
    )


def read_workload(obj: Mapping[str, Any]) -> WorkloadView | None:
    """The view of a Workload with admission checks; None for others."""
    metadata, status = obj["metadata"], obj.get("status") or {}
    owner = next((owner for owner in metadata.get("ownerReferences") or () if owner["kind"] == "JobSet"), None)
    checks = {
        check["name"]: (check.get("state", "Pending"), check.get("message") or "") for check in status.get("admissionChecks") or ()
    }
    if not checks:
        return None
    reserved = find_condition(obj, "QuotaReserved")
    is_over = any(is_condition_true(obj, name) for name in ("Finished", "Evicted"))
    assigned = (status.get("admission") or {}).get("podSetAssignments") or ()
    return WorkloadView(
        subject=object_reference(obj.get("apiVersion", "kueue.x-k8s.io/v1beta2"), "Workload", metadata),
        jobset=Key(metadata.get("namespace", ""), owner["name"] if owner else ""),
        checks=checks,
        reserved_since=clock.parse(reserved.get("lastTransitionTime")),
        active=reserved.get("status") == "True" and not is_over and (obj.get("spec") or {}).get("active") is not False,
        flavors={podset["name"]: tuple(dict.fromkeys((podset.get("flavors") or {}).values())) for podset in assigned},
        version=resource_version(metadata),
    )


def planned_requirements(
    template: ReplicatedJobView, flavor: Mapping[str, Any], labels: Mapping[str, str], settings: Settings
) -> NodePoolRequirements | Problem | None:
    """The requirements of a template's pods after Kueue has added a flavor's node labels and tolerations."""
    pod = template.pod or {}
    metadata, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    selector = {**(spec.get("nodeSelector") or {}), **(flavor.get("nodeLabels") or {})}
    tolerations = [*(spec.get("tolerations") or ()), *(flavor.get("tolerations") or ())]
    admitted = {**spec, "nodeSelector": selector, "tolerations": tolerations}
    kind = node_pool_requirements.accelerator_type(metadata, admitted)
    if kind is None:
        return None
    return _requirements(kind, {**metadata, "labels": {**(metadata.get("labels") or {}), **labels}}, admitted, settings)


def _requirements(
    kind: node_pool_requirements.AcceleratorType, metadata: Mapping[str, Any], spec: Mapping[str, Any], settings: Settings
) -> NodePoolRequirements | Problem:
    try:
        return node_pool_requirements.read(kind, metadata, spec, settings.pod_to_node_labels)
    except SliceworksError as error:
        return problem_from(error)


def problem_from(error: SliceworksError) -> Problem:
    """An error as a Problem: the reason is its type, the message has its hint."""
    name = type(error).__name__.removeprefix("Cloud")
    reason = {"SliceworksError": "BadRequest", "Invalid": "InvalidRequest"}.get(name, name)
    return Problem(reason, f"{error.message} ({error.hint})" if error.hint else error.message)


def is_drained(obj: Mapping[str, Any]) -> bool:
    """Whether a JobSet or a Namespace has the drain annotation."""
    return (obj["metadata"].get("annotations") or {}).get(well_known.DRAIN) == "true"


def _template(replicated: Mapping[str, Any], with_template: bool) -> ReplicatedJobView:
    job = (replicated.get("template") or {}).get("spec") or {}
    parallelism, completions = job.get("parallelism", 1), job.get("completions")
    pods = min(parallelism, completions) if isinstance(completions, int) else parallelism
    replicas = replicated.get("replicas", 1)
    return ReplicatedJobView(
        replicated["name"], replicas, max(int(pods or 0), 1), _slim_template(job.get("template") or {}) if with_template else None
    )


def _slim_template(template: Mapping[str, Any]) -> Object:
    spec = template.get("spec") or {}
    containers = [{"resources": container.get("resources")} for container in spec.get("containers") or ()]
    scheduling = {name: spec[name] for name in ("nodeSelector", "tolerations") if spec.get(name)}
    metadata = template.get("metadata") or {}
    return {
        "metadata": {name: metadata[name] for name in ("labels", "annotations") if metadata.get(name)},
        "spec": {**scheduling, "containers": containers},
    }


def _suspended_since(suspended_condition: Mapping[str, Any], metadata: Mapping[str, Any]) -> datetime:
    if suspended_condition.get("status") == "True" and (since := clock.parse(suspended_condition.get("lastTransitionTime"))):
        return since
    return clock.parse(metadata.get("creationTimestamp")) or _EPOCH


def _attempts(text: str | None) -> dict[str, Attempt]:
    """The recorded attempts; empty if the annotation is malformed."""
    try:
        records = orjson.loads(text) if text else {}
        return {
            str(job): Attempt(int(tries), float(after), str(reason), "".join(map(str, message)))
            for job, (tries, after, reason, *message) in records.items()
        }
    except (orjson.JSONDecodeError, AttributeError, TypeError, ValueError):
        return {}


def _time_limit(text: str | None) -> float | Problem | None:
    try:
        return duration.parse(text) if text else None
    except ValueError:
        return Problem(
            "BadRequest", f"annotation {well_known.TIME_LIMIT}: invalid duration {text!r} (such as 90s or 1h30m, 0s for no limit)"
        )


def condition_view(obj: Mapping[str, Any], kind: str) -> ConditionView:
    """The current state of a condition."""
    condition = find_condition(obj, kind)
    if not condition:
        return ConditionView()
    return ConditionView(
        condition.get("status", ""),
        condition.get("reason", ""),
        condition.get("message", ""),
        clock.parse(condition.get("lastTransitionTime")),
    )


def object_reference(api_version: str, kind: str, metadata: Mapping[str, Any]) -> ObjectReference:
    """The reference to an object."""
    return ObjectReference(api_version, kind, metadata.get("namespace", ""), metadata["name"], metadata.get("uid", ""))


def resource_version(metadata: Mapping[str, Any]) -> int:
    """The resource version as a number, for comparisons."""
    text = metadata.get("resourceVersion", "")
    return int(text) if text.isdigit() else 0
