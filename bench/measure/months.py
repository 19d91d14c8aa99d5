"""A synthetic month of training jobs, and what becomes of them: to hold forecasts against.

Four teams share 256 chips in one queue with three priorities. Each team has projects; the jobs of a project are alike in size and
run about as long as each other, but for chance. People submit by day, more than by night. Half of the jobs have an estimate, and
people are wrong about it, each project in its own way. A tenth of the jobs fails early. What happens then is decided by the twin's
Kueue, which is held against the real one elsewhere; here only run times and arrivals are unknown to the forecast.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.rehearsal.forecast.course import Course, Track
from sliceworks.rehearsal.forecast.jobs import job_of
from sliceworks.rehearsal.forecast.snapshot import Snapshot

if TYPE_CHECKING:
    from sliceworks.twin.workloads.kueue.core.model import Item

Object = dict[str, Any]
START = datetime(2026, 10, 1, tzinfo=UTC)
HOUR, DAY = 3600.0, 86_400.0
CHIPS, RESOURCE = 256, "google.com/tpu"
_TEAMS, _PROJECTS = ("language", "vision", "speech", "science"), 6
_PRIORITIES = {"low": 250, "medium": 500, "high": 750}
_SIZES = (4, 8, 16, 16, 32, 32, 64, 64)
_KEPT = 7 * DAY
"""How long a job is kept after it has ended."""


@dataclass(slots=True)
class Planned:
    """A job of the month: when it comes, and how long it really runs."""

    name: str
    team: str
    chips: int
    priority: str
    came: float
    lasts: float
    estimate: float | None
    keeps: bool
    periods: list[list[float]] = field(default_factory=list)
    """When it ran: beginnings and ends; the last end is missing while it runs."""
    ended: float = math.inf


class Recorder(Course):
    """A run that writes down when each job ran."""

    __slots__ = ("book",)

    def __init__(self, book: dict[Any, Planned]) -> None:
        super().__init__()
        self.book = book

    def _start(self, item: Item) -> None:
        super()._start(item)
        self.book[item.key].periods.append([self.now])

    def _stop(self, track: Track) -> None:
        self.book[track.job.key].periods[-1].append(self.now)
        super()._stop(track)

    def _end(self, track: Track, serial: int) -> None:
        super()._end(track, serial)
        if track.ended == self.now and math.isinf(self.book[track.job.key].ended):
            self.book[track.job.key].ended = self.now
            self.book[track.job.key].periods[-1].append(self.now)


def month(seed: int = 0, *, days: int = 30, load: float = 0.75) -> list[Planned]:
    """The jobs of a month, with what became of each."""
    jobs = planned(seed, days=days, load=load)
    snapshot = Snapshot(START, _queues())
    book: dict[Any, Planned] = {}
    course = Recorder(book)
    course.learn(snapshot)
    for each in jobs:
        job = job_of(workload(each, -1.0), START)
        book[job.key] = each
        course.add(job, each.lasts)
    course.run()
    return jobs


def planned(seed: int, *, days: int = 30, load: float = 0.75) -> list[Planned]:
    """The jobs of a month, before anything became of them."""
    return sorted(_planned(Random(seed), days * DAY, load), key=lambda job: job.came)


def _planned(random: Random, length: float, load: float) -> list[Planned]:
    projects = [(team, f"{team[:2]}-{chr(97 + number)}", random.choice(_SIZES)) for team in _TEAMS for number in range(_PROJECTS)]
    typical = {name: random.lognormvariate(math.log(1.5 * HOUR), 1.0) for _, name, _ in projects}
    wrong = {name: random.lognormvariate(0.3, 0.5) for _, name, _ in projects}
    weight = {name: random.lognormvariate(0.0, 0.7) for _, name, _ in projects}
    total, found, count = CHIPS * length * load, list[Planned](), dict[str, int]()
    while total > 0:
        team, name, chips = random.choices(projects, [weight[name] for _, name, _ in projects])[0]
        count[name] = count.get(name, 0) + 1
        lasts = typical[name] * random.lognormvariate(0.0, 0.4) * (random.uniform(0.01, 0.2) if random.random() < 0.1 else 1.0)
        estimate = round(typical[name] * wrong[name] * random.lognormvariate(0.0, 0.2) / 1800 + 0.5) * 1800.0
        found.append(
            Planned(
                f"{name}-{count[name]}",
                team,
                chips,
                random.choices(list(_PRIORITIES), (3, 5, 2))[0],
                _moment(random, length),
                max(lasts, 60.0),
                estimate if random.random() < 0.5 else None,
                random.random() < 0.5,
            )
        )
        total -= chips * lasts
    return found


def _moment(random: Random, length: float) -> float:
    """Three in four come between nine and six."""
    while True:
        moment = random.uniform(0, length)
        if 9 * HOUR <= moment % DAY < 18 * HOUR or random.random() < 0.2:
            return moment


def state(jobs: list[Planned], now: float) -> Snapshot:
    """What a snapshot shows at a moment of the month."""
    objects = _queues()
    objects["Workload"] = [workload(job, now) for job in jobs if job.came <= now and job.ended > now - _KEPT]
    return Snapshot(START + timedelta(seconds=now), objects)


def _queues() -> dict[str, list[Object]]:
    quota = [{"name": "v5e", "resources": [{"name": RESOURCE, "nominalQuota": str(CHIPS)}]}]
    spec = {
        "resourceGroups": [{"coveredResources": [RESOURCE], "flavors": quota}],
        "namespaceSelector": {},
        "preemption": {"withinClusterQueue": "LowerPriority"},
    }
    return {
        "Namespace": [{"metadata": {"name": team, "labels": {}}} for team in _TEAMS],
        "ResourceFlavor": [{"metadata": {"name": "v5e"}, "spec": {}}],
        "ClusterQueue": [{"metadata": {"name": "chips"}, "spec": spec}],
        "LocalQueue": [{"metadata": {"name": "queue", "namespace": team}, "spec": {"clusterQueue": "chips"}} for team in _TEAMS],
        "WorkloadPriorityClass": [{"metadata": {"name": name}, "value": value} for name, value in _PRIORITIES.items()],
    }


def workload(job: Planned, now: float) -> Object:
    """A job as its Workload shows it at a moment."""
    container: Object = {"name": "trainer", "image": f"{job.team}:1", "resources": {"requests": {RESOURCE: str(job.chips)}}}
    if job.keeps:
        container["env"] = [{"name": "CHECKPOINT_DIR"}]
    template: Object = {"spec": {"containers": [container]}}
    if job.estimate is not None:
        template["metadata"] = {"annotations": {"sliceworks.dev/run-seconds": f"{job.estimate:g}"}}
    owner = {"kind": "JobSet", "name": job.name, "controller": True}
    return {
        "metadata": {
            "name": f"jobset-{job.name}",
            "namespace": job.team,
            "uid": job.name,
            "creationTimestamp": _time(job.came),
            "ownerReferences": [owner],
        },
        "spec": {
            "queueName": "queue",
            "priority": _PRIORITIES[job.priority],
            "podSets": [{"name": "slice", "count": 1, "template": template}],
        },
        "status": _status(job, now),
    }


def _status(job: Planned, now: float) -> Object:
    begun = [period for period in job.periods if period[0] <= now]
    if not begun:
        return {}
    last = begun[-1]
    before = sum(end - begin for begin, end in (period for period in begun if len(period) == 2 and period[1] <= now))
    status: Object = {"conditions": []}
    if job.ended <= now:
        before -= last[1] - last[0]
        status["conditions"] += [_condition("Admitted", last[0]), _condition("Finished", job.ended, "Succeeded")]
    elif len(last) == 1 or last[1] > now:
        assigned = {"name": "slice", "count": 1, "flavors": {RESOURCE: "v5e"}, "resourceUsage": {RESOURCE: str(job.chips)}}
        status["admission"] = {"clusterQueue": "chips", "podSetAssignments": [assigned]}
        status["conditions"] += [_condition("QuotaReserved", last[0]), _condition("Admitted", last[0])]
    if before > 0:
        status["accumulatedPastExecutionTimeSeconds"] = int(before)
    return status


def _condition(kind: str, moment: float, reason: str = "Admitted") -> Object:
    return {"type": kind, "status": "True", "reason": reason, "message": "", "lastTransitionTime": _time(moment)}


def _time(moment: float) -> str:
    return clock.rfc3339(START + timedelta(seconds=moment))
