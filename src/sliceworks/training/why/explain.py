"""From what was read to one answer: the first layer that has something to say explains the job. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.conditions import condition, is_true
from sliceworks.training import states
from sliceworks.training.why import admission, capacity, containers, jobset, kinds, line, placement, queues
from sliceworks.training.why.answer import Answer, seen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.training.why.answer import Cause
    from sliceworks.training.why.evidence import Evidence


# Whoever waits for one of these has a place in line, and gets what others give back.
_IN_LINE = (
    kinds.QUOTA_IN_USE,
    kinds.BORROWING_LIMIT,
    kinds.LOWER_PRIORITY,
    kinds.BEHIND,
    kinds.OTHERS_NOT_READY,
    kinds.WAITS,
)


def explain(evidence: Evidence) -> Answer:
    """Say why a job is where it is. There is always at least one cause: what runs well has that for its cause."""
    found = tuple(causes(evidence))
    waits = any(each.kind in _IN_LINE for each in found)
    return Answer(
        evidence.namespace,
        evidence.name,
        states.state(evidence.jobset),
        f"{evidence.name} {found[0].kind.title}.",
        found,
        line.ahead(evidence) if waits else None,
        line.releases(evidence) if waits and evidence.cluster_queue is not None else (),
        tuple(_progress(evidence)),
        evidence.unseen,
    )


def causes(evidence: Evidence) -> list[Cause]:
    """What is in the way, the first thing first, without who is ahead and what would free capacity."""
    for layer in (jobset.ended, jobset.stopped, _queued, _placed):
        if found := list(layer(evidence)):
            return found
    return [_well(evidence)]


def _queued(evidence: Evidence) -> Iterator[Cause]:
    """Kueue has a part in it and has not admitted it."""
    if not evidence.queue or not evidence.suspended or is_true(evidence.workload, "Admitted"):
        return
    back = list(admission.sent_back(evidence))
    yield from back
    if any(each.kind in (kinds.DEACTIVATED, kinds.CHECK_REJECTED, kinds.DEADLINE) for each in back):
        return
    if is_true(evidence.workload, "QuotaReserved"):
        yield from admission.checks(evidence)
        return
    barred = list(queues.way(evidence))
    yield from barred or queues.full(evidence)


def _placed(evidence: Evidence) -> Iterator[Cause]:
    """It may run: its slices, its pods and their containers, in the order in which they come to be."""
    if evidence.suspended:
        return
    found = list(capacity.slices(evidence)) or list(placement.places(evidence))
    found += placement.followers(evidence)
    found += placement.refused(evidence)
    found += containers.troubles(evidence)
    found += containers.ends(evidence)
    found += jobset.restarting(evidence)
    found += jobset.parts(evidence)
    yield from found or containers.unready(evidence)


def _well(evidence: Evidence) -> Cause:
    """Nothing is in the way."""
    where = seen(evidence.jobset, "status.replicatedJobsStatus")
    if states.state(evidence.jobset) != "running":
        waiting = "Nothing is in its way; its parts are not all ready yet."
        return containers.starting(evidence) or kinds.STARTING.cause(waiting, where)
    restarts = int((evidence.jobset.get("status") or {}).get("restarts") or 0)
    told = next((each for each in evidence.events_of("JobSet", evidence.name) if each["reason"].startswith("Restart")), {})
    before = f" It was started again {'once' if restarts == 1 else f'{restarts} times'} before." if restarts else ""
    return kinds.RUNNING.cause(f"All of its parts are ready.{before}", where, said=told.get("message", "") if restarts else "")


def _progress(evidence: Evidence) -> Iterator[tuple[str, str]]:
    """How far it is, in short lines."""
    obj = evidence.jobset
    if evidence.queue:
        yield "queue", evidence.queue
    if evidence.workload is not None:
        yield "priority", str(evidence.workload["spec"].get("priority") or 0)
        told = condition(evidence.workload, "Admitted")
        if told.get("status") == "True":
            yield "admitted", str(told.get("lastTransitionTime", ""))
    yield "submitted", str(obj["metadata"].get("creationTimestamp", ""))
    status = obj.get("status") or {}
    counts = {each["name"]: each for each in status.get("replicatedJobsStatus") or ()}
    for part in obj["spec"]["replicatedJobs"]:
        count = counts.get(part["name"], {})
        done = int(count.get("ready") or 0) + int(count.get("succeeded") or 0)
        yield part["name"], f"{done} of {part.get('replicas', 1)} ready"
    restarts, policy = int(status.get("restarts") or 0), obj["spec"].get("failurePolicy") or {}
    if restarts or policy.get("maxRestarts"):
        yield "restarts", f"{restarts} of {policy.get('maxRestarts', 0)}"
