"""What may be said of any kind of job as it comes, and what may be changed of it later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import names
from sliceworks.schemas.field_errors import FieldError, forbidden, invalid
from sliceworks.twin.workloads.kueue.keys import LEAST_PODS, LOCAL_QUEUES, MOST_SECONDS, PREBUILT, PRIORITY, QUEUE, SAME_COMPLETIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sliceworks.twin.admission.context import Admission

_IMMUTABLE = "field is immutable"
# What Go takes for true, and then for false.
_BOOLEANS = ("1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False")


def label(obj: Mapping[str, Any], name: str) -> str:
    return str((obj["metadata"].get("labels") or {}).get(name) or "")


def name_errors(obj: Mapping[str, Any], name: str) -> Iterator[FieldError]:
    """A label that must be the name of an object, if it is there."""
    value = (obj["metadata"].get("labels") or {}).get(name)
    wrong = names.dns1123_subdomain_errors(value) if value is not None else []
    if wrong:
        yield invalid(f"metadata.labels[{name}]", value, ",".join(wrong))


def changed(path: str, new: str, was: str) -> Iterator[FieldError]:
    if new != was:
        yield invalid(path, new, _IMMUTABLE)


def new_job_errors(job: Mapping[str, Any]) -> Iterator[FieldError]:
    yield from name_errors(job, QUEUE)
    yield from name_errors(job, PREBUILT)
    text = (job["metadata"].get("labels") or {}).get(MOST_SECONDS)
    if text is None:
        return
    path = f"metadata.labels[{MOST_SECONDS}]"
    if not text.lstrip("+-").isdigit():
        yield invalid(path, text, f'strconv.Atoi: parsing "{text}": invalid syntax')
    elif int(text) <= 0:
        yield invalid(path, int(text), "should be greater than 0")


def changed_job_errors(
    ctx: Admission, job: Mapping[str, Any], old: Mapping[str, Any], suspended: bool, was_suspended: bool
) -> Iterator[FieldError]:
    queue, path = label(job, QUEUE), f"metadata.labels[{QUEUE}]"
    if not suspended:
        yield from changed(path, queue, label(old, QUEUE))
    if not queue and label(old, QUEUE) and ctx.get(LOCAL_QUEUES, ctx.namespace, "default") is not None:
        yield invalid(path, "", "queue-name must not be empty in namespace with default queue")
    if suspended:
        yield from name_errors(job, PREBUILT)
    else:
        yield from changed(f"metadata.labels[{PREBUILT}]", label(job, PREBUILT), label(old, PREBUILT))
    if not suspended or not was_suspended:
        yield from changed(f"metadata.labels[{MOST_SECONDS}]", label(job, MOST_SECONDS), label(old, MOST_SECONDS))
    yield from priority_errors(job, old, suspended)


def priority_errors(job: Mapping[str, Any], old: Mapping[str, Any], suspended: bool) -> Iterator[FieldError]:
    new, was = label(job, PRIORITY), label(old, PRIORITY)
    if (not suspended and not was) or not new:
        yield from changed(f"metadata.labels[{PRIORITY}]", new, was)


def batch_job_errors(job: Mapping[str, Any], old: Mapping[str, Any] | None) -> Iterator[FieldError]:
    """What Jobs may say of running with fewer pods."""
    marks, before = (_annotations(job), _annotations(old) if old is not None else {})
    if old is None or marks.get(LEAST_PODS) != before.get(LEAST_PODS):
        yield from _least_errors(job, marks.get(LEAST_PODS))
    yield from _same_errors(job, marks.get(SAME_COMPLETIONS))
    runs = old is not None and LEAST_PODS in before and not old["spec"].get("suspend")
    if runs and old is not None and old["spec"].get("parallelism", 1) != job["spec"].get("parallelism", 1):
        yield forbidden("spec.parallelism", "cannot change when partial admission is enabled and the job is not suspended")


def _annotations(job: Mapping[str, Any]) -> Mapping[str, str]:
    return job["metadata"].get("annotations") or {}


def _least_errors(job: Mapping[str, Any], text: str | None) -> Iterator[FieldError]:
    if text is None:
        return
    path, parallelism = f"metadata.annotations[{LEAST_PODS}]", job["spec"].get("parallelism", 1)
    pods = min(parallelism, job["spec"].get("completions", parallelism))
    if not text.lstrip("+-").isdigit():
        yield invalid(path, text, f'strconv.Atoi: parsing "{text}": invalid syntax')
    elif not 0 < int(text) < pods:
        yield invalid(path, int(text), f"should be between 0 and {pods - 1}")


def _same_errors(job: Mapping[str, Any], text: str | None) -> Iterator[FieldError]:
    path, spec = f"metadata.annotations[{SAME_COMPLETIONS}]", job["spec"]
    if text is not None and text not in _BOOLEANS:
        yield invalid(path, text, f'strconv.ParseBool: parsing "{text}": invalid syntax')
    if text not in _BOOLEANS[:6]:
        return
    if spec.get("completionMode", "NonIndexed") == "NonIndexed":
        yield invalid(path, text, "should not be enabled for NonIndexed jobs")
    if spec.get("parallelism", 1) != spec.get("completions", 1):
        why = f"should be equal to parallelism when {SAME_COMPLETIONS} is annotation is true"
        yield invalid("spec.completions", spec.get("completions"), why)
