"""JobSets as a whole: all slices in time or none, and how far they are, as a condition."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from sliceworks.base import duration
from sliceworks.controllers.slices import words
from sliceworks.controllers.slices.world import Decision, Hold, Resume, Tell

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sliceworks.controllers.slices.demands import Demand
    from sliceworks.controllers.slices.settings import Settings
    from sliceworks.controllers.slices.steps import Standing
    from sliceworks.controllers.slices.views import JobSetView, Ref
    from sliceworks.controllers.slices.world import World

_HAD = ("RUNNING", "RECONCILING")


@dataclass(slots=True)
class Slices:
    """What one JobSet has: how many slices are ready for its Jobs, and which Jobs have one, or wait for one."""

    ready: int = 0
    jobs: set[Ref] = field(default_factory=set)


def limit_of(jobset: JobSetView, settings: Settings) -> float:
    """How long all slices of a JobSet may take; 0 is for ever. One that cannot be read is told of, and the setting counts."""
    return jobset.time_limit if isinstance(jobset.time_limit, float) else settings.time_limit


def hold(waiting: Mapping[Ref, list[Demand]], world: World, settings: Settings, decision: Decision) -> set[Ref]:
    """Suspend the JobSets that have some of their slices and could not have the rest in time; returns which."""
    had = {pool.jobset for pool in world.pools.values() if pool.ours and pool.status in _HAD} if waiting else set()
    held: set[Ref] = set()
    for ref, demands in waiting.items():
        jobset = demands[0].jobset
        limit = limit_of(jobset, settings)
        # Kueue decides about the JobSets in its queues; there the admission check has the same limit.
        if not limit or jobset.queued or ref not in had:
            continue
        due = min(each.since for each in demands) + limit
        if due > world.now:
            decision.look_at(due)
            continue
        held.add(ref)
        lacking = f"{len(demands)} of {len(jobset.jobs)} slices could not be had within {duration.render(limit)}"
        decision.actions.append(Hold(jobset.subject, world.now + settings.retry_cap, lacking))
    return held


def resume(world: World, decision: Decision) -> None:
    """Let the JobSets go on whose time of waiting is over, or which somebody else has let go on."""
    for jobset in world.jobsets.values():
        if jobset.held_until is None or jobset.ended or jobset.deleting:
            continue
        until = jobset.held_until.timestamp()
        if jobset.suspended and until > world.now:
            decision.look_at(until)
        else:
            decision.actions.append(Resume(jobset.subject))


def report(jobset: JobSetView, found: list[Standing], slices: Slices) -> Tell | None:
    """The JobSet's condition, where it is not what stands there already."""
    waiting = [each for each in found if each.state != "ready"]
    # One that sits on the slice of a Job that waits has left that one without: those two want two, whatever each step says.
    total = max(slices.ready + len(waiting), len(found), len(slices.jobs))
    if not total or jobset.ended or jobset.deleting:
        return None
    worst = next((each for each in waiting if each.news), None) or next((each for each in waiting if each.problem), None)
    problem = worst.problem if worst is not None else None
    message = f"{slices.ready} of {total} slices are ready"
    told = jobset.told
    lacking = slices.ready < total
    reason = "Ready" if not lacking else problem.reason if problem is not None else "Provisioning"
    status: Literal["True", "False"] = "False" if lacking else "True"
    if (told.status, told.reason) == (status, reason) and told.message.startswith(message) and not (worst and worst.news):
        return None  # what was said when it happened says more than that it did
    if problem is not None:
        message += f": {problem.message}"
    return Tell(
        jobset.subject,
        words.JOBSET_CONDITION,
        status,
        reason,
        message,
        urgent=(told.status, told.reason) != (status, reason),
        since=told.since if told.status == status else None,
    )


def slices_of(wanted: Iterable[Demand], world: World) -> dict[Ref, Slices]:
    """The slices of each JobSet: its own on which nobody else sits, and those of others on which its Jobs sit."""
    found: dict[Ref, Slices] = {}
    for demand in wanted:
        found.setdefault(demand.jobset.ref, Slices()).jobs.add(demand.job)
    for pool in world.pools.values():
        if pool.ours and world.guest(pool) is None:
            has = found.setdefault(pool.jobset, Slices())
            has.ready += pool.status in _HAD
            has.jobs.update([pool.job] if pool.job.name else ())
    for job, seat in world.seats.items():
        sat = world.pools.get(seat.pool)
        if sat is not None and sat.ours:
            has = found.setdefault(seat.jobset, Slices())
            has.ready += sat.jobset != seat.jobset
            has.jobs.add(job)
    return found
