"""The webhooks of pods and Deployments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.kube.resources import controller_of
from sliceworks.schemas.field_errors import FieldError, forbidden, invalid, required
from sliceworks.twin.controllers.kueue.configuration import Configuration
from sliceworks.twin.controllers.kueue.job_validation import (
    changed_job_errors,
    immutable_errors,
    label_value,
    name_errors,
    new_job_errors,
    priority_errors,
    raise_if_invalid,
)
from sliceworks.twin.controllers.kueue.kueue_api import (
    DEPLOYMENTS,
    GROUP_NAME_LABEL,
    GROUP_TOTAL_COUNT_ANNOTATION,
    JOBS,
    JOBSETS,
    LOCAL_QUEUES,
    MANAGED,
    POD_INDEX_LABEL,
    POD_INDEX_LABEL_ANNOTATION,
    PODS,
    PREBUILT_WORKLOAD_LABEL,
    PRIORITY_CLASS_LABEL,
    QUEUE_LABEL,
    REPLICASETS,
    RETRIABLE_IN_GROUP_ANNOTATION,
    ROLE_HASH_ANNOTATION,
    SCHEDULING_GATES,
    STATEFULSETS,
    SUSPENDED_BY_PARENT_ANNOTATION,
    Obj,
)
from sliceworks.twin.controllers.kueue.pod_group import annotation, group_name_of, is_finished, is_gated, role_hash

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sliceworks.twin.apiserver.admission.chain import Admission

SYSTEM_NAMESPACES = ("kube-system", "kueue-system")
_OWNERS = {
    "Job": JOBS,
    "JobSet": JOBSETS,
    "Deployment": DEPLOYMENTS,
    "ReplicaSet": REPLICASETS,
    "StatefulSet": STATEFULSETS,
    "Pod": PODS,
}
_TOTAL = f"metadata.annotations[{GROUP_TOTAL_COUNT_ANNOTATION}]"
_NAME = f"metadata.labels[{GROUP_NAME_LABEL}]"
_BOTH = f"both the '{GROUP_TOTAL_COUNT_ANNOTATION}' annotation and the '{GROUP_NAME_LABEL}' label should be set"


def gate_pod(ctx: Admission, pod: Obj, old: Mapping[str, Any] | None) -> None:
    """Gate a pod with a queue, unless its owner is queued."""
    metadata = pod["metadata"]
    enabled = "pod" in Configuration(ctx.get).frameworks
    if annotation(pod, SUSPENDED_BY_PARENT_ANNOTATION) is None:
        if ctx.namespace in SYSTEM_NAMESPACES or not enabled or not queue_name_for(ctx, pod) or has_queued_owner(ctx, pod):
            return
        metadata.setdefault("labels", {}).setdefault(QUEUE_LABEL, "default")
        metadata["labels"][MANAGED] = "true"
    finalizers = metadata.setdefault("finalizers", [])
    if MANAGED not in finalizers:
        finalizers.append(MANAGED)
    gates = pod["spec"].setdefault("schedulingGates", [])
    gates += [{"name": name} for name in SCHEDULING_GATES if {"name": name} not in gates]
    metadata.setdefault("annotations", {})[ROLE_HASH_ANNOTATION] = role_hash(pod["spec"])
    index = metadata["labels"].get(annotation(pod, POD_INDEX_LABEL_ANNOTATION) or "")
    if index is not None:
        metadata["labels"][POD_INDEX_LABEL] = index


def queue_name_for(ctx: Admission, obj: Mapping[str, Any]) -> str:
    """The queue of an object: its label, or else the default LocalQueue of the namespace if there is one."""
    label = label_value(obj, QUEUE_LABEL)
    return label or ("default" if ctx.get(LOCAL_QUEUES, ctx.namespace, "default") is not None else "")


def has_queued_owner(ctx: Admission, obj: Mapping[str, Any]) -> bool:
    """Whether an owner of an object, at any level, has a queue."""
    for _ in range(10):
        ref = controller_of(obj)
        resource = _OWNERS.get(ref["kind"]) if ref else None
        owner = ctx.get(resource, ctx.namespace, ref["name"]) if ref and resource else None
        if owner is None:
            return False
        if resource != REPLICASETS and (owner["metadata"].get("labels") or {}).get(QUEUE_LABEL):
            return True
        obj = owner
    return False


def validate_pod(ctx: Admission, pod: Obj, old: Mapping[str, Any] | None) -> None:
    if "pod" not in Configuration(ctx.get).frameworks:
        return
    if old is None:
        raise_if_invalid(ctx, [*new_job_errors(pod), *_pod_errors(pod)])
        return
    suspended = is_finished(pod) or is_gated(pod)
    errors = [*changed_job_errors(ctx, pod, old, suspended, is_finished(old) or is_gated(old)), *_pod_errors(pod)]
    if (
        group_name_of(pod)
        and annotation(old, RETRIABLE_IN_GROUP_ANNOTATION) == "false"
        and annotation(pod, RETRIABLE_IN_GROUP_ANNOTATION) != "false"
    ):
        path = f"metadata.annotations[{RETRIABLE_IN_GROUP_ANNOTATION}]"
        errors.append(forbidden(path, "unretriable pod group can't be converted to retriable"))
    if group_name_of(old):
        errors += immutable_errors(_NAME, group_name_of(pod), group_name_of(old))
    raise_if_invalid(ctx, errors)


def _pod_errors(pod: Mapping[str, Any]) -> Iterator[FieldError]:
    labels = pod["metadata"].get("labels") or {}
    if labels.get(MANAGED, "true") != "true":
        yield forbidden(f"metadata.labels[{MANAGED}]", "managed label value can only be 'true'")
    yield from _group_errors(pod)
    prebuilt, group = labels.get(PREBUILT_WORKLOAD_LABEL), group_name_of(pod)
    if prebuilt and group and prebuilt != group:
        path = f"metadata.labels[{PREBUILT_WORKLOAD_LABEL}]"
        yield invalid(path, path, "prebuilt workload and pod group should be equal")


def _group_errors(pod: Mapping[str, Any]) -> Iterator[FieldError]:
    total = annotation(pod, GROUP_TOTAL_COUNT_ANNOTATION)
    if not group_name_of(pod):
        if total is not None:
            yield required(_NAME, _BOTH)
        return
    yield from name_errors(pod, GROUP_NAME_LABEL)
    if total is None:
        yield required(_TOTAL, _BOTH)
    elif not total.lstrip("+-").isdigit():
        yield invalid(_TOTAL, total, f'strconv.Atoi: parsing "{total}": invalid syntax')
    elif int(total) < 1:
        reason = "group total count should be greater than zero"
        yield invalid(_TOTAL, total, f"incorrect annotation value '{GROUP_TOTAL_COUNT_ANNOTATION}={total}': {reason}")


def default_deployment(ctx: Admission, deployment: Obj, old: Mapping[str, Any] | None) -> None:
    """Set the Deployment's queue in its pod template."""
    if "deployment" not in Configuration(ctx.get).frameworks or ctx.namespace in SYSTEM_NAMESPACES:
        return
    queue = queue_name_for(ctx, deployment)
    if not queue or has_queued_owner(ctx, deployment):
        return
    labels = deployment["metadata"].setdefault("labels", {})
    labels[QUEUE_LABEL] = queue
    template = deployment["spec"]["template"].setdefault("metadata", {})
    template.setdefault("annotations", {})[SUSPENDED_BY_PARENT_ANNOTATION] = "deployment"
    template.setdefault("labels", {}).update({MANAGED: "true", QUEUE_LABEL: queue})
    if labels.get(PRIORITY_CLASS_LABEL):
        template["labels"][PRIORITY_CLASS_LABEL] = labels[PRIORITY_CLASS_LABEL]


def validate_deployment(ctx: Admission, deployment: Obj, old: Mapping[str, Any] | None) -> None:
    if "deployment" in Configuration(ctx.get).frameworks:
        raise_if_invalid(ctx, queue_change_errors(deployment, old))


def queue_change_errors(obj: Obj, old: Mapping[str, Any] | None) -> list[FieldError]:
    """Errors of the queue and priority of a Deployment or StatefulSet, which are immutable while a pod is ready."""
    errors = list(name_errors(obj, QUEUE_LABEL))
    if old is not None:
        suspended = not (old.get("status") or {}).get("readyReplicas")
        new_queue, old_queue = label_value(obj, QUEUE_LABEL), label_value(old, QUEUE_LABEL)
        if not suspended or not new_queue:
            errors += immutable_errors(f"metadata.labels[{QUEUE_LABEL}]", new_queue, old_queue)
        errors += priority_errors(obj, old, suspended)
    return errors
