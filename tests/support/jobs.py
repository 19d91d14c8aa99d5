"""A Job in a contract case: made, and looked at whole when it has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.workloads import summary, template

if TYPE_CHECKING:
    from tests.support.workloads import Lab

Object = dict[str, Any]


def job(lab: Lab, name: str = "work", *, restart: str = "Never", pod: Object | None = None, **spec: Any) -> Object:
    """Make one."""
    return lab.create("Job", name, {"template": template(restartPolicy=restart, **(pod or {})), **spec})


def done(lab: Lab, case: str, *, condition: str = "Complete", last: str = "Completed", name: str = "work") -> Object:
    """Wait for a Job's end and compare all of it."""
    found = lab.until_condition("Job", name, condition)
    pods = sorted((summary(pod) for pod in lab.items("Pod")), key=lambda pod: (pod["annotations"] or {}, pod["phase"]).__repr__())
    told = lab.events("Job", name, last)
    lab.check("jobs", case, {"status": found["status"], "pods": pods, "events": told})
    return found
