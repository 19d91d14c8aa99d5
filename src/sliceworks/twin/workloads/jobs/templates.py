"""The pods that a Job makes: its template with the finalizer by which it counts them, and with an index where it has one. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.workloads.pods import COMPLETION_INDEX, TRACKING

if TYPE_CHECKING:
    from collections.abc import Mapping

FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURES = "batch.kubernetes.io/job-index-ignored-failure-count"
_VARIABLE = "JOB_COMPLETION_INDEX"
_LONGEST_PREFIX = 58

Obj = dict[str, Any]


def plain(job: Mapping[str, Any]) -> Obj:
    """The template of a Job's pods."""
    template = job["spec"]["template"]
    metadata = template.get("metadata") or {}
    finalizers = metadata.get("finalizers") or []
    tracked = finalizers if TRACKING in finalizers else [*finalizers, TRACKING]
    return {"metadata": {**metadata, "finalizers": tracked}, "spec": template["spec"]}


def indexed(job: Mapping[str, Any]) -> Obj:
    """The template of an indexed Job's pods, before they are told their index."""
    template = plain(job)
    spec = dict(template["spec"])
    for field in ("initContainers", "containers"):
        if spec.get(field):
            spec[field] = [_with_variable(container) for container in spec[field]]
    return {**template, "spec": spec}


def _with_variable(container: Obj) -> Obj:
    if any(variable.get("name") == _VARIABLE for variable in container.get("env") or ()):
        return container
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}}
    return {**container, "env": [*(container.get("env") or ()), {"name": _VARIABLE, "valueFrom": source}]}


def at_index(template: Obj, name: str, index: int, failures: tuple[int, int] | None) -> Obj:
    """The template of the pod for one index of the Job of this name. `failures` are those of the index that counted, and not."""
    metadata = template["metadata"]
    annotations = {**(metadata.get("annotations") or {}), COMPLETION_INDEX: str(index)}
    if failures is not None:
        annotations[FAILURES] = str(failures[0])
        if failures[1]:
            annotations[IGNORED_FAILURES] = str(failures[1])
    labels = {**(metadata.get("labels") or {}), COMPLETION_INDEX: str(index)}
    spec = {**template["spec"], "hostname": f"{name}-{index}"}
    return {"metadata": {**metadata, "annotations": annotations, "labels": labels}, "spec": spec}


def prefix(name: str, index: int) -> str:
    """The start of the name of the pod for an index."""
    end = f"-{index}-"
    whole = f"{name}{end}"
    return whole if len(whole) <= _LONGEST_PREFIX else whole[: _LONGEST_PREFIX - len(end)] + end


def failure_counts(pod: Mapping[str, Any]) -> tuple[int, int]:
    """How often the index of a pod had failed when the pod was made: failures that counted, and those that did not."""
    annotations = pod["metadata"].get("annotations") or {}
    return _number(annotations.get(FAILURES, "")), _number(annotations.get(IGNORED_FAILURES, ""))


def _number(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0
    return number if number < 1 << 31 else 0
