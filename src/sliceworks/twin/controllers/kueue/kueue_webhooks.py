"""The webhooks of Kueue's own kinds and of Jobs and JobSets, and conversion between v1beta1 and v1beta2."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.base.conditions import is_condition_true
from sliceworks.kube.resources import controller_of
from sliceworks.schemas.field_errors import FieldError, duplicate, invalid
from sliceworks.twin.apiserver.validation.error_list import ErrorList
from sliceworks.twin.apiserver.validation.selectors import validate_label_selector
from sliceworks.twin.controllers.kueue.base_webhook import (
    OWNERS,
    batch_job_errors,
    changed_job_errors,
    has_queued_owner,
    new_job_errors,
    queue_name_for,
    raise_if_invalid,
)
from sliceworks.twin.controllers.kueue.integrations import is_suspended
from sliceworks.twin.controllers.kueue.kueue_api import (
    API_VERSION,
    CLUSTER_QUEUES,
    GROUP,
    LOCAL_QUEUES,
    QUEUE_LABEL,
    QUOTA_RESERVED,
    RESOURCE_IN_USE_FINALIZER,
    WORKLOADS,
    Obj,
    queue_name,
)
from sliceworks.twin.controllers.runtime.resource_keys import JOBS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sliceworks.twin.apiserver.admission.chain import Admission


V1BETA1, V1BETA2 = f"{GROUP}/v1beta1", API_VERSION
_PRIORITY_CLASS_SOURCES = {
    "kueue.x-k8s.io/workloadpriorityclass": (GROUP, "WorkloadPriorityClass"),
    "scheduling.k8s.io/priorityclass": ("scheduling.k8s.io", "PriorityClass"),
}
_V1BETA2_FUNGIBILITY = {"Preempt": "MayStopSearch", "Borrow": "MayStopSearch"}


def _rename(fields: Any, old: str, new: str) -> None:
    if isinstance(fields, dict) and old in fields:
        fields[new] = fields.pop(old)


def cluster_queue_to_v1beta2(obj: Obj) -> Obj:
    spec = obj.get("spec") or {}
    _rename(spec, "cohort", "cohortName")
    checks = spec.pop("admissionChecks", None)
    if checks:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": name} for name in checks]}
    fungibility = spec.get("flavorFungibility") or {}
    for field in ("whenCanBorrow", "whenCanPreempt"):
        if fungibility.get(field) in _V1BETA2_FUNGIBILITY:
            fungibility[field] = _V1BETA2_FUNGIBILITY[fungibility[field]]
    return obj | {"apiVersion": V1BETA2}


def cluster_queue_to_v1beta1(obj: Obj) -> Obj:
    _rename(obj.get("spec"), "cohortName", "cohort")
    return obj | {"apiVersion": V1BETA1}


def local_queue_to_v1beta2(obj: Obj) -> Obj:
    _rename(obj.get("status"), "flavorUsage", "flavorsUsage")
    return obj | {"apiVersion": V1BETA2}


def local_queue_to_v1beta1(obj: Obj) -> Obj:
    _rename(obj.get("status"), "flavorsUsage", "flavorUsage")
    return obj | {"apiVersion": V1BETA1}


def workload_to_v1beta2(obj: Obj) -> Obj:
    spec = obj.get("spec") or {}
    source, name = spec.pop("priorityClassSource", ""), spec.pop("priorityClassName", "")
    if source in _PRIORITY_CLASS_SOURCES:
        group, kind = _PRIORITY_CLASS_SOURCES[source]
        spec["priorityClassRef"] = {"group": group, "kind": kind, "name": name}
    _rename(obj.get("status"), "accumulatedPastExexcutionTimeSeconds", "accumulatedPastExecutionTimeSeconds")
    return obj | {"apiVersion": V1BETA2}


def workload_to_v1beta1(obj: Obj) -> Obj:
    spec = obj.get("spec") or {}
    ref = spec.pop("priorityClassRef", None)
    for source, group_kind in _PRIORITY_CLASS_SOURCES.items():
        if ref and (ref.get("group"), ref.get("kind")) == group_kind:
            spec |= {"priorityClassSource": source, "priorityClassName": ref["name"]}
    _rename(obj.get("status"), "accumulatedPastExecutionTimeSeconds", "accumulatedPastExexcutionTimeSeconds")
    return obj | {"apiVersion": V1BETA1}


CONVERSIONS: dict[str, tuple[Callable[[Obj], Obj], Callable[[Obj], Obj]]] = {
    CLUSTER_QUEUES: (cluster_queue_to_v1beta1, cluster_queue_to_v1beta2),
    LOCAL_QUEUES: (local_queue_to_v1beta1, local_queue_to_v1beta2),
    WORKLOADS: (workload_to_v1beta1, workload_to_v1beta2),
}
"""The functions that convert each resource to v1beta1 and from it."""


def add_in_use_finalizer(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """Keep a flavor or ClusterQueue until it is unused; adds a missing spec."""
    obj.setdefault("spec", {})
    finalizers = obj["metadata"].setdefault("finalizers", [])
    if RESOURCE_IN_USE_FINALIZER not in finalizers:
        finalizers.append(RESOURCE_IN_USE_FINALIZER)


def suspend_job(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """Suspend a job with a queue, its own or the default of its namespace, unless its owner is queued."""
    if not queue_name(obj):
        owner = controller_of(obj)
        if (owner is not None and owner["kind"] in OWNERS) or not queue_name_for(ctx, obj):
            return
        obj["metadata"].setdefault("labels", {})[QUEUE_LABEL] = "default"
    if not has_queued_owner(ctx.get, ctx.namespace, obj):
        obj["spec"]["suspend"] = True


def validate_job(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """Validate the labels and annotations of a Job or JobSet; most are immutable while it runs."""
    errors = batch_job_errors(obj, old) if ctx.resource == JOBS else ()
    if old is None:
        raise_if_invalid(ctx, [*new_job_errors(obj), *errors])
    else:
        suspended, was_suspended = is_suspended(obj), is_suspended(old)
        raise_if_invalid(ctx, [*new_job_errors(obj), *errors, *changed_job_errors(ctx, obj, old, suspended, was_suspended)])


def validate_cluster_queue(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    spec = (cluster_queue_to_v1beta2(copy.deepcopy(obj)) if obj["apiVersion"] == V1BETA1 else obj).get("spec") or {}
    errors = ErrorList(_group_errors(spec, bool(spec.get("cohortName")), "cohort", lending=True))
    validate_label_selector(errors, spec.get("namespaceSelector"), "spec.namespaceSelector")
    preemption = spec.get("preemption") or {}
    borrow = (preemption.get("borrowWithinCohort") or {}).get("policy", "Never")
    if preemption.get("reclaimWithinCohort", "Never") == "Never" and borrow != "Never":
        fields = ("reclaimWithinCohort", "borrowWithinCohort", "withinClusterQueue")
        shown = {field: preemption[field] for field in fields if field in preemption}
        errors.append(invalid("spec.preemption", shown, "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never"))
    fungibility = spec.get("flavorFungibility") or {}
    preference = fungibility.get("preference")
    when = (fungibility.get("whenCanBorrow"), fungibility.get("whenCanPreempt"))
    if preference and when != ("TryNextFlavor", "TryNextFlavor"):
        message = f'preference "{preference}" requires both whenCanBorrow and whenCanPreempt to be TryNextFlavor'
        errors.append(invalid("spec.flavorFungibility.preference", preference, message))
    raise_if_invalid(ctx, errors)


def validate_cohort(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    spec = obj.get("spec") or {}
    raise_if_invalid(ctx, _group_errors(spec, bool(spec.get("parentName")), "parent", lending=False))


def _group_errors(spec: Mapping[str, Any], has_parent: bool, parent_field: str, *, lending: bool) -> Iterator[FieldError]:
    seen_resources: set[str] = set()
    seen_flavors: set[str] = set()
    for index, group in enumerate(spec.get("resourceGroups") or ()):
        path = f"spec.resourceGroups[{index}]"
        for number, name in enumerate(group["coveredResources"]):
            yield from _duplicate_errors(seen_resources, name, f"{path}.coveredResources[{number}]")
        for number, flavor in enumerate(group["flavors"]):
            flavor_path = f"{path}.flavors[{number}]"
            yield from _flavor_errors(
                flavor, group["coveredResources"], flavor_path, "" if has_parent else parent_field, lending=lending
            )
            yield from _duplicate_errors(seen_flavors, flavor["name"], f"{flavor_path}.name")


def _duplicate_errors(seen: set[str], name: str, path: str) -> Iterator[FieldError]:
    if name in seen:
        yield duplicate(path, name)
    seen.add(name)


def _flavor_errors(
    flavor: Mapping[str, Any], covered: list[str], path: str, missing_parent: str, *, lending: bool
) -> Iterator[FieldError]:
    for index, (resource, name) in enumerate(zip(flavor["resources"], covered, strict=False)):
        resource_path = f"{path}.resources[{index}]"
        if resource["name"] != name:
            yield invalid(f"{resource_path}.name", resource["name"], "must match the name in coveredResources")
        for field in ("nominalQuota", "borrowingLimit", "lendingLimit"):
            if resource.get(field) is None:
                continue
            amount = quantity.canonical(resource[field])
            if field == "borrowingLimit" and missing_parent:
                yield invalid(f"{resource_path}.{field}", amount, f"must be nil when {missing_parent} is empty")
            if quantity.parse(resource[field]) < 0:
                yield invalid(f"{resource_path}.{field}", amount, "must be greater than or equal to 0")
            if field == "lendingLimit" and missing_parent:
                yield invalid(f"{resource_path}.{field}", amount, f"must be nil when {missing_parent} is empty")
            if field == "lendingLimit" and lending and quantity.compare(resource[field], resource["nominalQuota"]) > 0:
                yield invalid(f"{resource_path}.{field}", amount, "must be less than or equal to the nominalQuota")


def default_pod_sets(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """Write missing pod sets as null, like Go's types; validation then rejects the Workload."""
    obj.setdefault("spec", {}).setdefault("podSets", None)


