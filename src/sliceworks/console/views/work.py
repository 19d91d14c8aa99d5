"""What Kueue knows of a job, in a row: where it waits, or how many chips it has. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sliceworks.base import quantity
from sliceworks.base.conditions import condition, is_true

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Work:
    """One Workload. `job` is what it stands for; `sent_back` says when it last lost its place, and `said` in whose words."""

    namespace: str
    job: str
    queue: str
    waits: bool
    chips: int
    priority: int
    since: str
    reason: str
    sent_back: str = ""
    said: str = ""


def work_row(workload: Object) -> Work:
    """What is kept of a Workload."""
    metadata, spec, status = workload["metadata"], workload.get("spec") or {}, workload.get("status") or {}
    over = is_true(workload, "Finished")
    admission = status.get("admission") or {}
    evicted = condition(workload, "Evicted")
    back = evicted if evicted.get("status") == "True" and not over else {}
    return Work(
        namespace=metadata["namespace"],
        job=next((each["name"] for each in metadata.get("ownerReferences") or ()), metadata["name"]),
        queue=spec.get("queueName", ""),
        waits=not over and not admission,
        chips=0 if over else _chips(admission),
        priority=int(spec.get("priority") or 0),
        since=metadata["creationTimestamp"],
        reason=condition(workload, "QuotaReserved").get("message", ""),
        sent_back=back.get("lastTransitionTime", ""),
        said=back.get("message", ""),
    )


def _chips(admission: Object) -> int:
    given = (one for each in admission.get("podSetAssignments") or () for one in (each.get("resourceUsage") or {}).items())
    return sum(int(quantity.parse(amount)) for name, amount in given if "/" in name)
