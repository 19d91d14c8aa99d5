"""The status that one pass over a JobSet arrives at, and the events that go with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sliceworks.base import clock

if TYPE_CHECKING:
    from sliceworks.twin.workloads.jobset.keys import Obj

NORMAL, WARNING = "Normal", "Warning"
COMPLETED, FAILED, SUSPENDED, RESTARTING = "Completed", "Failed", "Suspended", "RestartingJobSet"
IN_PROGRESS, STARTED = "StartupPolicyInProgress", "StartupPolicyCompleted"
_EXCLUSIVE = {(IN_PROGRESS, STARTED), (STARTED, IN_PROGRESS)}


class Event(NamedTuple):
    """Something to tell about a JobSet."""

    type: str
    reason: str
    message: str


class Report:
    """`status` may be changed through these methods only: `changed` says whether it is to be written."""

    def __init__(self, jobset: Obj) -> None:
        self.status: Obj = jobset.setdefault("status", {})
        self.status.setdefault("restarts", 0)
        self.changed = False
        self.events: list[Event] = []

    @property
    def conditions(self) -> list[Obj]:
        found: list[Obj] = self.status.setdefault("conditions", [])
        return found

    @property
    def finished_at(self) -> str:
        """When the JobSet ended; empty while it has not."""
        ended = (each for each in self.conditions if each["type"] in {COMPLETED, FAILED} and each["status"] == "True")
        return next((str(each["lastTransitionTime"]) for each in ended), "")

    def condition(self, kind: str, reason: str, message: str, *, true: bool = True, event: str = NORMAL) -> None:
        """Set a condition and tell of it. One that was never true is not mentioned when it is false."""
        status = "True" if true else "False"
        new = {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": clock.timestamp()}
        changed = found = False
        for position, old in enumerate(self.conditions):
            if old["type"] == kind:
                found = True
                if old["status"] == status:
                    new["lastTransitionTime"] = old["lastTransitionTime"]
                if old["status"] != status or (old["reason"], old["message"]) != (reason, message):
                    self.conditions[position] = new
                    changed = True
            elif true and old["status"] == "True" and (old["type"], kind) in _EXCLUSIVE:
                old["status"] = "False"
                changed = True
        if not found and true:
            self.conditions.append(new)
            changed = True
        if changed:
            self.changed = True
            self.events.append(Event(event, reason, message))

    def complete(self) -> None:
        self.condition(COMPLETED, "AllJobsCompleted", "jobset completed successfully")
        self.restarted("JobSetCompleted", "jobset completed successfully")
        self.status["terminalState"] = COMPLETED

    def fail(self, reason: str, message: str) -> None:
        self.condition(FAILED, reason, message, event=WARNING)
        self.restarted("JobSetFailed", "jobset failed")
        self.status["terminalState"] = FAILED

    def restarted(self, reason: str, message: str) -> None:
        """A restart, if there was one, is over."""
        self.condition(RESTARTING, reason, message, true=False)

    def suspend(self) -> None:
        self.condition(SUSPENDED, "SuspendedJobs", "jobset is suspended")
        self.restarted("JobSetSuspended", "jobset is suspended")

    def resume(self) -> None:
        self.condition(SUSPENDED, "ResumeJobs", "jobset is resumed", true=False)

    def start_up(self, *, done: bool) -> None:
        """The replicated Jobs are being started in order, or have all been."""
        if done:
            self.condition(STARTED, "InOrderStartupPolicyCompleted", "in order startup policy has completed")
        else:
            self.condition(IN_PROGRESS, "InOrderStartupPolicyInProgress", "in order startup policy is in progress")

    def count(self, statuses: list[Obj]) -> None:
        """How the Jobs of each replicated Job stand."""
        if self.status.get("replicatedJobsStatus", []) != statuses:
            self.status["replicatedJobsStatus"] = statuses
            self.changed = True

    def written(self) -> Obj:
        """The status as it is stored: what is empty or zero is left out where JobSet leaves it out."""
        return {key: value for key, value in self.status.items() if value or key == "restarts"}
