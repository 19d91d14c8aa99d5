"""The priority of a job's Workload: its class of Workloads, else the class of its pods, else the cluster's default."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import NotFound
from sliceworks.twin.workloads.kueue.keys import GROUP, PRIORITIES, PRIORITY, Obj

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Get = Callable[[str, str, str], Mapping[str, Any] | None]

_CLASSES = "scheduling.k8s.io/priorityclasses"


def priority_of(get: Get, job: Mapping[str, Any], pod_sets: Iterable[Mapping[str, Any]]) -> Obj:
    """The fields of a Workload's spec that say it."""
    name = (job["metadata"].get("labels") or {}).get(PRIORITY)
    if name:
        found = get(PRIORITIES, "", name)
        if found is None:
            raise NotFound(f'WorkloadPriorityClass.kueue.x-k8s.io "{name}" not found')
        return _fields(GROUP, "WorkloadPriorityClass", name, found["value"])
    classes = ((pods["template"].get("spec") or {}).get("priorityClassName") for pods in pod_sets)
    name = next((one for one in classes if one), "")
    if not name:
        return {"priority": 0}
    found = get(_CLASSES, "", name)
    if found is None:
        raise NotFound(f'priorityclasses.scheduling.k8s.io "{name}" not found')
    return _fields("scheduling.k8s.io", "PriorityClass", name, found["value"])


def _fields(group: str, kind: str, name: str, value: int) -> Obj:
    return {"priority": value, "priorityClassRef": {"group": group, "kind": kind, "name": name}}
