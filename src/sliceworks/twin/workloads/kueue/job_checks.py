"""What may be said of any kind of job as it comes, and what may be changed of it later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import names
from sliceworks.schemas.field_errors import FieldError, invalid
from sliceworks.twin.workloads.kueue.keys import LOCAL_QUEUES, MOST_SECONDS, PREBUILT, PRIORITY, QUEUE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sliceworks.twin.admission.context import Admission

_IMMUTABLE = "field is immutable"


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
