"""What the webhooks of all jobs share: the queue of a job and of its owners, and validation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import names
from sliceworks.base.errors import Forbidden
from sliceworks.kube.resources import controller_of
from sliceworks.schemas.field_errors import FieldError, forbidden, invalid
from sliceworks.twin.controllers.kueue.configuration import Configuration
from sliceworks.twin.controllers.kueue.kueue_api import (
    COMPLETIONS_EQUAL_PARALLELISM_ANNOTATION,
    LOCAL_QUEUES,
    MAX_EXEC_TIME_SECONDS_LABEL,
    MIN_PARALLELISM_ANNOTATION,
    PREBUILT_WORKLOAD_LABEL,
    PRIORITY_CLASS_LABEL,
    QUEUE_LABEL,
    label_value,
    queue_name,
)
from sliceworks.twin.controllers.runtime.resource_keys import DEPLOYMENTS, JOBS, JOBSETS, PODS, REPLICA_SETS, STATEFUL_SETS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from sliceworks.twin.apiserver.admission.chain import Admission

    Get = Callable[[str, str, str], Mapping[str, Any] | None]

OWNERS = {
    "Job": JOBS,
    "JobSet": JOBSETS,
    "Deployment": DEPLOYMENTS,
    "ReplicaSet": REPLICA_SETS,
    "StatefulSet": STATEFUL_SETS,
    "Pod": PODS,
}
"""The kinds whose objects Kueue knows as owners of jobs."""
_MAX_ANCESTORS = 10
_SYSTEM_NAMESPACES = ("kube-system", "kueue-system")


def raise_if_invalid(ctx: Admission, errors: Iterable[FieldError]) -> None:
    """Deny the request if there are errors, in the words of controller-runtime's webhooks."""
    messages = list(dict.fromkeys(str(error) for error in errors))
    if messages:
        message = messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"
        webhook = f"v{ctx.resource.rpartition('/')[2].removesuffix('s')}.kb.io"
        raise Forbidden(f'admission webhook "{webhook}" denied the request: {message}')


def queue_name_for(ctx: Admission, obj: Mapping[str, Any]) -> str:
    """The queue of an object: its label, or else the default LocalQueue of the namespace if there is one."""
    return queue_name(obj) or ("default" if ctx.get(LOCAL_QUEUES, ctx.namespace, "default") is not None else "")


def has_queued_owner(get: Get, namespace: str, obj: Mapping[str, Any]) -> bool:
    """Whether an owner of an object, at any level, has a queue."""
    for _ in range(_MAX_ANCESTORS):
        ref = controller_of(obj)
        resource = OWNERS.get(ref["kind"]) if ref else None
        owner = get(resource, namespace, ref["name"]) if ref and resource else None
        if owner is None:
            return False
        if resource != REPLICA_SETS and queue_name(owner):
            return True
        obj = owner
    return False


def is_managed_by_kueue(ctx: Admission, framework: str, obj: Mapping[str, Any]) -> bool:
    """Whether Kueue manages an object of an integration: it has a queue, and none of its owners has one."""
    if framework not in Configuration(ctx.get).frameworks or ctx.namespace in _SYSTEM_NAMESPACES:
        return False
    return bool(queue_name_for(ctx, obj)) and not has_queued_owner(ctx.get, ctx.namespace, obj)


# The strings that strconv.ParseBool accepts.
_TRUE = ("1", "t", "T", "TRUE", "true", "True")
_FALSE = ("0", "f", "F", "FALSE", "false", "False")


def name_errors(obj: Mapping[str, Any], name: str) -> Iterator[FieldError]:
    """Errors of a label whose value must be an object name."""
    value = (obj["metadata"].get("labels") or {}).get(name)
    messages = names.dns1123_subdomain_errors(value) if value is not None else []
    if messages:
        yield invalid(f"metadata.labels[{name}]", value, ",".join(messages))


def immutable_errors(path: str, new: str, old: str) -> Iterator[FieldError]:
    if new != old:
        yield invalid(path, new, "field is immutable")


def new_job_errors(job: Mapping[str, Any]) -> Iterator[FieldError]:
    yield from name_errors(job, QUEUE_LABEL)
    yield from name_errors(job, PREBUILT_WORKLOAD_LABEL)
    value = (job["metadata"].get("labels") or {}).get(MAX_EXEC_TIME_SECONDS_LABEL)
    if value is None:
        return
    path = f"metadata.labels[{MAX_EXEC_TIME_SECONDS_LABEL}]"
    if not value.lstrip("+-").isdigit():
        yield invalid(path, value, f'strconv.Atoi: parsing "{value}": invalid syntax')
    elif int(value) <= 0:
        yield invalid(path, int(value), "should be greater than 0")


