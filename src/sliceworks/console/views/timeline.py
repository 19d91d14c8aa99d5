"""The timeline of a cluster: events, chip usage, and its SVG."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from html import escape
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.conditions import find_condition
from sliceworks.base.names import join_first

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Object = dict[str, Any]
Key = tuple[str, str, str]
MAX_EVENTS = 20_000
_FIRST = ("joined", "submitted")
_STATE = "sliceworks.dev/state"
_OF_JOB = {"Completed": ("completed", "good"), "Failed": ("failed", "bad"), "Suspended": ("suspended", "wait")}
_OF_WORKLOAD = {"Admitted": ("admitted", "busy"), "Evicted": ("evicted", "wait"), "PodsReady": ("all pods ready", "good")}
LANES = ("faults", "hosts", "jobs")


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """An event in a lane of the timeline; `at` is an RFC 3339 time, which sorts as a string."""

    at: str
    subject: str
    what: str
    lane: str = "jobs"
    tone: str = "idle"
    message: str = ""
    link: str = ""

    @property
    def key(self) -> Key:
        """The identity of the event."""
        return self.at, self.subject, self.what


def _sort_key(event: TimelineEvent) -> tuple[str, bool, str, str]:
    """Times have whole seconds; within one, creation events come first."""
    return event.at, event.what not in _FIRST, event.subject, event.what


def node_events(node: Object) -> Iterator[TimelineEvent]:
    """The creation and readiness of a node."""
    metadata, ready = node["metadata"], find_condition(node, "Ready")
    name, born = metadata["name"], metadata.get("creationTimestamp", "")
    yield TimelineEvent(born, f"host {name}", "joined", "hosts", "idle")
    at = ready.get("lastTransitionTime") or ""
    if ready.get("status") == "True":
        yield TimelineEvent(at or born, f"host {name}", "became ready", "hosts", "good")
    elif ready:
        state = (metadata.get("annotations") or {}).get(_STATE)
        what = {"preempted": "was preempted", "maintenance": "went into maintenance"}.get(str(state), "became unreachable")
        yield TimelineEvent(at or born, f"host {name}", what, "hosts", "bad", str(ready.get("message") or ""))


def jobset_events(jobset: Object) -> Iterator[TimelineEvent]:
    """The submission and final or suspended state of a JobSet."""
    metadata = jobset["metadata"]
    key = f"{metadata.get('namespace', '')}/{metadata['name']}"
    link = f"/jobs/{key}"
    yield TimelineEvent(metadata.get("creationTimestamp", ""), f"job {key}", "submitted", "jobs", "idle", "", link)
    yield from _condition_events(jobset, _OF_JOB, f"job {key}", link)


def workload_events(workload: Object) -> Iterator[TimelineEvent]:
    """The admission and eviction of a Workload."""
    metadata = workload["metadata"]
    owner = next(iter(metadata.get("ownerReferences") or ()), None)
    if owner is not None:
        key = f"{metadata.get('namespace', '')}/{owner['name']}"
        yield from _condition_events(workload, _OF_WORKLOAD, f"job {key}", f"/jobs/{key}")


def _condition_events(obj: Object, known: Mapping[str, tuple[str, str]], subject: str, link: str) -> Iterator[TimelineEvent]:
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition.get("status") == "True" and condition.get("type") in known:
            what, tone = known[condition["type"]]
            yield TimelineEvent(
                condition.get("lastTransitionTime") or "", subject, what, "jobs", tone, str(condition.get("message") or ""), link
            )


@dataclass(frozen=True, slots=True)
class UsageSample:
    """Busy and total chips at a time."""

    at: datetime
    busy: int
    chips: int

    def equals(self, other: UsageSample) -> bool:
        return (self.busy, self.chips) == (other.busy, other.chips)


@dataclass(slots=True)
class Timeline:
    """Recorded events in order, up to `MAX_EVENTS`, and chip usage."""

    events: list[TimelineEvent] = field(default_factory=list)
    lanes: dict[str, list[TimelineEvent]] = field(default_factory=dict)
    samples: list[UsageSample] = field(default_factory=list)
    version: int = 0
    _known: set[Key] = field(default_factory=set)

    def record(self, events: Iterable[TimelineEvent]) -> None:
        """Add events that are not recorded yet."""
        fresh = {event.key: event for event in events if event.at and event.key not in self._known}
        if not fresh:
            return
        self.version += 1
        self._known |= fresh.keys()
        self.events = sorted([*self.events, *fresh.values()], key=_sort_key)
        dropped = self.events[: max(len(self.events) - MAX_EVENTS, 0)]
        del self.events[: len(dropped)]
        self._known -= {item.key for item in dropped}
        touched = {event.lane for event in (*fresh.values(), *dropped)}
        self.lanes |= {lane: [event for event in self.events if event.lane == lane] for lane in touched}

    def sample(self, taken: UsageSample) -> None:
        """Add a usage sample; a run of equal samples is stored as its first and last."""
        if len(self.samples) > 1 and taken.equals(self.samples[-1]) and taken.equals(self.samples[-2]):
            self.samples[-1] = taken
        else:
            self.samples.append(taken)
            self.version += 1
        del self.samples[: max(len(self.samples) - MAX_EVENTS, 0)]

    def latest(self, count: int, lane: str = "") -> list[TimelineEvent]:
        """The last events, newest first, optionally of one lane."""
        return list(islice(reversed(self.lanes.get(lane, []) if lane else self.events), count))


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """The time range that is shown."""

    start: datetime
    end: datetime

    @property
    def seconds(self) -> float:
        return max((self.end - self.start).total_seconds(), 1.0)

    def x_of(self, at: datetime, width: float) -> float:
        """The x coordinate of a time."""
        return (at - self.start).total_seconds() / self.seconds * width

    def bins(self, events: list[TimelineEvent], count: int) -> Iterator[tuple[int, list[TimelineEvent]]]:
        """Sorted events grouped into `count` equal bins; events after the window are in the last bin."""
        edges = [clock.rfc3339(self.start + (self.end - self.start) * (number / count)) for number in range(count)]
        indexes = [bisect_left(events, edge, key=lambda event: event.at) for edge in edges]
        for number, (first, last) in enumerate(pairwise([*indexes, len(events)])):
            if first < last:
                yield number, events[first:last]


def time_window(timeline: Timeline, now: datetime, hours: float = 0.0) -> TimeWindow:
    """The last `hours`, or everything recorded."""
    if hours:
        return TimeWindow(now - timedelta(hours=hours), now)
    first = [datetime.fromisoformat(event.at) for event in timeline.events[:1]] + [sample.at for sample in timeline.samples[:1]]
    return TimeWindow(min([*first, now - timedelta(minutes=1)]), now)


_WIDTH, _AREA, _LANE, _LEFT, _BINS = 1000.0, 90.0, 26.0, 70.0, 160


def timeline_svg(timeline: Timeline, shown: TimeWindow) -> str:
    """The SVG of the timeline."""
    high = _AREA + 14 + _LANE * len(LANES) + 22
    words = f"Timeline from {shown.start:%d %b %H:%M} to {shown.end:%d %b %H:%M}: {len(timeline.events)} events"
    parts = [
        f'<svg class="sw-strip" viewBox="0 0 {_WIDTH:g} {high:g}" role="img" aria-label="{words}">',
        *_hours(shown, high),
        _chips(timeline, shown),
        *(_lane(timeline, shown, lane, _AREA + 14 + number * _LANE) for number, lane in enumerate(LANES)),
        "</svg>",
    ]
    return "".join(parts)


def _hours(shown: TimeWindow, high: float) -> Iterator[str]:
    """Grid lines at round times."""
    steps = (60, 300, 900, 1800, 3600, 7200, 14400, 28800, 86400, 604800)
    step = next((item for item in steps if shown.seconds / item <= 9), steps[-1])
    first = shown.start.timestamp() // step * step + step
    day = "%d %b %H:%M" if shown.seconds > 86400 else "%H:%M"
    while first < shown.end.timestamp():
        at = datetime.fromtimestamp(first, shown.start.tzinfo)
        x = _LEFT + shown.x_of(at, _WIDTH - _LEFT)
        yield f'<line class="sw-hour" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{high - 18:g}"/>'
        yield f'<text class="sw-when" x="{x:.1f}" y="{high - 5:g}">{at:{day}}</text>'
        first += step


def _chips(timeline: Timeline, shown: TimeWindow) -> str:
    samples = [sample for sample in timeline.samples if sample.at >= shown.start]
    most = max((sample.chips for sample in samples), default=0)
    words = f'<text class="sw-lane" x="0" y="14">chips</text><text class="sw-when sw-most" x="0" y="30">{most:,}</text>'
    if not most:
        return words
    places = [_LEFT + shown.x_of(item.at, _WIDTH - _LEFT) for item in samples]
    total = _steps(places, [sample.chips / most for sample in samples])
    busy = _steps(places, [sample.busy / most for sample in samples])
    return f'{words}<path class="sw-all" d="{total}"/><path class="sw-busy" d="{busy}"/>'


def _steps(places: list[float], shares: list[float]) -> str:
    """The path of a step chart."""
    path, before = f"M{places[0]:.1f} {_AREA:g}", _AREA
    for x, share in zip(places, shares, strict=True):
        y = _AREA - share * (_AREA - 8)
        path += f"L{x:.1f} {before:.1f}L{x:.1f} {y:.1f}"
        before = y
    return f"{path}L{_WIDTH:g} {before:.1f}L{_WIDTH:g} {_AREA:g}Z"


def _lane(timeline: Timeline, shown: TimeWindow, lane: str, top: float) -> str:
    """A histogram of a lane; bins with incidents are full bars in another color."""
    counts = list(shown.bins(timeline.lanes.get(lane, []), _BINS))
    most = max((len(events) for _, events in counts), default=1)
    wide = (_WIDTH - _LEFT) / _BINS
    bars = [f'<text class="sw-lane" x="0" y="{top + 16:g}">{lane}</text>']
    for place, events in counts:
        bad = any(event.tone == "bad" for event in events) or lane == "faults"
        tall = (_LANE - 6) * (1.0 if bad else 0.25 + 0.75 * len(events) / most)
        label = escape(_label(events))
        bars.append(
            f'<rect class="sw-bar{" sw-bar-bad" if bad else ""}" x="{_LEFT + place * wide:.1f}" y="{top + _LANE - 4 - tall:.1f}" '
            f'width="{max(wide - 1, 2):.1f}" height="{tall:.1f}"><title>{label}</title></rect>'
        )
    return "".join(bars)


def _label(events: list[TimelineEvent]) -> str:
    return join_first([f"{event.at[11:16]} {event.subject} {event.what}" for event in events], 4, "; ")
