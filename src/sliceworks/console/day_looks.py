"""The day of a cluster, written down while a console runs; and a twin's time, and what is made to go wrong on it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sliceworks.base import clock, yamls
from sliceworks.base.errors import Forbidden, MethodNotAllowed, NotFound, SliceworksError, Unauthorized
from sliceworks.console.clocks import TwinClock
from sliceworks.console.fleet import fleet_of
from sliceworks.console.kinds import JOBSETS, NODES, WORKLOADS
from sliceworks.console.views import days
from sliceworks.console.views.hosts import HostState
from sliceworks.rehearsal import documents, injection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime
    from pathlib import Path

    from sliceworks.console.views.days import Moment
    from sliceworks.console.views.slices import SliceView
    from sliceworks.console.world import World
    from sliceworks.kube.resources import Object, Resource
    from sliceworks.rehearsal.injection import Pace
    from sliceworks.rehearsal.scenarios import Happening
    from sliceworks.specs.scenario import Scenario

log = logging.getLogger(__name__)
_LOOK_EVERY = 1.0
_NO_TWIN = (NotFound, Forbidden, Unauthorized, MethodNotAllowed)  # what other clusters say to a path of a twin's own
_READERS: dict[Resource, Callable[[Object], Iterator[Moment]]] = {
    NODES: days.of_node,
    JOBSETS: days.of_jobset,
    WORKLOADS: days.of_workload,
}


@dataclass(frozen=True, slots=True)
class Planned:
    """A scenario of the user's folder."""

    name: str
    file: Path
    events: int


class Day:
    """One world's day. Who asks for it first has it written down from then on; what objects remember of the time before is read."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.diary = days.Diary()
        self.pace: Pace | None = None
        self.is_twin: bool | None = None
        self._clock = TwinClock()
        self._feed = world.feed(*_READERS)
        self._tasks: set[asyncio.Task[None]] = set()
        self.diary.note(found for resource, read in _READERS.items() for obj in world.table(resource).all() for found in read(obj))
        self._keep(self._write())

    async def _write(self) -> None:
        wrong = ""
        while True:
            try:
                with suppress(SliceworksError):
                    await self.look()
                self._read()
                wrong = ""
            except Exception as error:  # the rest of the day is written down all the same
                if repr(error) != wrong:
                    log.exception("a moment of the day is missing")
                wrong = repr(error)
            await clock.sleep(_LOOK_EVERY)

    async def look(self) -> None:
        """What the twin's clock shows."""
        if self.is_twin is False:
            return
        try:
            self.pace = pace = await injection.pace(self._world.client)
        except _NO_TWIN:
            self.is_twin = False
        else:
            self.is_twin = True
            self._clock.look(pace.now, 0.0 if pace.paused else pace.speed or 1.0, clock.loop_time())

    def now(self) -> datetime:
        """What the twin's clock shows: looked at anew after each change, so that a jump is seen at once."""
        return self._clock.now() if self.is_twin else self._world.now()

    def _read(self) -> None:
        self.diary.note(self._news())
        found = fleet_of(self._world).all()
        chips = sum(each.chips for each in found)
        self.diary.sample(days.Sample(self.now(), sum(map(_at_work, found)), chips))

    def _news(self) -> Iterator[Moment]:
        for resource, keys in self._feed.take().items():
            table, read = self._world.table(resource), _READERS[resource]
            for key in keys:
                obj = table.get(key.name, key.namespace)
                if obj is not None:
                    yield from read(obj)

    async def inject(self, scenario: Scenario, folder: Path) -> None:
        """Have a scenario happen; returns when its first step is done, and goes on with the rest. A refusal is raised."""
        first: asyncio.Future[Happening | None] = asyncio.get_running_loop().create_future()

        def told(happening: Happening) -> None:
            self._note(happening, scenario)
            if not first.done():
                first.set_result(happening)

        async def happen() -> None:
            try:
                await injection.happen(self._world.client, scenario, folder, told)
            except Exception as error:  # who waits for the first step must hear of it
                if not first.done():
                    first.set_exception(error)
                else:
                    self._note_end(scenario, error)
            else:
                if not first.done():
                    first.set_result(None)

        self._keep(happen())
        done = await first
        if done is not None and done.refused:
            raise SliceworksError(f"{done.what} was refused", hint=done.refused)

    def _note(self, happening: Happening, scenario: Scenario) -> None:
        at = clock.rfc3339(self.now())
        tone = "wait" if happening.refused else "bad"
        said = f"refused: {happening.refused}" if happening.refused else f"scenario {scenario.metadata.name}"
        self.diary.note([days.Moment(at, happening.what, "injected", "faults", tone, said)])

    def _note_end(self, scenario: Scenario, error: Exception) -> None:
        """The rest of a scenario will not happen."""
        if not isinstance(error, SliceworksError):
            log.error("the scenario %s has broken off", scenario.metadata.name, exc_info=error)
        said = f"the rest does not happen: {error}"
        at = clock.rfc3339(self.now())
        self.diary.note([days.Moment(at, f"scenario {scenario.metadata.name}", "broke off", "faults", "bad", said)])

    def _keep(self, work: object) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _at_work(view: SliceView) -> int:
    running = sum(host.state is HostState.RUNNING for host in view.hosts)
    return view.chips * running // max(len(view.hosts), 1)


def planned(folder: Path) -> list[Planned]:
    """The scenarios of a folder that can be played; those with mistakes are left out, `twin inject` tells of them."""
    found = []
    for file in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]):
        with suppress(SliceworksError):
            if any(documents.is_scenario(each) for each in yamls.load_path(file)):
                scenario = documents.scenario(file)
                if scenario is not None:
                    found.append(Planned(scenario.metadata.name, file, len(scenario.spec.events)))
    return found
