"""Everything that is to be done now, from everything as it stands: pure, and the same for the same world.

It goes by level: whatever happened before, and wherever the controller died, the same actions follow from what is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.controllers.slices import admission, gathering, swapped, words
from sliceworks.controllers.slices.demands import demands
from sliceworks.controllers.slices.releasing import release
from sliceworks.controllers.slices.steps import Standing, Steps
from sliceworks.controllers.slices.world import Create, Decision, Delete, Tell

if TYPE_CHECKING:
    from sliceworks.controllers.slices.demands import Demand
    from sliceworks.controllers.slices.settings import Settings
    from sliceworks.controllers.slices.views import Ref
    from sliceworks.controllers.slices.world import Action, World


def decide(world: World, settings: Settings) -> Decision:
    """What to do now, and when to look again."""
    decision = Decision()
    wanted = demands(world, settings)
    if world.trouble is not None:
        _tell_trouble(wanted, world, decision)
        return decision
    # 1. Give back what nobody needs.
    going = release(world, settings, decision)
    steps = Steps(world, settings, decision, going)
    # 2. JobSets that could not have all their slices in time wait without any.
    waiting: dict[Ref, list[Demand]] = {}
    for demand in wanted:
        pool = steps.pool_of(demand)
        if demand.workload is None and (pool is None or pool.status not in ("RUNNING", "RECONCILING")):
            waiting.setdefault(demand.jobset.ref, []).append(demand)
    held = gathering.hold(waiting, world, settings, decision)
    gathering.resume(world, decision)
    # 3. One step towards every slice that is wanted.
    standings: dict[Ref, list[Standing]] = {}
    for demand in wanted:
        if demand.jobset.ref not in held:
            standings.setdefault(demand.jobset.ref, []).append(steps.step(demand))
    for demand in swapped.exchanges([each for each in wanted if each.jobset.ref not in held], world, decision):
        standings[demand.jobset.ref].append(steps.step(demand))
    steps.remembered()
    # 4. Say how it stands.
    admission.answer(wanted, standings, world, settings, decision)
    _report(wanted, standings, world, decision)
    decision.actions.sort(key=_urgency)
    return decision


def _urgency(action: Action) -> int:
    """What frees room in the cloud comes first, then what asks for it; words come last."""
    return 0 if isinstance(action, Delete) else 1 if isinstance(action, Create) else 2


def _report(wanted: list[Demand], standings: dict[Ref, list[Standing]], world: World, decision: Decision) -> None:
    for ref, slices in gathering.slices_of(wanted, world).items():
        jobset = world.jobsets.get(ref)
        if jobset is None or jobset.suspended:
            continue
        found = gathering.report(jobset, standings.get(ref, []), slices)
        if found is not None:
            decision.actions.append(found)


def _tell_trouble(wanted: list[Demand], world: World, decision: Decision) -> None:
    """Nothing is known about the cloud, so nothing is done; whoever waits is told why: aloud once, and as a condition."""
    trouble = world.trouble
    assert trouble is not None
    said, why = decision.actions, (trouble.reason, trouble.message)
    for demand in wanted:
        if demand.workload is None and demand.told.reason != trouble.reason:
            said.append(Tell(demand.about, words.POD_CONDITION, "False", *why, event=True, since=demand.told.since))
    for jobset in {each.jobset.ref: each.jobset for each in wanted if each.workload is None}.values():
        if jobset.told.reason != trouble.reason:
            since = jobset.told.since if jobset.told.status == "False" else None
            said.append(Tell(jobset.subject, words.JOBSET_CONDITION, "False", *why, since=since))
    admission.tell_trouble(trouble, world, decision)
