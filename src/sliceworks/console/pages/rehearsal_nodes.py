"""What the page of a rehearsal shows: time, the day, what may go wrong, and moments. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.words import counted
from sliceworks.console.nodes import choice, drawing, el, empty, heading, icon, link, panel, state
from sliceworks.console.views import days, strips
from sliceworks.console.views.faults import FAULTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from sliceworks.console.day_looks import Planned
    from sliceworks.console.nodes import Node
    from sliceworks.console.views.days import Diary, Moment
    from sliceworks.console.views.slices import SliceView
    from sliceworks.rehearsal.injection import Pace

_SPEEDS = (1.0, 10.0, 60.0, 600.0, 3600.0)
_STEPS = ((60, "+1 min"), (600, "+10 min"), (3600, "+1 h"), (21600, "+6 h"))
_LASTING = ((0, "as usual"), (60, "1 min"), (300, "5 min"), (600, "10 min"), (1800, "30 min"), (3600, "1 h"))
_WINDOWS = ((0, "all of it"), (1, "last hour"), (6, "last 6 hours"), (24, "last day"))
_SLICES = 300
_NEEDS = "Start the console with --allow-changes"


def top(is_twin: bool | None, pace: Pace | None) -> list[Node]:
    """The heading, and what to do where there is nothing to play with."""
    if is_twin is None:
        return [heading("Rehearsal"), el("p", "Looking whether this cluster is a twin …", cls="lead")]
    if not is_twin or pace is None:
        start, look = el("code", "sliceworks twin start --speed 60"), el("code", "sliceworks console --twin")
        hint = ["Time runs and machines fail here as they do. Rehearse on a twin: ", start, ", then ", look]
        return [heading("Rehearsal"), empty("This cluster is no twin.", hint, icon_name="theaters")]
    return [heading("Rehearsal", state("paused", "wait") if pace.paused else state("running", "good"))]


def time(pace: Pace, now: datetime, moving: str, *, allowed: bool) -> Node:
    """The twin's clock, and what moves it."""
    own = pace.speed is None
    off = own or not allowed or bool(moving)
    act = ("Play", "play", "play_arrow", "main") if pace.paused else ("Pause", "pause", "pause", "")
    speeds = sorted({*_SPEEDS, pace.speed or 1.0})
    pick = choice("Speed", "speed", [(f"{each:g}", f"{each:g} ×") for each in speeds], f"{pace.speed or 1:g}")
    note = "it keeps the machine's own time: start it with --speed to play with it" if own else None
    return panel(
        "The twin's time",
        el(
            "div",
            el("div", f"{now:%H:%M:%S}", el("small", f"{now:%a %d %b %Y}"), cls="clock", role="timer", key="clock"),
            _press(act[0], act[1], act[2], act[3], off=off),
            el("span", f"{pace.speed or 1:g} ×", cls="note") if own or not allowed else pick,
            [_press(words, f"step:{seconds}", off=off) for seconds, words in _STEPS],
            el("span", moving, cls="note", role="status"),
            cls="tools transport",
        ),
        note=note if allowed else "read-only: start the console with --allow-changes to play with time",
        key="time",
    )


def _press(words: str, act: str, icon_name: str = "", kind: str = "", *, off: bool = False) -> Node:
    shown = icon(icon_name) if icon_name else None
    return el("button", shown, words, cls=f"plain-button {kind}".rstrip(), type="button", data_act=act, disabled=off, key=act)


def day(diary: Diary, now: datetime, chosen: str) -> Node:
    """The time line."""
    shown = days.window(diary, now, float(chosen))
    meant = (("busy", "chips at work"), ("all", "chips in all"), ("bad", "something went wrong"))
    keys = [el("span", el("i", cls=f"swatch {cls}"), words) for cls, words in meant]
    return panel(
        "The day so far",
        drawing(strips.strip(diary, shown), cls="strip"),
        el("div", keys, cls="signs", aria_hidden="true"),
        tools=choice("Show", "window", [(str(hours), words) for hours, words in _WINDOWS], chosen),
        key="day",
    )


def hands(slices: Sequence[SliceView], scenarios: Sequence[Planned], fields: Mapping[str, str], *, allowed: bool) -> Node:
    """What can be made to go wrong."""
    where = [("", "any host at work"), *((each.name, f"{each.name} ({each.type_name})") for each in slices[:_SLICES])]
    tools = el(
        "div",
        choice("Where", "slice", where, fields["slice"]),
        choice("For", "lasting", [(str(seconds), words) for seconds, words in _LASTING], fields["lasting"]),
        cls="tools",
        key="tools",
    )
    cards = [
        el(
            "button",
            icon(each.icon),
            el("b", each.title),
            el("span", each.about, cls="quiet"),
            cls="fault",
            type="button",
            key=each.name,
            data_act=f"fault:{each.name}",
            disabled=not allowed,
            title=None if allowed else _NEEDS,
        )
        for each in FAULTS
    ]
    listed = [el("h3", "Scenarios of this folder"), el("ul", [_play(each, allowed=allowed) for each in scenarios], cls="plain")]
    note = None if allowed else "needs --allow-changes"
    return panel(
        "Make something go wrong",
        tools,
        el("div", cards, cls="faults", key="cards"),
        listed if scenarios else None,
        note=note,
        key="faults",
    )


def _play(each: Planned, *, allowed: bool) -> Node:
    about = el("span", f" {each.file.name}, {counted(each.events, 'event')} ", cls="quiet")
    return el("li", el("b", each.name), about, _press("Play it", f"scenario:{each.name}", off=not allowed), key=each.name)


def moments(diary: Diary, found: Sequence[Moment], lane: str) -> Node:
    """The latest, the newest first."""
    lanes = [("", "everything"), *((each, each) for each in days.LANES)]
    shown = el("ol", [_moment(each) for each in found], cls="line moments", tabindex="0", aria_label="Moments")
    nothing = empty("Nothing has happened yet.", icon_name="history")
    return panel(
        "Moments",
        shown if found else nothing,
        tools=choice("Show", "lane", lanes, lane),
        note=f"{len(diary.moments):,} so far",
        key="moments",
    )


def _moment(each: Moment) -> Node:
    what = link(each.subject, each.link) if each.link else each.subject
    when = el("time", each.at[11:19], cls="when", datetime=each.at, title=each.at)
    said = el("div", each.said, cls="said") if each.said else None
    words = el("span", what, " ", each.what, cls="what")
    return el("li", words, when, said, cls=each.tone, key=f"{each.at}{each.subject}{each.what}")
