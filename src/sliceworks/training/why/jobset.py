"""Causes in the JobSet itself: it has ended, somebody has stopped it, or one part waits for another. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, duration
from sliceworks.base.conditions import condition, is_true
from sliceworks.catalog import labels
from sliceworks.training.why import containers, kinds
from sliceworks.training.why.answer import seen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.training.why.answer import Cause
    from sliceworks.training.why.evidence import Evidence

Object = dict[str, Any]
_MAX_RESTARTS = "ReachedMaxRestarts"


def ended(evidence: Evidence) -> Iterator[Cause]:
    """It is over, well or badly, or about to be removed."""
    jobset = evidence.jobset
    if is_true(jobset, "Completed"):
        told = condition(jobset, "Completed")
        yield kinds.COMPLETED.cause(
            f"It ended well at {told.get('lastTransitionTime', '')}.",
            seen(jobset, "status.conditions[Completed]"),
            said=told.get("message", ""),
        )
    elif is_true(jobset, "Failed"):
        yield from _failed(evidence)
    elif deleted := jobset["metadata"].get("deletionTimestamp"):
        kept = ", ".join(jobset["metadata"].get("finalizers") or ()) or "its pods"
        yield kinds.DELETING.cause(
            f"It is being deleted since {deleted}, and waits for {kept}.", seen(jobset, "metadata.deletionTimestamp")
        )


def _failed(evidence: Evidence) -> Iterator[Cause]:
    """What failed comes first; that there was no restart left comes after it."""
    jobset = evidence.jobset
    told = condition(jobset, "Failed")
    found = [*_deadlines(evidence), *containers.ends(evidence)]
    yield from found
    if told.get("reason") == _MAX_RESTARTS:
        most = _most_restarts(jobset)
        spent = (
            "No restart is allowed" if not most else f"All {most} restarts are spent" if most > 1 else "Its one restart is spent"
        )
        yield kinds.RESTARTS_SPENT.cause(
            f"{spent}.",
            seen(jobset, "status.conditions[Failed]"),
            seen(jobset, "spec.failurePolicy.maxRestarts"),
            said=told.get("message", ""),
        )
    elif not found:
        yield kinds.FAILED.cause(
            f"It ended badly at {told.get('lastTransitionTime', '')}.",
            seen(jobset, "status.conditions[Failed]"),
            said=told.get("message", ""),
        )


def _deadlines(evidence: Evidence) -> Iterator[Cause]:
    for job in evidence.jobs:
        told = condition(job, "Failed")
        if told.get("status") == "True" and told.get("reason") == "DeadlineExceeded":
            limit = duration.human(float(job["spec"].get("activeDeadlineSeconds") or 0))
            yield kinds.DEADLINE.cause(
                f"{job['metadata']['name']} ran longer than {limit}, the longest that one attempt may run.",
                seen(job, "status.conditions[Failed]", "Job"),
                seen(job, "spec.activeDeadlineSeconds", "Job"),
                said=told.get("message", ""),
            )
            return


def stopped(evidence: Evidence) -> Iterator[Cause]:
    """Somebody has suspended it: a person, or the slice controller for a while. What Kueue suspends is the queue's affair."""
    jobset = evidence.jobset
    if not evidence.suspended:
        return
    until = clock.parse((jobset["metadata"].get("annotations") or {}).get(labels.HELD_UNTIL))
    if until is not None:
        yield _held(evidence, until.isoformat().replace("+00:00", "Z"))
    elif not evidence.queue:
        since = condition(jobset, "Suspended").get("lastTransitionTime") or jobset["metadata"].get("creationTimestamp", "")
        yield kinds.SUSPENDED.cause(f"Somebody suspended it; it stands still since {since}.", seen(jobset, "spec.suspend"))


def _held(evidence: Evidence, until: str) -> Cause:
    told = next((each for each in evidence.events_of("JobSet", evidence.name) if each["reason"] == labels.SLICES_GIVEN_BACK), {})
    return kinds.HELD.cause(
        f"Not all of its slices could be had in time, so those that were there were given back. It is tried again at {until}.",
        seen(evidence.jobset, f"metadata.annotations[{labels.HELD_UNTIL}]"),
        said=told.get("message", ""),
    )


def restarting(evidence: Evidence) -> Iterator[Cause]:
    """It failed before, and its parts are made anew."""
    told = condition(evidence.jobset, "RestartingJobSet")
    if told.get("status") == "True":
        count, most = (evidence.jobset.get("status") or {}).get("restarts", 0), _most_restarts(evidence.jobset)
        where = seen(evidence.jobset, "status.conditions[RestartingJobSet]")
        yield kinds.RESTARTING.cause(f"It is started again, {count} of {most} times so far.", where, said=told.get("message", ""))


def _most_restarts(jobset: Object) -> int:
    return int((jobset["spec"].get("failurePolicy") or {}).get("maxRestarts") or 0)


def parts(evidence: Evidence) -> Iterator[Cause]:
    """A part that is not made yet, because it is to follow another."""
    made = {(each["metadata"].get("labels") or {}).get("jobset.sigs.k8s.io/replicatedjob-name") for each in evidence.jobs}
    for each in evidence.jobset["spec"]["replicatedJobs"]:
        for other in each.get("dependsOn") or ():
            if each["name"] not in made:
                wanted = "is complete" if other.get("status") == "Complete" else "is ready"
                yield kinds.BLOCKED.cause(
                    f"The part {each['name']} begins when {other['name']} {wanted}.",
                    seen(evidence.jobset, f"spec.replicatedJobs[{each['name']}].dependsOn"),
                )
    if is_true(evidence.jobset, "StartupPolicyInProgress"):
        yield kinds.BLOCKED.cause(
            "Its parts begin one after another, and not all have begun.",
            seen(evidence.jobset, "status.conditions[StartupPolicyInProgress]"),
            seen(evidence.jobset, "spec.startupPolicy"),
        )
