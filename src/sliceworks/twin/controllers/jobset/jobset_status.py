"""The status that one reconcile of a JobSet computes, and its events."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sliceworks.base import clock
from sliceworks.base.conditions import find_true_condition, set_condition
from sliceworks.kube.events import object_reference
from sliceworks.twin.apiserver.auth.authentication import MASTERS, User
from sliceworks.twin.controllers.jobset.jobset_api import API_VERSION, KIND
from sliceworks.twin.controllers.runtime.recorder import SeriesRecorder

if TYPE_CHECKING:
    from sliceworks.twin.controllers.jobset.jobset_api import Obj
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext


NORMAL, WARNING = "Normal", "Warning"
COMPLETED, FAILED, SUSPENDED, RESTARTING = "Completed", "Failed", "Suspended", "RestartingJobSet"
STARTUP_IN_PROGRESS, STARTUP_COMPLETED = "StartupPolicyInProgress", "StartupPolicyCompleted"
_EXCLUSIVE = {(STARTUP_IN_PROGRESS, STARTUP_COMPLETED), (STARTUP_COMPLETED, STARTUP_IN_PROGRESS)}


class EventParams(NamedTuple):
    """The type, reason and message of an event on a JobSet."""

    type: str
    reason: str
    message: str


class StatusUpdate:
    """Collects the changes of one reconcile: `changed` says whether `status` has to be written, `events` what to record then."""

    def __init__(self, jobset: Obj) -> None:
        self.status: Obj = jobset.setdefault("status", {})
        self.status.setdefault("restarts", 0)
        self.changed = False
        self.events: list[EventParams] = []

    @property
    def conditions(self) -> list[Obj]:
        conditions: list[Obj] = self.status.setdefault("conditions", [])
        return conditions

    @property
    def finished_at(self) -> str:
        """The time when the JobSet completed or failed; empty before."""
        return str(find_true_condition({"status": self.status}, COMPLETED, FAILED).get("lastTransitionTime", ""))

    def set_condition(self, kind: str, reason: str, message: str, *, true: bool = True, event: str = NORMAL) -> None:
        """Set a condition and record an event if it changed. A missing condition is not added as false."""
        status, changed = "True" if true else "False", False
        for other in self.conditions:
            if true and other["status"] == "True" and (other["type"], kind) in _EXCLUSIVE:
                other["status"] = "False"
                changed = True
        if true or any(condition["type"] == kind for condition in self.conditions):
            new = {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": clock.timestamp()}
            changed = set_condition(self.conditions, new) or changed
        if changed:
            self.changed = True
            self.events.append(EventParams(event, reason, message))

    def complete(self) -> None:
        self.set_condition(COMPLETED, "AllJobsCompleted", "jobset completed successfully")
        self.end_restart("JobSetCompleted", "jobset completed successfully")
        self.status["terminalState"] = COMPLETED

    def fail(self, reason: str, message: str) -> None:
        self.set_condition(FAILED, reason, message, event=WARNING)
        self.end_restart("JobSetFailed", "jobset failed")
        self.status["terminalState"] = FAILED

    def end_restart(self, reason: str, message: str) -> None:
        """Set RestartingJobSet to false, if the JobSet was restarted."""
        self.set_condition(RESTARTING, reason, message, true=False)

    def suspend(self) -> None:
        self.set_condition(SUSPENDED, "SuspendedJobs", "jobset is suspended")
        self.end_restart("JobSetSuspended", "jobset is suspended")

    def resume(self) -> None:
        self.set_condition(SUSPENDED, "ResumeJobs", "jobset is resumed", true=False)

    def set_startup_policy(self, *, completed: bool) -> None:
        """Set the condition of the in-order startup policy."""
        if completed:
            self.set_condition(STARTUP_COMPLETED, "InOrderStartupPolicyCompleted", "in order startup policy has completed")
        else:
            self.set_condition(STARTUP_IN_PROGRESS, "InOrderStartupPolicyInProgress", "in order startup policy is in progress")

    def set_replicated_job_statuses(self, statuses: list[Obj]) -> None:
        if self.status.get("replicatedJobsStatus", []) != statuses:
            self.status["replicatedJobsStatus"] = statuses
            self.changed = True

    def to_dict(self) -> Obj:
        """The status as JobSet writes it: empty and zero fields are omitted, except `restarts`."""
        return {key: value for key, value in self.status.items() if value or key == "restarts"}


USER = User("system:serviceaccount:jobset-system:jobset-controller-manager", groups=(MASTERS,))
FIELD_MANAGER = "jobset"


class JobSetRecorder:
    """Writes the events of JobSets."""

    def __init__(self, context: ControllerContext) -> None:
        self._recorder = SeriesRecorder(context, USER, FIELD_MANAGER, f"{FIELD_MANAGER}-twin", fieldManager=FIELD_MANAGER)

    async def event(self, jobset: Obj, params: EventParams) -> None:
        regarding = object_reference({**jobset, "apiVersion": API_VERSION, "kind": KIND})
        await self._recorder.event(regarding, params.type, params.reason, "Reconciling", params.message)
