"""Kueue's objects between v1beta1 and v1beta2: the fields that were renamed or joined. What is stored is v1beta2."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.workloads.kueue.keys import API_VERSION, CLUSTER_QUEUES, GROUP, LOCAL_QUEUES, WORKLOADS, Obj

if TYPE_CHECKING:
    from collections.abc import Callable

OLD, NEW = f"{GROUP}/v1beta1", API_VERSION
_SOURCES = {
    "kueue.x-k8s.io/workloadpriorityclass": (GROUP, "WorkloadPriorityClass"),
    "scheduling.k8s.io/priorityclass": ("scheduling.k8s.io", "PriorityClass"),
}
_STOPS = {"Preempt": "MayStopSearch", "Borrow": "MayStopSearch"}


def _rename(fields: Any, old: str, new: str) -> None:
    if isinstance(fields, dict) and old in fields:
        fields[new] = fields.pop(old)


def queue_to_new(obj: Obj) -> Obj:
    spec = obj.get("spec") or {}
    _rename(spec, "cohort", "cohortName")
    checks = spec.pop("admissionChecks", None)
    if checks:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": name} for name in checks]}
    fungibility = spec.get("flavorFungibility") or {}
    for field in ("whenCanBorrow", "whenCanPreempt"):
        if fungibility.get(field) in _STOPS:
            fungibility[field] = _STOPS[fungibility[field]]
    return obj | {"apiVersion": NEW}


def queue_to_old(obj: Obj) -> Obj:
    _rename(obj.get("spec"), "cohortName", "cohort")
    return obj | {"apiVersion": OLD}


def local_to_new(obj: Obj) -> Obj:
    _rename(obj.get("status"), "flavorUsage", "flavorsUsage")
    return obj | {"apiVersion": NEW}


def local_to_old(obj: Obj) -> Obj:
    _rename(obj.get("status"), "flavorsUsage", "flavorUsage")
    return obj | {"apiVersion": OLD}


def workload_to_new(obj: Obj) -> Obj:
    spec = obj.get("spec") or {}
    source, name = spec.pop("priorityClassSource", ""), spec.pop("priorityClassName", "")
    if source in _SOURCES:
        group, kind = _SOURCES[source]
        spec["priorityClassRef"] = {"group": group, "kind": kind, "name": name}
    _rename(obj.get("status"), "accumulatedPastExexcutionTimeSeconds", "accumulatedPastExecutionTimeSeconds")
    return obj | {"apiVersion": NEW}


def workload_to_old(obj: Obj) -> Obj:
    spec = obj.get("spec") or {}
    ref = spec.pop("priorityClassRef", None)
    for source, place in _SOURCES.items():
        if ref and (ref.get("group"), ref.get("kind")) == place:
            spec |= {"priorityClassSource": source, "priorityClassName": ref["name"]}
    _rename(obj.get("status"), "accumulatedPastExecutionTimeSeconds", "accumulatedPastExexcutionTimeSeconds")
    return obj | {"apiVersion": OLD}


CONVERSIONS: dict[str, tuple[Callable[[Obj], Obj], Callable[[Obj], Obj]]] = {
    CLUSTER_QUEUES: (queue_to_old, queue_to_new),
    LOCAL_QUEUES: (local_to_old, local_to_new),
    WORKLOADS: (workload_to_old, workload_to_new),
}
"""How each resource is shown as v1beta1, and how it is stored from it."""
