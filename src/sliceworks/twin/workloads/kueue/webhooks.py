"""What Kueue's webhooks do: suspend queued jobs as they come, mark what is in use, and refuse what cannot work."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.schemas.field_errors import FieldError, duplicate, invalid
from sliceworks.schemas.rules.selectors import selector_errors
from sliceworks.twin.workloads.kueue import conditions
from sliceworks.twin.workloads.kueue.conversion import OLD, queue_to_new
from sliceworks.twin.workloads.kueue.job_checks import batch_job_errors, changed_job_errors, new_job_errors
from sliceworks.twin.workloads.kueue.keys import IN_USE, JOBS, JOBSETS, LOCAL_QUEUES, QUEUE, RESERVED, STOPPING, Obj
from sliceworks.twin.workloads.kueue.refusing import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sliceworks.twin.admission.context import Admission

_NEGATIVE = "must be greater than or equal to 0"
_IMMUTABLE = "field is immutable"


def mark_in_use(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """Flavors and ClusterQueues stay until nobody uses them. What they leave out altogether is there afterwards."""
    obj.setdefault("spec", {})
    finalizers = obj["metadata"].setdefault("finalizers", [])
    if IN_USE not in finalizers:
        finalizers.append(IN_USE)


def suspend(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """A job that names a queue, or whose namespace has a default one, waits for its turn; not one that belongs to a queued job."""
    metadata = obj["metadata"]
    labels = metadata.get("labels") or {}
    if not labels.get(QUEUE):
        if ctx.get(LOCAL_QUEUES, ctx.namespace, "default") is None or _owned_by_job(obj):
            return
        labels = metadata.setdefault("labels", {})
        labels[QUEUE] = "default"
    if not _managed_owner(ctx, obj):
        obj["spec"]["suspend"] = True


def _owned_by_job(obj: Mapping[str, Any]) -> bool:
    return any(ref.get("controller") and ref["kind"] == "JobSet" for ref in obj["metadata"].get("ownerReferences") or ())


def _managed_owner(ctx: Admission, obj: Mapping[str, Any]) -> bool:
    for ref in obj["metadata"].get("ownerReferences") or ():
        if ref.get("controller") and ref["kind"] == "JobSet":
            owner = ctx.get(JOBSETS, ctx.namespace, ref["name"])
            return owner is not None and bool((owner["metadata"].get("labels") or {}).get(QUEUE))
    return False


def check_job(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """A queue's name must be one, and stays while the job runs."""
    own = batch_job_errors(obj, old) if ctx.resource == JOBS else ()
    if old is None:
        refuse(ctx, [*new_job_errors(obj), *own])
    else:
        suspended, was = (_suspended(one) for one in (obj, old))
        refuse(ctx, [*new_job_errors(obj), *own, *changed_job_errors(ctx, obj, old, suspended, was)])


def _suspended(job: Mapping[str, Any]) -> bool:
    stopping = (job["metadata"].get("annotations") or {}).get(STOPPING) == "true"
    return bool(job["spec"].get("suspend")) and not stopping


