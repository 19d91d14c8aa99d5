"""The webhooks of pods and Deployments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.schemas.field_errors import FieldError, forbidden, invalid, required
from sliceworks.twin.controllers.kueue.base_webhook import (
    changed_job_errors,
    immutable_errors,
    is_managed_by_kueue,
    name_errors,
    new_job_errors,
    priority_errors,
    queue_name_for,
    raise_if_invalid,
)
from sliceworks.twin.controllers.kueue.configuration import Configuration
from sliceworks.twin.controllers.kueue.kueue_api import (
    GROUP_NAME_LABEL,
    GROUP_TOTAL_COUNT_ANNOTATION,
    MANAGED,
    POD_INDEX_LABEL,
    POD_INDEX_LABEL_ANNOTATION,
    PREBUILT_WORKLOAD_LABEL,
    PRIORITY_CLASS_LABEL,
    QUEUE_LABEL,
    RETRIABLE_IN_GROUP_ANNOTATION,
    ROLE_HASH_ANNOTATION,
    SCHEDULING_GATES,
    SUSPENDED_BY_PARENT_ANNOTATION,
    Obj,
    queue_name,
)
from sliceworks.twin.controllers.kueue.pod_group import annotation, group_name_of, is_gated, role_hash
from sliceworks.twin.controllers.runtime.pod_index import is_finished

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sliceworks.twin.apiserver.admission.chain import Admission

_TOTAL = f"metadata.annotations[{GROUP_TOTAL_COUNT_ANNOTATION}]"
_NAME = f"metadata.labels[{GROUP_NAME_LABEL}]"
_BOTH = f"both the '{GROUP_TOTAL_COUNT_ANNOTATION}' annotation and the '{GROUP_NAME_LABEL}' label should be set"


def gate_pod(ctx: Admission, pod: Obj, old: Mapping[str, Any] | None) -> None:
    """Gate a pod with a queue, unless its owner is queued."""
    metadata = pod["metadata"]
    if annotation(pod, SUSPENDED_BY_PARENT_ANNOTATION) is None:
        if not is_managed_by_kueue(ctx, "pod", pod):
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
    if not is_managed_by_kueue(ctx, "deployment", deployment):
        return
    queue = queue_name_for(ctx, deployment)
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
        if not suspended or not queue_name(obj):
            errors += immutable_errors(f"metadata.labels[{QUEUE_LABEL}]", queue_name(obj), queue_name(old))
        errors += priority_errors(obj, old, suspended)
    return errors
