"""JobSets as a whole: all slices in time or none, and how far they are, as a condition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import duration
from sliceworks.controllers.slices import words
from sliceworks.controllers.slices.world import Decision, Hold, Resume, Tell

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sliceworks.controllers.slices.demands import Demand
    from sliceworks.controllers.slices.settings import Settings
    from sliceworks.controllers.slices.steps import Standing
    from sliceworks.controllers.slices.views import JobSetView, Pool, Ref
    from sliceworks.controllers.slices.world import World

_HAD = ("RUNNING", "RECONCILING")


def limit_of(jobset: JobSetView, settings: Settings) -> float:
    """How long all slices of a JobSet may take; 0 is for ever."""
    return settings.time_limit if jobset.time_limit is None else jobset.time_limit


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


def report(jobset: JobSetView, standings: Iterable[Standing], pools: Iterable[Pool]) -> Tell | None:
    """The JobSet's condition, where it is not what stands there already."""
    found = list(standings)
    ready = sum(pool.status in _HAD for pool in pools)
    waiting = [each for each in found if each.state != "ready"]
    total = max(ready + len(waiting), len(found))
    if not total or jobset.ended or jobset.deleting:
        return None
    worst = next((each for each in waiting if each.news), None) or next((each for each in waiting if each.problem), None)
    problem = worst.problem if worst is not None else None
    message = f"{ready} of {total} slices are ready"
    told = jobset.told
    reason = "Ready" if not waiting else problem.reason if problem is not None else "Provisioning"
    status = "False" if waiting else "True"
    if (told.status, told.reason) == (status, reason) and told.message.startswith(message) and not (worst and worst.news):
        return None  # what was said when it happened says more than that it did
    if problem is not None:
        message += f": {problem.message}"
    return Tell(
        jobset.subject,
        words.JOBSET_CONDITION,
        "False" if waiting else "True",
        reason,
        message,
        urgent=(told.status, told.reason) != (status, reason),
        since=told.since if told.status == status else None,
    )
