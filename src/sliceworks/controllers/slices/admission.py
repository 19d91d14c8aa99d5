"""Kueue's admission check: a Workload is admitted when all its slices are there, and queues again when they cannot be had."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import duration
from sliceworks.controllers.slices import words
from sliceworks.controllers.slices.demands import waits_for_check
from sliceworks.controllers.slices.gathering import limit_of
from sliceworks.controllers.slices.world import Answer, Decision, Tell

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sliceworks.controllers.slices.demands import Demand
    from sliceworks.controllers.slices.settings import Settings
    from sliceworks.controllers.slices.steps import Standing
    from sliceworks.controllers.slices.views import CheckState, Problem, Ref, WorkloadView
    from sliceworks.controllers.slices.world import World


def answer(
    wanted: Iterable[Demand], standings: Mapping[Ref, list[Standing]], world: World, settings: Settings, decision: Decision
) -> None:
    """Say of every Workload that waits for us how it stands. `standings` are by JobSet.

    Its pods are tied to its own pools: what was made for one Workload is not to be taken by another.
    """
    podsets: dict[Ref, dict[str, None]] = {}
    for demand in wanted:
        if demand.workload is not None:
            podsets.setdefault(demand.jobset.ref, {})[demand.podset] = None
    for check in world.idle_checks:
        decision.actions.append(Tell(check, "Active", "True", "Active", "node pools are made for Workloads with this check"))
    for workload in world.workloads:
        if not waits_for_check(workload, world):
            continue
        state, message = _judge(workload, standings.get(workload.jobset) or [], world, settings, decision)
        for name, (before, said) in workload.checks.items():
            if name in world.checks and before == "Pending" and (before, said) != (state, message):
                tied = tuple(podsets.get(workload.jobset, ())) if state == "Ready" else ()
                own, urgent, event = _own_pools(workload.jobset), state != "Pending", state in ("Retry", "Rejected")
                decision.actions.append(Answer(workload.subject, name, state, message, tied, own, urgent=urgent, event=event))


def tell_trouble(trouble: Problem, world: World, decision: Decision) -> None:
    """Say to Workloads that wait for us why nothing is done for them: the cloud cannot be asked."""
    for workload in world.workloads:
        if waits_for_check(workload, world):
            for name, (before, said) in workload.checks.items():
                if name in world.checks and before == "Pending" and said != trouble.message:
                    decision.actions.append(Answer(workload.subject, name, "Pending", trouble.message, event=True))


def _own_pools(jobset: Ref) -> dict[str, str]:
    """The labels of the nodes that were made for a JobSet."""
    return {words.POOL_JOBSET_NAME: jobset.name, words.POOL_JOBSET_NAMESPACE: jobset.namespace}


def _judge(
    workload: WorkloadView, found: list[Standing], world: World, settings: Settings, decision: Decision
) -> tuple[CheckState, str]:
    ready = sum(each.state == "ready" for each in found)
    if ready == len(found):
        return "Ready", f"{ready} slices are ready" if found else "no slices are wanted"
    refused = next((each.problem for each in found if each.refused and each.problem is not None), None)
    if refused is not None:
        return "Rejected", refused.message
    told = f"{ready} of {len(found)} slices are ready"
    problem = next((each.problem for each in found if each.problem is not None), None)
    if problem is not None:
        told += f": {problem.message}"
    jobset = world.jobsets[workload.jobset]
    limit = limit_of(jobset, settings)
    if limit and workload.reserved_since is not None:
        due = workload.reserved_since.timestamp() + limit
        if due <= world.now:
            return "Retry", f"{told}; given back after {duration.render(limit)}"
        decision.look_at(due)
    return "Pending", told
