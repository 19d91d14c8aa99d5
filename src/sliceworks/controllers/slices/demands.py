"""Which slices are wanted now: by leaders that wait for a place, and by Workloads that wait for our admission check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.controllers.slices import asks, reading, words
from sliceworks.controllers.slices.bodies import job_key
from sliceworks.controllers.slices.views import UNTOLD, Problem, Ref

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.controllers.slices.asks import Ask
    from sliceworks.controllers.slices.settings import Settings
    from sliceworks.controllers.slices.views import JobSetView, Leader, Subject, Template, Told, WorkloadView
    from sliceworks.controllers.slices.world import World

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Demand:
    """One Job that wants a slice. `about` is who is told how it goes: the leader, or the Workload where there is no pod yet."""

    job: Ref
    kind: str
    key: str
    jobset: JobSetView
    ask: Ask | Problem
    since: float
    about: Subject
    told: Told = UNTOLD
    workload: WorkloadView | None = None
    podset: str = ""  # of the Workload


def demands(world: World, settings: Settings) -> list[Demand]:
    """Every slice that is wanted; the JobSet that has waited longest comes first, and its slices stay together."""
    found: dict[Ref, Demand] = {}
    for leader in world.leaders.values():
        demand = _of_leader(leader, world)
        if demand is not None:
            found[demand.job] = demand
    for workload in world.workloads:
        for demand in _of_workload(workload, world, settings):
            found.setdefault(demand.job, demand)
    first: dict[Ref, float] = {}
    for demand in found.values():
        ref = demand.jobset.ref
        first[ref] = min(first.get(ref, demand.since), demand.since)
    return sorted(found.values(), key=lambda each: (first[each.jobset.ref], each.jobset.ref, each.job))


def waits_for_check(workload: WorkloadView, world: World) -> bool:
    """Whether a Workload has quota, and a check of ours that is not refused."""
    states = [state for name, (state, _) in workload.checks.items() if name in world.checks]
    return workload.active and bool(states) and all(state in ("Pending", "Ready") for state in states)


def _of_leader(leader: Leader, world: World) -> Demand | None:
    jobset = world.jobsets.get(leader.jobset)
    # A leader whose JobSet is not known yet, or is over, gets nothing: its pool would be taken away again at once.
    if jobset is None or jobset.ended or jobset.deleting or jobset.suspended:
        return None
    template = jobset.templates.get(leader.template)
    ask = jobset.time_limit if isinstance(jobset.time_limit, Problem) else leader.ask
    if not isinstance(ask, Problem):
        ask = asks.of_job(ask, template.pods if template is not None else 1)
    key = leader.job_key or job_key(leader.job)
    return Demand(leader.job, leader.job_kind, key, jobset, ask, leader.since.timestamp(), leader.subject, leader.told)


def _of_workload(workload: WorkloadView, world: World, settings: Settings) -> Iterator[Demand]:
    jobset = world.jobsets.get(workload.jobset)
    if jobset is None or jobset.ended or jobset.deleting or not waits_for_check(workload, world):
        return
    since = workload.reserved_since.timestamp() if workload.reserved_since is not None else world.now
    for template in jobset.templates.values():
        flavor = _flavor(workload, template.name, world)
        for index in range(template.replicas):
            job = Ref(jobset.ref.namespace, f"{jobset.ref.name}-{template.name}-{index}")
            labels = {
                words.JOBSET_NAME: jobset.ref.name,
                words.REPLICATED_JOB: template.name,
                words.JOB_INDEX: str(index),
                words.JOB_KEY: job_key(job),
            }
            ask = _planned(template, flavor, labels, settings)
            if ask is not None and isinstance(jobset.time_limit, Problem):
                ask = jobset.time_limit
            if ask is not None:
                about = workload.subject
                yield Demand(job, "Job", job_key(job), jobset, ask, since, about, workload=workload, podset=template.name)


def _planned(template: Template, flavor: Object, labels: dict[str, str], settings: Settings) -> Ask | Problem | None:
    ask = reading.planned_ask(template, flavor, labels, settings)
    return asks.of_job(ask, template.pods) if ask is not None and not isinstance(ask, Problem) else ask


def _flavor(workload: WorkloadView, podset: str, world: World) -> Object:
    """The labels and tolerations that all flavors of a pod set bring."""
    labels: Object = {}
    tolerations: list[Object] = []
    for name in workload.flavors.get(podset, ()):
        spec = world.flavors.get(name) or {}
        labels |= spec.get("nodeLabels") or {}
        tolerations += spec.get("tolerations") or ()
    return {"nodeLabels": labels, "tolerations": tolerations}
