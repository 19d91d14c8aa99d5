"""What Kueue's webhooks do to pods and Deployments: hold pods that name a queue, and pass a Deployment's queue on to its pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.kube.resources import controller_of
from sliceworks.schemas.field_errors import FieldError, forbidden, invalid, required
from sliceworks.twin.workloads.kueue.configuration import Configuration
from sliceworks.twin.workloads.kueue.job_checks import changed, changed_job_errors, name_errors, new_job_errors, priority_errors
from sliceworks.twin.workloads.kueue.keys import (
    DEPLOYMENTS,
    GATES,
    GROUP_INDEX,
    GROUP_INDEX_FROM,
    GROUP_NAME,
    GROUP_TOTAL,
    JOBS,
    JOBSETS,
    LOCAL_QUEUES,
    MANAGED,
    PARENT,
    PODS,
    PREBUILT,
    PRIORITY,
    QUEUE,
    REPLICASETS,
    RETRIABLE,
    ROLE,
    STATEFULSETS,
    Obj,
)
from sliceworks.twin.workloads.kueue.pods.members import annotation, ended, gated, group_of
from sliceworks.twin.workloads.kueue.pods.roles import role
from sliceworks.twin.workloads.kueue.refusing import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sliceworks.twin.admission.context import Admission

OWN_NAMESPACES = ("kube-system", "kueue-system")
_OWNERS = {
    "Job": JOBS,
    "JobSet": JOBSETS,
    "Deployment": DEPLOYMENTS,
    "ReplicaSet": REPLICASETS,
    "StatefulSet": STATEFULSETS,
    "Pod": PODS,
}
_TOTAL = f"metadata.annotations[{GROUP_TOTAL}]"
_NAME = f"metadata.labels[{GROUP_NAME}]"
_BOTH = f"both the '{GROUP_TOTAL}' annotation and the '{GROUP_NAME}' label should be set"


def hold(ctx: Admission, pod: Obj, old: Mapping[str, Any] | None) -> None:
    """Close the gate before a pod that names a queue, unless what it belongs to waits in one itself."""
    metadata = pod["metadata"]
    wanted = Configuration(ctx.get).frameworks
    if annotation(pod, PARENT) is None:
        if ctx.namespace in OWN_NAMESPACES or "pod" not in wanted or not queue_for(ctx, pod) or queued_owner(ctx, pod):
            return
        metadata.setdefault("labels", {}).setdefault(QUEUE, "default")
        metadata["labels"][MANAGED] = "true"
    finalizers = metadata.setdefault("finalizers", [])
    if MANAGED not in finalizers:
        finalizers.append(MANAGED)
    gates = pod["spec"].setdefault("schedulingGates", [])
    gates += [{"name": name} for name in GATES if {"name": name} not in gates]
    metadata.setdefault("annotations", {})[ROLE] = role(pod["spec"])
    index = metadata["labels"].get(annotation(pod, GROUP_INDEX_FROM) or "")
    if index is not None:
        metadata["labels"][GROUP_INDEX] = index


def queue_for(ctx: Admission, obj: Mapping[str, Any]) -> str:
    """The queue that it names, or the one that is there for all that name none."""
    named = (obj["metadata"].get("labels") or {}).get(QUEUE)
    return str(named) if named else "default" if ctx.get(LOCAL_QUEUES, ctx.namespace, "default") is not None else ""


def queued_owner(ctx: Admission, obj: Mapping[str, Any]) -> bool:
    """Whether something above an object waits in a queue."""
    for _ in range(10):
        ref = controller_of(obj)
        resource = _OWNERS.get(ref["kind"]) if ref else None
        owner = ctx.get(resource, ctx.namespace, ref["name"]) if ref and resource else None
        if owner is None:
            return False
        if resource != REPLICASETS and (owner["metadata"].get("labels") or {}).get(QUEUE):
            return True
        obj = owner
    return False


def check_pod(ctx: Admission, pod: Obj, old: Mapping[str, Any] | None) -> None:
    if "pod" not in Configuration(ctx.get).frameworks:
        return
    if old is None:
        refuse(ctx, [*new_job_errors(pod), *_pod_errors(pod)])
        return
    suspended = ended(pod) or gated(pod)
    errors = [*changed_job_errors(ctx, pod, old, suspended, ended(old) or gated(old)), *_pod_errors(pod)]
    if group_of(pod) and annotation(old, RETRIABLE) == "false" and annotation(pod, RETRIABLE) != "false":
        path = f"metadata.annotations[{RETRIABLE}]"
        errors.append(forbidden(path, "unretriable pod group can't be converted to retriable"))
    if group_of(old):
        errors += changed(_NAME, group_of(pod), group_of(old))
    refuse(ctx, errors)


def _pod_errors(pod: Mapping[str, Any]) -> Iterator[FieldError]:
    labels = pod["metadata"].get("labels") or {}
    if labels.get(MANAGED, "true") != "true":
        yield forbidden(f"metadata.labels[{MANAGED}]", "managed label value can only be 'true'")
    yield from _group_errors(pod)
    prebuilt, group = labels.get(PREBUILT), group_of(pod)
    if prebuilt and group and prebuilt != group:
        path = f"metadata.labels[{PREBUILT}]"
        yield invalid(path, path, "prebuilt workload and pod group should be equal")


def _group_errors(pod: Mapping[str, Any]) -> Iterator[FieldError]:
    total = annotation(pod, GROUP_TOTAL)
    if not group_of(pod):
        if total is not None:
            yield required(_NAME, _BOTH)
        return
    yield from name_errors(pod, GROUP_NAME)
    if total is None:
        yield required(_TOTAL, _BOTH)
    elif not total.lstrip("+-").isdigit():
        yield invalid(_TOTAL, total, f'strconv.Atoi: parsing "{total}": invalid syntax')
    elif int(total) < 1:
        why = "group total count should be greater than zero"
        yield invalid(_TOTAL, total, f"incorrect annotation value '{GROUP_TOTAL}={total}': {why}")


def pass_on(ctx: Admission, deployment: Obj, old: Mapping[str, Any] | None) -> None:
    """Put a Deployment's queue on the pods that it makes."""
    if "deployment" not in Configuration(ctx.get).frameworks or ctx.namespace in OWN_NAMESPACES:
        return
    queue = queue_for(ctx, deployment)
    if not queue or queued_owner(ctx, deployment):
        return
    labels = deployment["metadata"].setdefault("labels", {})
    labels[QUEUE] = queue
    made = deployment["spec"]["template"].setdefault("metadata", {})
    made.setdefault("annotations", {})[PARENT] = "deployment"
    made.setdefault("labels", {}).update({MANAGED: "true", QUEUE: queue})
    if labels.get(PRIORITY):
        made["labels"][PRIORITY] = labels[PRIORITY]


def check_deployment(ctx: Admission, deployment: Obj, old: Mapping[str, Any] | None) -> None:
    if "deployment" in Configuration(ctx.get).frameworks:
        refuse(ctx, maker_errors(deployment, old))


def maker_errors(obj: Obj, old: Mapping[str, Any] | None) -> list[FieldError]:
    """What is wrong with the queue and priority of something that makes pods: both stay while any of its pods is ready."""
    errors = list(name_errors(obj, QUEUE))
    if old is not None:
        waits = not (old.get("status") or {}).get("readyReplicas")
        new, was = ((one["metadata"].get("labels") or {}).get(QUEUE) or "" for one in (obj, old))
        if not waits or not new:
            errors += changed(f"metadata.labels[{QUEUE}]", new, was)
        errors += priority_errors(obj, old, waits)
    return errors
