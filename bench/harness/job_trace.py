"""A synthetic month of training jobs and its simulation, for the comparison with forecasts.

Four teams share 256 chips in one queue with three priorities. Jobs of a project have the same size and similar run times. Most jobs
are submitted by day. Half of the jobs have an estimate of their run time, with an error factor per project. A tenth of the jobs
fails early. The twin's Kueue schedules them; the contract suite compares it with the real one. A forecast does not know run times
and later arrivals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.rehearsal.forecast.jobs import job_of
from sliceworks.rehearsal.forecast.snapshot import Snapshot
from sliceworks.rehearsal.forecast.trial import JobProgress, Trial

if TYPE_CHECKING:
    from sliceworks.twin.controllers.kueue.core.model import WorkloadInfo

Object = dict[str, Any]
START = datetime(2026, 10, 1, tzinfo=UTC)
HOUR, DAY = 3600.0, 86_400.0
CHIPS, RESOURCE = 256, "google.com/tpu"
_TEAMS, _PROJECTS = ("language", "vision", "speech", "science"), 6
PRIORITIES = {"low": 250, "medium": 500, "high": 750}
_SIZES = (4, 8, 16, 16, 32, 32, 64, 64)
_RETENTION = 7 * DAY
"""How long the cluster keeps a job after its end."""


@dataclass(slots=True)
class TraceJob:
    """A job of the trace: its submission and actual run time in seconds, and what the simulation made of it."""

    name: str
    team: str
    chips: int
    priority: str
    submitted: float
    run_seconds: float
    estimate: float | None
    checkpoints: bool
    periods: list[list[float]] = field(default_factory=list)
    """Start and end of each run; the last end is missing while it runs."""
    ended: float = math.inf

    @property
    def wait(self) -> float:
        """Seconds from submission to the first start."""
        return self.periods[0][0] - self.submitted


class RecordingTrial(Trial):
    """A trial that records when each job ran."""

    __slots__ = ("trace",)

    def __init__(self, trace: dict[Any, TraceJob]) -> None:
        super().__init__()
        self.trace = trace

    def _start(self, item: WorkloadInfo) -> None:
        super()._start(item)
        self.trace[item.key].periods.append([self.now])

    def _stop(self, track: JobProgress) -> None:
        self.trace[track.job.key].periods[-1].append(self.now)
        super()._stop(track)

    def _end(self, track: JobProgress, serial: int) -> None:
        super()._end(track, serial)
        if track.ended == self.now and math.isinf(self.trace[track.job.key].ended):
            self.trace[track.job.key].ended = self.now
            self.trace[track.job.key].periods[-1].append(self.now)


def simulate(seed: int = 0, *, days: int = 30, load: float = 0.75) -> list[TraceJob]:
    """The jobs of a month after their simulation."""
    jobs = generate(seed, days=days, load=load)
    snapshot = Snapshot(START, _queues())
    trace: dict[Any, TraceJob] = {}
    trial = RecordingTrial(trace)
    trial.load(snapshot)
    for planned in jobs:
        job = job_of(workload(planned, -1.0), START)
        trace[job.key] = planned
        trial.add(job, planned.run_seconds)
    trial.run()
    return jobs


def generate(seed: int, *, days: int = 30, load: float = 0.75) -> list[TraceJob]:
    """The jobs of a month before their simulation, in the order of submission."""
    return sorted(_generate(Random(seed), days * DAY, load), key=lambda job: job.submitted)


def _generate(random: Random, length: float, load: float) -> list[TraceJob]:
    projects = [(team, f"{team[:2]}-{chr(97 + number)}", random.choice(_SIZES)) for team in _TEAMS for number in range(_PROJECTS)]
    typical_run = {name: random.lognormvariate(math.log(1.5 * HOUR), 1.0) for _, name, _ in projects}
    error_factor = {name: random.lognormvariate(0.3, 0.5) for _, name, _ in projects}
    weight = {name: random.lognormvariate(0.0, 0.7) for _, name, _ in projects}
    remaining, jobs, count = CHIPS * length * load, list[TraceJob](), dict[str, int]()
    while remaining > 0:
        team, name, chips = random.choices(projects, [weight[name] for _, name, _ in projects])[0]
        count[name] = count.get(name, 0) + 1
        run_seconds = (
            typical_run[name] * random.lognormvariate(0.0, 0.4) * (random.uniform(0.01, 0.2) if random.random() < 0.1 else 1.0)
        )
        estimate = round(typical_run[name] * error_factor[name] * random.lognormvariate(0.0, 0.2) / 1800 + 0.5) * 1800.0
        jobs.append(
            TraceJob(
                f"{name}-{count[name]}",
                team,
                chips,
                random.choices(list(PRIORITIES), (3, 5, 2))[0],
                _submission_time(random, length),
                max(run_seconds, 60.0),
                estimate if random.random() < 0.5 else None,
                random.random() < 0.5,
            )
        )
        remaining -= chips * run_seconds
    return jobs


def _submission_time(random: Random, length: float) -> float:
    """A random time; three in four are between nine and six."""
    while True:
        submitted = random.uniform(0, length)
        if 9 * HOUR <= submitted % DAY < 18 * HOUR or random.random() < 0.2:
            return submitted


def snapshot_at(jobs: list[TraceJob], now: float) -> Snapshot:
    """The snapshot of the cluster at a time of the month."""
    objects = _queues()
    objects["Workload"] = [workload(job, now) for job in jobs if job.submitted <= now and job.ended > now - _RETENTION]
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
        "WorkloadPriorityClass": [{"metadata": {"name": name}, "value": value} for name, value in PRIORITIES.items()],
    }


def workload(job: TraceJob, now: float) -> Object:
    """The Workload of a job at a time of the month."""
    container: Object = {"name": "trainer", "image": f"{job.team}:1", "resources": {"requests": {RESOURCE: str(job.chips)}}}
    if job.checkpoints:
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
            "creationTimestamp": _timestamp(job.submitted),
            "ownerReferences": [owner],
        },
        "spec": {
            "queueName": "queue",
            "priority": PRIORITIES[job.priority],
            "podSets": [{"name": "slice", "count": 1, "template": template}],
        },
        "status": _status(job, now),
    }


def _status(job: TraceJob, now: float) -> Object:
    started = [period for period in job.periods if period[0] <= now]
    if not started:
        return {}
    last = started[-1]
    past_seconds = sum(end - start for start, end in (period for period in started if len(period) == 2 and period[1] <= now))
    status: Object = {"conditions": []}
    if job.ended <= now:
        past_seconds -= last[1] - last[0]
        status["conditions"] += [_condition("Admitted", last[0]), _condition("Finished", job.ended, "Succeeded")]
    elif len(last) == 1 or last[1] > now:
        assigned = {"name": "slice", "count": 1, "flavors": {RESOURCE: "v5e"}, "resourceUsage": {RESOURCE: str(job.chips)}}
        status["admission"] = {"clusterQueue": "chips", "podSetAssignments": [assigned]}
        status["conditions"] += [_condition("QuotaReserved", last[0]), _condition("Admitted", last[0])]
    if past_seconds > 0:
        status["accumulatedPastExecutionTimeSeconds"] = int(past_seconds)
    return status


def _condition(kind: str, time: float, reason: str = "Admitted") -> Object:
    return {"type": kind, "status": "True", "reason": reason, "message": "", "lastTransitionTime": _timestamp(time)}


def _timestamp(time: float) -> str:
    return clock.rfc3339(START + timedelta(seconds=time))
