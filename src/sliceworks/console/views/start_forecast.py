"""Predicted start of pending workloads: the forecast of `train forecast` from the cache."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sliceworks.base import clock, duration
from sliceworks.base.errors import SliceworksError
from sliceworks.console.kinds import ADMISSION_CHECKS, CLUSTER_QUEUES, COHORTS, FLAVORS, LOCAL_QUEUES, NAMESPACES, WORKLOADS
from sliceworks.rehearsal.forecast.forecaster import Forecaster
from sliceworks.rehearsal.forecast.jobs import trim
from sliceworks.rehearsal.forecast.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.console.cluster_cache import ClusterCache
    from sliceworks.rehearsal.forecast.forecaster import JobForecast

    Starts = Mapping[tuple[str, str], str]

KINDS = (NAMESPACES, FLAVORS, ADMISSION_CHECKS, COHORTS, CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS)
_TTL = 15.0  # seconds between two forecasts
_MAX_JOBS = 400  # unfinished jobs; a forecast of more would slow the pages down
_RUNS = 20


class StartForecasts:
    """The last forecast, by namespace and name of the job; computed in a thread while a page shows it."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache
        self._starts: Starts = {}
        self._due = 0.0
        self._task: asyncio.Task[None] | None = None

    def starts(self) -> Starts:
        """The last forecast; starts the next one if it is due."""
        idle = self._task is None or self._task.done()
        if idle and clock.loop_time() >= self._due and self._cache.knows(*KINDS):
            self._due = clock.loop_time() + _TTL
            self._task = asyncio.create_task(self._refresh(), name="start forecast")
        return self._starts

    async def _refresh(self) -> None:
        try:
            self._starts = await asyncio.to_thread(predict_starts, self._snapshot())
        except SliceworksError:
            self._starts = {}  # an object that the forecast cannot read; the reason is still shown

    def _snapshot(self) -> Snapshot:
        tables = ((kind.kind, self._cache.table(kind).all()) for kind in KINDS)
        return Snapshot(self._cache.now(), {kind: [trim(kind, item) for item in objects] for kind, objects in tables})


def predict_starts(snapshot: Snapshot) -> Starts:
    """When pending jobs start; empty for a cluster with too many jobs."""
    forecaster = Forecaster(snapshot)
    pending = [job for job in forecaster.jobs.values() if job.state != "running"]
    if not pending or len(forecaster.jobs) > _MAX_JOBS:
        return {}
    forecast = forecaster.forecast(pending, runs=_RUNS)
    return {(item.job.key[0], item.job.name): format_start(item) for item in forecast.expectations}


def format_start(item: JobForecast) -> str:
    """`in 2h (90 %: 1h – 3h)`, `now`, `never` or `unknown`."""
    if item.starts is None:
        return "never" if item.verdict == "never" else "unknown"
    if item.starts.high < 1:
        return "now"
    low, median, high = (duration.human(max(value, 0)) for value in (item.starts.low, item.starts.median, item.starts.high))
    return f"in {median}" if low == high else f"in {median} (90 %: {low} – {high})"
