"""Records the timeline of a cluster, follows a twin's clock, and injects scenarios."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sliceworks.base import clock, yaml_documents
from sliceworks.base.errors import Forbidden, MethodNotAllowed, NotFound, SliceworksError, Unauthorized
from sliceworks.base.transport import Request
from sliceworks.console.kinds import JOBSETS, NODES, WORKLOADS
from sliceworks.console.slice_cache import get_slice_cache
from sliceworks.console.views import timeline as timeline_view
from sliceworks.console.views.hosts import HostState
from sliceworks.console.views.hosts import chips as count_chips
from sliceworks.console.views.team_usage import current_usage
from sliceworks.platform import loader, twin_clock
from sliceworks.rehearsal import events

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator
    from pathlib import Path

    from sliceworks.console.cluster_cache import ClusterCache
    from sliceworks.console.views.slice_view import SliceView
    from sliceworks.console.views.timeline import TimelineEvent
    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Object, Resource
    from sliceworks.platform.twin_clock import ClockStatus
    from sliceworks.rehearsal.events import EventResult
    from sliceworks.specs.scenario import Scenario

_POLL_INTERVAL = 2.0
_CLOCK_REQUEST = Request("GET", "/debug/twin/clock")


class TwinClock:
    """The last observed time of a twin, extrapolated at its speed."""

    def __init__(self) -> None:
        self._shown: datetime | None = None
        self._observed_at = 0.0
        self._pace = 1.0

    def update(self, shown: datetime, pace: float, at: float) -> None:
        """Store an observation; `at` is the local loop time."""
        self._shown, self._pace, self._observed_at = shown, pace, at

    def now(self) -> datetime:
        """The current time of the twin."""
        if self._shown is None:
            return clock.now()
        return self._shown + timedelta(seconds=(clock.loop_time() - self._observed_at) * self._pace)


@asynccontextmanager
async def follow_twin_clock(client: Client) -> AsyncIterator[Callable[[], datetime]]:
    """Poll the clock of a twin; yields a function that returns its time."""
    shown = TwinClock()

    async def observe() -> None:
        answer = await client.send(_CLOCK_REQUEST)
        speed = answer.get("speed")
        pace = 0.0 if answer.get("paused") else 1.0 if speed is None else float(speed)
        shown.update(datetime.fromisoformat(str(answer["now"])), pace, clock.loop_time())

    async def poll() -> None:
        while True:
            with suppress(SliceworksError):
                await observe()
            await clock.sleep(_POLL_INTERVAL)

    task = asyncio.create_task(poll(), name="the twin's clock")
    try:
        yield shown.now
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


log = logging.getLogger(__name__)
_RECORD_INTERVAL = 1.0
_NO_TWIN = (NotFound, Forbidden, Unauthorized, MethodNotAllowed)  # how other clusters answer the path of a twin

_READERS: dict[Resource, Callable[[Object], Iterator[TimelineEvent]]] = {
    NODES: timeline_view.node_events,
    JOBSETS: timeline_view.jobset_events,
    WORKLOADS: timeline_view.workload_events,
}


@dataclass(frozen=True, slots=True)
class ScenarioFile:
    """A Scenario document in the user's folder."""

    name: str
    file: Path
    events: int


