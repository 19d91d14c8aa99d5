"""Creates a Job in a contract test and compares it with the recording when it has finished."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.workloads import summary, template

if TYPE_CHECKING:
    from tests.support.workloads import WorkloadHarness

Object = dict[str, Any]


def job(
    workloads: WorkloadHarness, name: str = "work", *, restart: str = "Never", pod: Object | None = None, **spec: Any
) -> Object:
    """Create a Job."""
    return workloads.create("Job", name, {"template": template(restartPolicy=restart, **(pod or {})), **spec})


def done(
    workloads: WorkloadHarness, case: str, *, condition: str = "Complete", last: str = "Completed", name: str = "work"
) -> Object:
    """Wait until a Job finishes and compare it with the recording."""
    result = workloads.until_condition("Job", name, condition)
    pods = sorted(
        (summary(pod) for pod in workloads.items("Pod")), key=lambda pod: (pod["annotations"] or {}, pod["phase"]).__repr__()
    )
    reported = workloads.events("Job", name, last)
    workloads.check("jobs", case, {"status": result["status"], "pods": pods, "events": reported})
    return result
