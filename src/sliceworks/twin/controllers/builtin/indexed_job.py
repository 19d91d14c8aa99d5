"""Completion indexes of an Indexed Job, and the pod templates of a Job. Pure."""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from sliceworks.twin.controllers.runtime.pod_index import COMPLETION_INDEX, TRACKING_FINALIZER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sliceworks.kube.resources import Object

Intervals = tuple[tuple[int, int], ...]
"""Sorted intervals of indexes, both ends included, that neither touch nor overlap."""
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURES = "batch.kubernetes.io/job-index-ignored-failure-count"
_INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
_MAX_PREFIX = 58


def parse_indexes(value: str, completions: int) -> Intervals:
    """The indexes below `completions` in a string such as `0,3-5`; invalid parts are ignored."""
    intervals: list[tuple[int, int]] = []
    for part in value.split(",") if value else ():
        start, dash, end = part.partition("-")
        if not start.isdigit() or (dash and not end.isdigit()):
            continue
        first = int(start)
        if first >= completions:
            break
        intervals.append((first, min(int(end), completions - 1) if dash else first))
    return merge_intervals(intervals)


def format_indexes(intervals: Intervals) -> str:
    """The string form of status.completedIndexes."""
    parts = []
    for first, last in intervals:
        suffix = "" if first == last else f",{last}" if last == first + 1 else f"-{last}"
        parts.append(f"{first}{suffix}")
    return ",".join(parts)


def intervals_of(indexes: Iterable[int]) -> Intervals:
    """The intervals of exactly these indexes."""
    return merge_intervals((index, index) for index in indexes)


def merge_intervals(*collections: Iterable[tuple[int, int]]) -> Intervals:
    """The union of intervals."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(interval for intervals in collections for interval in intervals):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return tuple(merged)


def count_indexes(intervals: Intervals) -> int:
    return sum(last - first + 1 for first, last in intervals)


def contains_index(intervals: Intervals, index: int) -> bool:
    position = bisect_right(intervals, index, key=itemgetter(0))
    return position > 0 and index <= intervals[position - 1][1]


def count_common_indexes(left: Intervals, right: Intervals) -> int:
    """The size of the intersection."""
    return count_indexes(left) + count_indexes(right) - count_indexes(merge_intervals(left, right))


def missing_indexes(intervals: Intervals, count: int, completions: int) -> list[int]:
    """The first `count` indexes below `completions` that the intervals do not contain."""
    missing: list[int] = []
    candidate = 0
    for first, last in (*intervals, (completions, completions)):
        stop = min(first, completions, candidate + count - len(missing))
        missing.extend(range(candidate, stop))
        candidate = max(candidate, last + 1)
        if len(missing) >= count:
            break
    return missing


def pod_template(job: Mapping[str, Any]) -> Object:
    """The pod template of a Job, with the tracking finalizer."""
    template = job["spec"]["template"]
    metadata = template.get("metadata") or {}
    finalizers = metadata.get("finalizers") or []
    tracked = finalizers if TRACKING_FINALIZER in finalizers else [*finalizers, TRACKING_FINALIZER]
    return {"metadata": {**metadata, "finalizers": tracked}, "spec": template["spec"]}


def indexed_pod_template(job: Mapping[str, Any]) -> Object:
    """The pod template of an Indexed Job, with JOB_COMPLETION_INDEX but without an index."""
    template = pod_template(job)
    spec = dict(template["spec"])
    for field in ("initContainers", "containers"):
        if spec.get(field):
            spec[field] = [_with_index_variable(container) for container in spec[field]]
    return {**template, "spec": spec}


def _with_index_variable(container: Object) -> Object:
    if any(variable.get("name") == _INDEX_VARIABLE for variable in container.get("env") or ()):
        return container
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}}
    return {**container, "env": [*(container.get("env") or ()), {"name": _INDEX_VARIABLE, "valueFrom": source}]}


def pod_template_at_index(template: Object, name: str, index: int, failures: tuple[int, int] | None) -> Object:
    """The pod template for one index of a Job; `failures` are the counted and the ignored failures of the index."""
    metadata = template["metadata"]
    annotations = {**(metadata.get("annotations") or {}), COMPLETION_INDEX: str(index)}
    if failures is not None:
        annotations[FAILURES] = str(failures[0])
        if failures[1]:
            annotations[IGNORED_FAILURES] = str(failures[1])
    labels = {**(metadata.get("labels") or {}), COMPLETION_INDEX: str(index)}
    spec = {**template["spec"], "hostname": f"{name}-{index}"}
    return {"metadata": {**metadata, "annotations": annotations, "labels": labels}, "spec": spec}


def pod_name_prefix(name: str, index: int) -> str:
    """The generateName of the pod for an index."""
    suffix = f"-{index}-"
    prefix = f"{name}{suffix}"
    return prefix if len(prefix) <= _MAX_PREFIX else prefix[: _MAX_PREFIX - len(suffix)] + suffix


def index_failure_counts(pod: Mapping[str, Any]) -> tuple[int, int]:
    """The counted and the ignored failures of an index when its pod was created."""
    annotations = pod["metadata"].get("annotations") or {}
    return _parse_count(annotations.get(FAILURES, "")), _parse_count(annotations.get(IGNORED_FAILURES, ""))


def _parse_count(value: str) -> int:
    number = int(value) if value.isascii() and value.isdigit() else 0
    return number if number < 1 << 31 else 0
