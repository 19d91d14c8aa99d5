"""The rehearsal page: a twin's clock, timeline and fault injection."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from nicegui import ui

from sliceworks.base import clock, duration
from sliceworks.base.errors import SliceworksError
from sliceworks.base.names import pluralize
from sliceworks.console.components import choice, drawing, el, empty, heading, icon, link, panel, state
from sliceworks.console.page import Tree, register_page
from sliceworks.console.pages.overview import usage_panel
from sliceworks.console.recorder import TimelineRecorder, list_scenarios
from sliceworks.console.slice_cache import get_slice_cache
from sliceworks.console.views import faults, timeline
from sliceworks.console.views.faults import FAULTS
from sliceworks.console.views.hosts import HostState
from sliceworks.console.views.team_usage import current_usage
from sliceworks.platform import loader, twin_clock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from sliceworks.console.components import Node
    from sliceworks.console.page import PageContext
    from sliceworks.console.recorder import ScenarioFile
    from sliceworks.console.views.faults import Fault
    from sliceworks.console.views.slice_view import SliceView
    from sliceworks.console.views.timeline import Timeline, TimelineEvent
    from sliceworks.platform.twin_clock import ClockStatus

_SPEEDS = (1.0, 10.0, 60.0, 600.0, 3600.0)
_STEPS = ((60, "+1 min"), (600, "+10 min"), (3600, "+1 h"), (21600, "+6 h"))
_DURATIONS = ((0, "default"), (60, "1 min"), (300, "5 min"), (600, "10 min"), (1800, "30 min"), (3600, "1 h"))
_WINDOWS = ((0, "everything"), (1, "last hour"), (6, "last 6 hours"), (24, "last day"))
_SLICES = 300
_READ_ONLY_HINT = "Start the console with --allow-changes"


def rehearsal_header(is_twin: bool | None, pace: ClockStatus | None) -> list[Node]:
    """The heading, or a hint if the cluster is not a twin."""
    if is_twin is None:
        return [heading("Rehearsal"), el("p", "Checking whether this cluster is a twin …", cls="lead")]
    if not is_twin or pace is None:
        start, connect = el("code", "sliceworks twin start --speed 60"), el("code", "sliceworks console --twin")
        hint = ["Faults and clock changes need a twin. Start one: ", start, ", then ", connect]
        return [heading("Rehearsal"), empty("This cluster is not a twin.", hint, icon_name="theaters")]
    return [heading("Rehearsal", state("paused", "wait") if pace.paused else state("running", "good"))]


def clock_panel(pace: ClockStatus, now: datetime, moving: str, *, allowed: bool) -> Node:
    """The twin's clock and its controls."""
    real_time = pace.speed is None
    off = real_time or not allowed or bool(moving)
    act = ("Play", "play", "play_arrow", "main") if pace.paused else ("Pause", "pause", "pause", "")
    speeds = sorted({*_SPEEDS, pace.speed or 1.0})
    pick = choice("Speed", "speed", [(f"{speed:g}", f"{speed:g} ×") for speed in speeds], f"{pace.speed or 1:g}")
    note = "this twin runs in real time; start it with --speed to control its clock" if real_time else None
    return panel(
        "Twin clock",
        el(
            "div",
            el("div", f"{now:%H:%M:%S}", el("small", f"{now:%a %d %b %Y}"), cls="clock", role="timer", key="clock"),
            _press(act[0], act[1], act[2], act[3], off=off),
            el("span", f"{pace.speed or 1:g} ×", cls="note") if real_time or not allowed else pick,
            [_press(words, f"step:{seconds}", off=off) for seconds, words in _STEPS],
            el("span", moving, cls="note", role="status"),
            cls="tools transport",
        ),
        note=note if allowed else "read-only: start the console with --allow-changes to control the clock",
        key="time",
    )


def _press(words: str, act: str, icon_name: str = "", kind: str = "", *, off: bool = False) -> Node:
    shown = icon(icon_name) if icon_name else None
    return el("button", shown, words, cls=f"plain-button {kind}".rstrip(), type="button", data_act=act, disabled=off, key=act)


