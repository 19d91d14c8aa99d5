"""The rehearsal: a twin's time with play, pause, speed and steps, its day, and buttons that make things go wrong."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from nicegui import ui

from sliceworks.base import clock, duration
from sliceworks.base.errors import SliceworksError
from sliceworks.console.day_looks import Day, planned
from sliceworks.console.fleet import fleet_of
from sliceworks.console.pages import rehearsal_nodes as nodes
from sliceworks.console.registry import page_of
from sliceworks.console.tree import Tree
from sliceworks.console.views import faults
from sliceworks.console.views.hosts import HostState
from sliceworks.rehearsal import documents, injection

if TYPE_CHECKING:
    from sliceworks.console.day_looks import Planned
    from sliceworks.console.here import Here
    from sliceworks.console.views.faults import Fault

_REDRAW_EVERY, _DAY_EVERY = 0.5, 2.0
_MOMENTS = 60


@page_of("rehearsal", title="Rehearsal", icon="theaters", key="h")
def rehearsal_page(here: Here) -> None:
    """A twin's day."""
    _Rehearsal(here).draw()


class _Rehearsal:
    """One browser's look at the day, and its hands on it."""

    def __init__(self, here: Here) -> None:
        self._here, self._world = here, here.world
        self._day = here.world.once(Day)
        self._fields = {"window": "0", "slice": "", "lasting": "0", "lane": ""}
        self._scenarios: list[Planned] = []
        self._moving = ""

    def draw(self) -> None:
        """Now, and twice a second, each part for itself: what has not changed is not sent."""
        self._head = self._part()
        with ui.element("div").classes("stack"):
            self._time, self._line = self._part(), self._part()
            with ui.element("div").classes("beside even"):
                self._hands, self._moments = self._part(), self._part()
        self._show()
        ui.timer(_REDRAW_EVERY, self._show)
        ui.timer(_DAY_EVERY, self._show_day)

    def _part(self) -> Tree:
        return Tree(on_act=self._act, on_field=self._field)

    def _show(self) -> None:
        day, allowed = self._day, self._here.allow_changes
        self._head.show(nodes.top(day.is_twin, day.pace))
        twin = day.pace if day.is_twin else None
        self._time.show(nodes.time(twin, self._day.now(), self._moving, allowed=allowed) if twin else None)
        slices = fleet_of(self._world).all()
        self._hands.show(nodes.hands(slices, self._scenarios, self._fields, allowed=allowed) if twin else None)
        lane = self._fields["lane"]
        self._moments.show(nodes.moments(day.diary, day.diary.latest(_MOMENTS, lane), lane))

    async def _show_day(self) -> None:
        self._line.show(nodes.day(self._day.diary, self._day.now(), self._fields["window"]))
        self._scenarios = await asyncio.to_thread(planned, self._here.console.folder)

    async def _field(self, name: str, value: str) -> None:
        if name == "speed":
            await self._pace(speed=float(value))
        elif name in self._fields:
            self._fields[name] = value
            await self._show_day()
        self._show()

    async def _act(self, pressed: str) -> None:
        what, _, rest = pressed.partition(":")
        if what in ("play", "pause"):
            await self._pace(paused=what == "pause")
        elif what == "step":
            await self._step(float(rest))
        elif what == "fault":
            await self._strike(faults.fault(rest))
        elif what == "scenario":
            await self._play(rest)
        self._show()

    # What is done to the twin: only through `change`, which refuses where this console only looks.

    async def _pace(self, *, speed: float | None = None, paused: bool | None = None) -> None:
        async def act() -> None:
            await injection.set_pace(self._world.client, speed=speed, paused=paused)
            await self._day.look()

        done = f"runs {speed:g} times as fast as the machine's" if speed else "stands still" if paused else "goes on"
        await self._here.change(act, f"The twin's time {done}.")

    async def _step(self, seconds: float) -> None:
        async def act() -> None:
            await injection.move_on(self._world.client, seconds)
            await self._day.look()

        self._moving = f"moving on by {duration.short(seconds)} …"
        self._show()
        await self._here.change(act, f"The twin has moved on by {duration.short(seconds)}.")
        self._moving = ""

    async def _strike(self, fault: Fault) -> None:
        async def act() -> None:
            lasting = float(self._fields["lasting"]) or fault.lasts
            await self._day.inject(fault.scenario(self._target(fault), lasting), self._here.console.folder)

        await self._here.change(act, f"{fault.title}: it has begun.")

    async def _play(self, name: str) -> None:
        async def act() -> None:
            chosen = next(each for each in self._scenarios if each.name == name)
            scenario = documents.scenario(chosen.file)
            assert scenario is not None
            await self._day.inject(scenario, chosen.file.parent)

        await self._here.change(act, f"Scenario {name} has begun.")

    def _target(self, fault: Fault) -> faults.Target:
        """Whom it strikes: a host of the slice that is chosen, else any; those at work first, for they show what comes of it."""
        wanted = self._fields["slice"]
        views = [each for each in fleet_of(self._world).all() if wanted in ("", each.name)]
        machine = views[0].machine if wanted and views else ""
        if fault.strikes == "cloud":
            return faults.Target(machine=machine)
        up = [host for view in views for host in view.hosts if host.state in (HostState.RUNNING, HostState.READY)]
        working = [host for host in up if host.state is HostState.RUNNING]
        if not up or (fault.strikes == "pod" and not working):
            raise SliceworksError("there is no host at work that this could strike", hint="choose another slice, or submit a job")
        host = clock.randomness().choice(working or up)
        work = host.work
        return faults.Target(host.name, work.pod if work else "", work.namespace if work else "", machine)
