"""How a job and its Workload go together: whether one is that of the other, and whether its pods are ready."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.workloads.kueue import conditions, keys
from sliceworks.twin.workloads.kueue.keys import ADMITTED, READY, Obj

if TYPE_CHECKING:
    from collections.abc import Mapping


def equivalent(job: Obj, wanted: list[Obj], workload: Mapping[str, Any]) -> bool:
    """Whether a Workload is that of the job as it is now. Admission adds tolerations, so they do not count once it has them."""
    admitted = conditions.true(workload, ADMITTED)
    if len(wanted) != len(conditions.pod_sets_of(workload)):
        return False
    counts = {
        one["name"]: one.get("count")
        for one in ((workload.get("status") or {}).get("admission") or {}).get("podSetAssignments", ())
    }
    for mine, theirs in zip(wanted, conditions.pod_sets_of(workload), strict=True):
        allowed = {theirs["count"]} | ({counts.get(theirs["name"])} if "minCount" in theirs else set())
        if mine["count"] not in allowed or mine.get("minCount") != theirs.get("minCount"):
            return False
        ours, others = mine["template"].get("spec") or {}, theirs["template"].get("spec") or {}
        same = ("containers", "initContainers") if admitted else ("containers", "initContainers", "tolerations")
        if any((ours.get(part) or []) != (others.get(part) or []) for part in same):
            return False
    most = (job["metadata"].get("labels") or {}).get(keys.MOST_SECONDS)
    return str(workload["spec"].get("maximumExecutionTimeSeconds", "")) == (most or "")


def readiness(workload: Mapping[str, Any], ready: bool) -> tuple[bool, str, str]:
    """The condition PodsReady: its status, reason and message."""
    old = conditions.find(workload, READY)
    waiting = (False, "WaitForStart", "Not all pods are ready or succeeded")
    if not conditions.true(workload, ADMITTED):
        return waiting
    lost = old is not None and old["reason"] in ("WaitForRecovery", "Recovered")
    if ready:
        return True, "Recovered" if lost else "Started", "All pods reached readiness and the workload is running"
    if old is not None and (old["status"] == "True" or old["reason"] == "WaitForRecovery"):
        return False, "WaitForRecovery", "At least one pod has failed, waiting for recovery"
    return waiting