def timeline_panel(recorded: Timeline, now: datetime, chosen: str) -> Node:
    """The timeline."""
    shown = timeline.time_window(recorded, now, float(chosen))
    colors = (("busy", "chips in use"), ("all", "all chips"), ("bad", "incident"))
    keys = [el("span", el("i", cls=f"swatch {cls}"), words) for cls, words in colors]
    return panel(
        "Timeline",
        drawing(timeline.timeline_svg(recorded, shown), cls="strip"),
        el("div", keys, cls="signs", aria_hidden="true"),
        tools=choice("Show", "window", [(str(hours), words) for hours, words in _WINDOWS], chosen),
        key="day",
    )


def fault_panel(
    slices: Sequence[SliceView], scenarios: Sequence[ScenarioFile], fields: Mapping[str, str], *, allowed: bool
) -> Node:
    """The faults and scenarios to inject."""
    where = [("", "any running host"), *((item.name, f"{item.name} ({item.type_name})") for item in slices[:_SLICES])]
    tools = el(
        "div",
        choice("Where", "slice", where, fields["slice"]),
        choice("For", "duration", [(str(seconds), words) for seconds, words in _DURATIONS], fields["duration"]),
        cls="tools",
        key="tools",
    )
    cards = [
        el(
            "button",
            icon(fault.icon),
            el("b", fault.title),
            el("span", fault.about, cls="quiet"),
            cls="fault",
            type="button",
            key=fault.name,
            data_act=f"fault:{fault.name}",
            disabled=not allowed,
            title=None if allowed else _READ_ONLY_HINT,
        )
        for fault in FAULTS
    ]
    listed = [
        el("h3", "Scenarios in this folder"),
        el("ul", [_scenario(scenario, allowed=allowed) for scenario in scenarios], cls="plain"),
    ]
    note = None if allowed else "needs --allow-changes"
    return panel(
        "Inject a fault",
        tools,
        el("div", cards, cls="faults", key="cards"),
        listed if scenarios else None,
        note=note,
        key="faults",
    )


def _scenario(scenario: ScenarioFile, *, allowed: bool) -> Node:
    about = el("span", f" {scenario.file.name}, {pluralize(scenario.events, 'event')} ", cls="quiet")
    return el(
        "li", el("b", scenario.name), about, _press("Inject", f"scenario:{scenario.name}", off=not allowed), key=scenario.name
    )


def event_list(recorded: Timeline, events: Sequence[TimelineEvent], lane: str) -> Node:
    """The latest events, newest first."""
    lanes = [("", "everything"), *((name, name) for name in timeline.LANES)]
    shown = el("ol", [_event(item) for item in events], cls="line moments", tabindex="0", aria_label="Events")
    nothing = empty("No events yet.", icon_name="history")
    return panel(
        "Events",
        shown if events else nothing,
        tools=choice("Show", "lane", lanes, lane),
        note=f"{len(recorded.events):,} so far",
        key="moments",
    )


def _event(event: TimelineEvent) -> Node:
    what = link(event.subject, event.link) if event.link else event.subject
    when = el("time", event.at[11:19], cls="when", datetime=event.at, title=event.at)
    message = el("div", event.message, cls="message") if event.message else None
    words = el("span", what, " ", event.what, cls="what")
    return el("li", words, when, message, cls=event.tone, key=f"{event.at}{event.subject}{event.what}")


_REDRAW_INTERVAL, _TIMELINE_INTERVAL = 0.5, 2.0
_MAX_EVENTS = 60


@register_page("rehearsal", title="Rehearsal", icon="theaters", key="h")
def rehearsal_page(context: PageContext) -> None:
    """The rehearsal page."""
    _RehearsalPage(context).draw()