def changed_job_errors(
    ctx: Admission, job: Mapping[str, Any], old: Mapping[str, Any], suspended: bool, was_suspended: bool
) -> Iterator[FieldError]:
    queue, path = queue_name(job), f"metadata.labels[{QUEUE_LABEL}]"
    if not suspended:
        yield from immutable_errors(path, queue, queue_name(old))
    if not queue and queue_name(old) and ctx.get(LOCAL_QUEUES, ctx.namespace, "default") is not None:
        yield invalid(path, "", "queue-name must not be empty in namespace with default queue")
    if suspended:
        yield from name_errors(job, PREBUILT_WORKLOAD_LABEL)
    else:
        yield from immutable_errors(
            f"metadata.labels[{PREBUILT_WORKLOAD_LABEL}]",
            label_value(job, PREBUILT_WORKLOAD_LABEL),
            label_value(old, PREBUILT_WORKLOAD_LABEL),
        )
    if not suspended or not was_suspended:
        yield from immutable_errors(
            f"metadata.labels[{MAX_EXEC_TIME_SECONDS_LABEL}]",
            label_value(job, MAX_EXEC_TIME_SECONDS_LABEL),
            label_value(old, MAX_EXEC_TIME_SECONDS_LABEL),
        )
    yield from priority_errors(job, old, suspended)


def priority_errors(job: Mapping[str, Any], old: Mapping[str, Any], suspended: bool) -> Iterator[FieldError]:
    new, previous = label_value(job, PRIORITY_CLASS_LABEL), label_value(old, PRIORITY_CLASS_LABEL)
    if (not suspended and not previous) or not new:
        yield from immutable_errors(f"metadata.labels[{PRIORITY_CLASS_LABEL}]", new, previous)


def batch_job_errors(job: Mapping[str, Any], old: Mapping[str, Any] | None) -> Iterator[FieldError]:
    """Errors of a Job's partial admission annotations."""
    annotations = job["metadata"].get("annotations") or {}
    old_annotations = (old["metadata"].get("annotations") or {}) if old is not None else {}
    if old is None or annotations.get(MIN_PARALLELISM_ANNOTATION) != old_annotations.get(MIN_PARALLELISM_ANNOTATION):
        yield from _min_parallelism_errors(job, annotations.get(MIN_PARALLELISM_ANNOTATION))
    yield from _equal_completions_errors(job, annotations.get(COMPLETIONS_EQUAL_PARALLELISM_ANNOTATION))
    was_running = old is not None and MIN_PARALLELISM_ANNOTATION in old_annotations and not old["spec"].get("suspend")
    if was_running and old is not None and old["spec"].get("parallelism", 1) != job["spec"].get("parallelism", 1):
        yield forbidden("spec.parallelism", "cannot change when partial admission is enabled and the job is not suspended")


def _min_parallelism_errors(job: Mapping[str, Any], value: str | None) -> Iterator[FieldError]:
    if value is None:
        return
    path, parallelism = f"metadata.annotations[{MIN_PARALLELISM_ANNOTATION}]", job["spec"].get("parallelism", 1)
    pods = min(parallelism, job["spec"].get("completions", parallelism))
    if not value.lstrip("+-").isdigit():
        yield invalid(path, value, f'strconv.Atoi: parsing "{value}": invalid syntax')
    elif not 0 < int(value) < pods:
        yield invalid(path, int(value), f"should be between 0 and {pods - 1}")


def _equal_completions_errors(job: Mapping[str, Any], value: str | None) -> Iterator[FieldError]:
    path, spec = f"metadata.annotations[{COMPLETIONS_EQUAL_PARALLELISM_ANNOTATION}]", job["spec"]
    if value is not None and value not in (*_TRUE, *_FALSE):
        yield invalid(path, value, f'strconv.ParseBool: parsing "{value}": invalid syntax')
    if value not in _TRUE:
        return
    if spec.get("completionMode", "NonIndexed") == "NonIndexed":
        yield invalid(path, value, "should not be enabled for NonIndexed jobs")
    if spec.get("parallelism", 1) != spec.get("completions", 1):
        message = f"should be equal to parallelism when {COMPLETIONS_EQUAL_PARALLELISM_ANNOTATION} is annotation is true"
        yield invalid("spec.completions", spec.get("completions"), message)