def default_spec(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """Add a missing spec, which all controllers expect."""
    obj.setdefault("spec", {})


def validate_workload(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    raise_if_invalid(ctx, _workload_errors(obj, old))


def _workload_errors(obj: Mapping[str, Any], old: Mapping[str, Any] | None) -> Iterator[FieldError]:
    pod_sets = obj["spec"].get("podSets") or []
    for index, pods in enumerate(pod_sets):
        spec = pods["template"].get("spec") or {}
        for field in ("initContainers", "containers"):
            for number, container in enumerate(spec.get(field) or ()):
                if "pods" in ((container.get("resources") or {}).get("requests") or {}):
                    path = f"spec.podSets[{index}].template.spec.{field}[{number}].resources.requests[pods]"
                    yield invalid(path, "pods", "the key is reserved for internal kueue use")
    with_min_count = sum("minCount" in pods for pods in pod_sets)
    if with_min_count > 1:
        yield invalid("spec.podSets", with_min_count, "at most one podSet can use minCount")
    if old is None or not is_condition_true(old, QUOTA_RESERVED):
        return
    old_pod_sets = old["spec"].get("podSets") or []
    if len(old_pod_sets) != len(pod_sets):
        yield invalid("spec.podSets", pod_sets, "field is immutable")
        return
    for index, (new_pod_set, old_pod_set) in enumerate(zip(pod_sets, old_pod_sets, strict=True)):
        if new_pod_set != old_pod_set:
            yield invalid(f"spec.podSets.{index}", new_pod_set, "field is immutable")