class _RehearsalPage:
    """The rehearsal page in one browser."""

    def __init__(self, context: PageContext) -> None:
        self._context, self._cache = context, context.cache
        self._recorder = context.cache.compute(TimelineRecorder)
        self._fields = {"window": "0", "slice": "", "duration": "0", "lane": ""}
        self._scenarios: list[ScenarioFile] = []
        self._moving = ""

    def draw(self) -> None:
        """Draw the page and redraw its parts periodically; only changed parts are sent."""
        self._head = self._part()
        with ui.element("div").classes("stack"):
            self._time, self._timeline, self._usage = self._part(), self._part(), self._part()
            with ui.element("div").classes("beside even"):
                self._faults, self._events = self._part(), self._part()
        self._show()
        ui.timer(_REDRAW_INTERVAL, self._show)
        ui.timer(_TIMELINE_INTERVAL, self._show_timeline)

    def _part(self) -> Tree:
        return Tree(on_act=self._act, on_field=self._field)

    def _show(self) -> None:
        recorder, allowed = self._recorder, self._context.allow_changes
        self._head.show(rehearsal_header(recorder.is_twin, recorder.pace))
        twin = recorder.pace if recorder.is_twin else None
        self._time.show(clock_panel(twin, self._recorder.now(), self._moving, allowed=allowed) if twin else None)
        slices = get_slice_cache(self._cache).all()
        self._faults.show(fault_panel(slices, self._scenarios, self._fields, allowed=allowed) if twin else None)
        lane = self._fields["lane"]
        self._events.show(event_list(recorder.timeline, recorder.timeline.latest(_MAX_EVENTS, lane), lane))

    async def _show_timeline(self) -> None:
        self._timeline.show(timeline_panel(self._recorder.timeline, self._recorder.now(), self._fields["window"]))
        self._usage.show(usage_panel(current_usage(self._cache)))
        self._scenarios = await asyncio.to_thread(list_scenarios, self._context.console.folder)

    async def _field(self, name: str, value: str) -> None:
        if name == "speed":
            await self._set_clock(speed=float(value))
        elif name in self._fields:
            self._fields[name] = value
            await self._show_timeline()
        self._show()

    async def _act(self, pressed: str) -> None:
        what, _, rest = pressed.partition(":")
        if what in ("play", "pause"):
            await self._set_clock(paused=what == "pause")
        elif what == "step":
            await self._step(float(rest))
        elif what == "fault":
            await self._inject_fault(faults.find_fault(rest))
        elif what == "scenario":
            await self._inject_scenario(rest)
        self._show()

    # All changes of the twin go through `change`, which rejects them in a read-only console.

    async def _set_clock(self, *, speed: float | None = None, paused: bool | None = None) -> None:
        async def act() -> None:
            await twin_clock.update(self._cache.client, speed=speed, paused=paused)
            await self._recorder.update_clock()

        done = f"runs at {speed:g}× speed" if speed else "is paused" if paused else "is running"
        await self._context.change(act, f"The twin's clock {done}.")

    async def _step(self, seconds: float) -> None:
        async def act() -> None:
            await twin_clock.advance(self._cache.client, seconds)
            await self._recorder.update_clock()

        self._moving = f"advancing by {duration.short(seconds)} …"
        self._show()
        await self._context.change(act, f"Advanced the twin's clock by {duration.short(seconds)}.")
        self._moving = ""

    async def _inject_fault(self, fault: Fault) -> None:
        async def act() -> None:
            seconds = float(self._fields["duration"]) or fault.seconds
            await self._recorder.inject(fault.scenario(self._target(fault), seconds), self._context.console.folder)

        await self._context.change(act, f"Injected: {fault.title}.")

    async def _inject_scenario(self, name: str) -> None:
        async def act() -> None:
            chosen = next(item for item in self._scenarios if item.name == name)
            scenario = loader.load_scenario(chosen.file)
            assert scenario is not None
            await self._recorder.inject(scenario, chosen.file.parent)

        await self._context.change(act, f"Injected scenario {name}.")

    def _target(self, fault: Fault) -> faults.FaultTarget:
        """A random host of the selected slice, or of any; running hosts are preferred since they show the effect."""
        selected = self._fields["slice"]
        views = [item for item in get_slice_cache(self._cache).all() if selected in ("", item.name)]
        machine = views[0].machine if selected and views else ""
        if fault.target == "cloud":
            return faults.FaultTarget(machine=machine)
        up = [host for view in views for host in view.hosts if host.state in (HostState.RUNNING, HostState.READY)]
        working = [host for host in up if host.state is HostState.RUNNING]
        if not up or (fault.target == "pod" and not working):
            raise SliceworksError("no running host to inject this fault into", hint="select another slice, or submit a job")
        host = clock.rng().choice(working or up)
        work = host.work
        return faults.FaultTarget(host.name, work.pod if work else "", work.namespace if work else "", machine)