def check_cluster_queue(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    spec = (queue_to_new(copy.deepcopy(obj)) if obj["apiVersion"] == OLD else obj).get("spec") or {}
    errors = list(_group_errors(spec, bool(spec.get("cohortName")), "cohort", lending=True))
    selector_errors(errors, spec.get("namespaceSelector"), "spec.namespaceSelector")
    preemption = spec.get("preemption") or {}
    borrow = (preemption.get("borrowWithinCohort") or {}).get("policy", "Never")
    if preemption.get("reclaimWithinCohort", "Never") == "Never" and borrow != "Never":
        text = "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never"
        errors.append(invalid("spec.preemption", _shown_preemption(preemption), text))
    fungibility = spec.get("flavorFungibility") or {}
    preference = fungibility.get("preference")
    ways = (fungibility.get("whenCanBorrow"), fungibility.get("whenCanPreempt"))
    if preference and ways != ("TryNextFlavor", "TryNextFlavor"):
        text = f'preference "{preference}" requires both whenCanBorrow and whenCanPreempt to be TryNextFlavor'
        errors.append(invalid("spec.flavorFungibility.preference", preference, text))
    refuse(ctx, errors)


def _shown_preemption(preemption: Mapping[str, Any]) -> Obj:
    return {
        key: preemption[key] for key in ("reclaimWithinCohort", "borrowWithinCohort", "withinClusterQueue") if key in preemption
    }


def check_cohort(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    spec = obj.get("spec") or {}
    refuse(ctx, _group_errors(spec, bool(spec.get("parentName")), "parent", lending=False))


def _group_errors(spec: Mapping[str, Any], parent: bool, word: str, *, lending: bool) -> Iterator[FieldError]:
    seen: dict[str, set[str]] = {"resources": set(), "flavors": set()}
    for index, group in enumerate(spec.get("resourceGroups") or ()):
        path = f"spec.resourceGroups[{index}]"
        for number, name in enumerate(group["coveredResources"]):
            yield from _once(seen["resources"], name, f"{path}.coveredResources[{number}]")
        for number, flavor in enumerate(group["flavors"]):
            below = f"{path}.flavors[{number}]"
            yield from _flavor_errors(flavor, group["coveredResources"], below, "" if parent else word, lending=lending)
            yield from _once(seen["flavors"], flavor["name"], f"{below}.name")


def _once(seen: set[str], name: str, path: str) -> Iterator[FieldError]:
    if name in seen:
        yield duplicate(path, name)
    seen.add(name)


def _flavor_errors(
    flavor: Mapping[str, Any], covered: list[str], path: str, missing: str, *, lending: bool
) -> Iterator[FieldError]:
    for index, (one, name) in enumerate(zip(flavor["resources"], covered, strict=False)):
        below = f"{path}.resources[{index}]"
        if one["name"] != name:
            yield invalid(f"{below}.name", one["name"], "must match the name in coveredResources")
        for field in ("nominalQuota", "borrowingLimit", "lendingLimit"):
            if one.get(field) is None:
                continue
            text = quantity.canonical(one[field])
            if field == "borrowingLimit" and missing:
                yield invalid(f"{below}.{field}", text, f"must be nil when {missing} is empty")
            if quantity.parse(one[field]) < 0:
                yield invalid(f"{below}.{field}", text, _NEGATIVE)
            if field == "lendingLimit" and missing:
                yield invalid(f"{below}.{field}", text, f"must be nil when {missing} is empty")
            if field == "lendingLimit" and lending and quantity.compare(one[field], one["nominalQuota"]) > 0:
                yield invalid(f"{below}.{field}", text, "must be less than or equal to the nominalQuota")


def show_pod_sets(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """A Workload that names no pods comes out of the webhook with a null in their place, which no Workload may have."""
    obj.setdefault("spec", {}).setdefault("podSets", None)


def keep_spec(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """A Workload may lose all that it says, but everybody looks there."""
    obj.setdefault("spec", {})


def check_workload(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    refuse(ctx, _workload_errors(obj, old))


def _workload_errors(obj: Mapping[str, Any], old: Mapping[str, Any] | None) -> Iterator[FieldError]:
    pod_sets = obj["spec"].get("podSets") or []
    for index, pods in enumerate(pod_sets):
        spec = pods["template"].get("spec") or {}
        for kind in ("initContainers", "containers"):
            for number, container in enumerate(spec.get(kind) or ()):
                if "pods" in ((container.get("resources") or {}).get("requests") or {}):
                    path = f"spec.podSets[{index}].template.spec.{kind}[{number}].resources.requests[pods]"
                    yield invalid(path, "pods", "the key is reserved for internal kueue use")
    variable = sum("minCount" in pods for pods in pod_sets)
    if variable > 1:
        yield invalid("spec.podSets", variable, "at most one podSet can use minCount")
    if old is None or not conditions.true(old, RESERVED):
        return
    before = old["spec"].get("podSets") or []
    if len(before) != len(pod_sets):
        yield invalid("spec.podSets", pod_sets, _IMMUTABLE)
        return
    for index, (new, was) in enumerate(zip(pod_sets, before, strict=True)):
        if new != was:
            yield invalid(f"spec.podSets.{index}", new, _IMMUTABLE)