class TimelineRecorder:
    """Records the timeline of a cluster from its creation on; earlier events come from timestamps of objects."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache
        self.timeline = timeline_view.Timeline()
        self.pace: ClockStatus | None = None
        self.is_twin: bool | None = None
        self._clock = TwinClock()
        self._feed = cache.feed(*_READERS)
        self._tasks: set[asyncio.Task[None]] = set()
        self.timeline.record(
            event for resource, read in _READERS.items() for obj in cache.table(resource).all() for event in read(obj)
        )
        self._record_past_usage()
        self._start_task(self._record_forever())

    def _record_past_usage(self) -> None:
        """Add the usage before the console started: of workloads and machines that still exist, or whose job does."""
        usage, created = current_usage(self._cache), sorted(_machine_times(self._cache.table(NODES).all()))
        bins = list(zip(*(row for _team, row in usage.chips), strict=True))
        for number, teams in enumerate(bins):
            at = usage.start + (usage.end - usage.start) * (number / len(bins))
            existing = sum(chips for time, chips in created if time <= clock.rfc3339(at))
            self.timeline.sample(timeline_view.UsageSample(at, sum(teams), max(existing, sum(teams))))

    async def _record_forever(self) -> None:
        last_error = ""
        while True:
            try:
                with suppress(SliceworksError):
                    await self.update_clock()
                self._record_changes()
                last_error = ""
            except Exception as error:  # keep recording
                if repr(error) != last_error:
                    log.exception("cannot record the timeline")
                last_error = repr(error)
            await clock.sleep(_RECORD_INTERVAL)

    async def update_clock(self) -> None:
        """Read the clock of the twin."""
        if self.is_twin is False:
            return
        try:
            self.pace = pace = await twin_clock.get(self._cache.client)
        except _NO_TWIN:
            self.is_twin = False
        else:
            self.is_twin = True
            self._clock.update(pace.now, 0.0 if pace.paused else pace.speed or 1.0, clock.loop_time())

    def now(self) -> datetime:
        """The current time of the twin, or of the cluster."""
        return self._clock.now() if self.is_twin else self._cache.now()

    def _record_changes(self) -> None:
        self.timeline.record(self._new_events())
        slices = get_slice_cache(self._cache).all()
        chips = sum(item.chips for item in slices)
        self.timeline.sample(timeline_view.UsageSample(self.now(), sum(map(_busy_chips, slices)), chips))

    def _new_events(self) -> Iterator[TimelineEvent]:
        for resource, keys in self._feed.take().items():
            table, read = self._cache.table(resource), _READERS[resource]
            for key in keys:
                obj = table.get(key.name, key.namespace)
                if obj is not None:
                    yield from read(obj)

    async def inject(self, scenario: Scenario, folder: Path) -> None:
        """Inject a scenario; returns after its first event, which raises if rejected, and runs the rest in the background."""
        first: asyncio.Future[EventResult | None] = asyncio.get_running_loop().create_future()

        def report(result: EventResult) -> None:
            self._record_event(result, scenario)
            if not first.done():
                first.set_result(result)

        async def run() -> None:
            try:
                await events.inject(self._cache.client, scenario, folder, report)
            except Exception as error:  # reported to the caller, or recorded
                if not first.done():
                    first.set_exception(error)
                else:
                    self._record_abort(scenario, error)
            else:
                if not first.done():
                    first.set_result(None)

        self._start_task(run())
        done = await first
        if done is not None and done.refused:
            raise SliceworksError(f"{done.description} was rejected", hint=done.refused)

    def _record_event(self, result: EventResult, scenario: Scenario) -> None:
        at = clock.rfc3339(self.now())
        tone = "wait" if result.refused else "bad"
        message = f"rejected: {result.refused}" if result.refused else f"scenario {scenario.metadata.name}"
        self.timeline.record([timeline_view.TimelineEvent(at, result.description, "injected", "faults", tone, message)])

    def _record_abort(self, scenario: Scenario, error: Exception) -> None:
        """Record that a scenario was aborted."""
        if not isinstance(error, SliceworksError):
            log.error("scenario %s aborted", scenario.metadata.name, exc_info=error)
        message = f"remaining events were not injected: {error}"
        at = clock.rfc3339(self.now())
        self.timeline.record(
            [timeline_view.TimelineEvent(at, f"scenario {scenario.metadata.name}", "aborted", "faults", "bad", message)]
        )

    def _start_task(self, work: object) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _machine_times(nodes: Iterable[Object]) -> Iterator[tuple[str, int]]:
    """When each node with chips was created, and its chips."""
    return ((node["metadata"]["creationTimestamp"], chips) for node in nodes if (chips := count_chips(node)))


def _busy_chips(view: SliceView) -> int:
    running = sum(host.state is HostState.RUNNING for host in view.hosts)
    return view.chips * running // max(len(view.hosts), 1)


def list_scenarios(folder: Path) -> list[ScenarioFile]:
    """The valid scenarios of a folder; `twin inject` reports errors of invalid ones."""
    result = []
    for file in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]):
        with suppress(SliceworksError):
            if any(loader.is_scenario(item) for item in yaml_documents.load_path(file)):
                scenario = loader.load_scenario(file)
                if scenario is not None:
                    result.append(ScenarioFile(scenario.metadata.name, file, len(scenario.spec.events)))
    return result
