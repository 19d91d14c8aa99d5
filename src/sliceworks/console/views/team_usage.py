"""Chips and cost of each team over time, and their SVG."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import datetime
from html import escape
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.console.kinds import JOBSETS
from sliceworks.console.views.chip_usage import current_uses
from sliceworks.console.views.job_view import job_row
from sliceworks.console.views.queue_view import teams_by_namespace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sliceworks.console.cluster_cache import ClusterCache
    from sliceworks.console.views.chip_usage import ChipUse

MAX_RUNS = 20_000
_INTERVAL, _RECORD_INTERVAL = 1.0, 2.0  # seconds
SHOWN_TEAMS = 6  # teams with an area of their own; the others share one
_BINS, _WIDTH, _HEIGHT, _BASE = 120, 1000.0, 130.0, 112.0


@dataclass(frozen=True, slots=True)
class JobRun:
    """The time in which a workload occupied chips; `ended` is empty while it does. `usd` is the cost per hour."""

    team: str
    chips: int
    usd: float
    started: str
    ended: str = ""


@dataclass(frozen=True, slots=True)
class TeamTotal:
    """What a team has used so far, and what it uses per hour now."""

    team: str
    chip_hours: float
    usd: float
    usd_per_hour: float


@dataclass(frozen=True, slots=True)
class UsageView:
    """Totals by team, highest cost first; `chips` has one row per team and one column per bin between `start` and `end`."""

    start: datetime
    end: datetime
    totals: tuple[TeamTotal, ...] = ()
    chips: tuple[tuple[str, tuple[int, ...]], ...] = ()


class TeamUsage:
    """Remembers which workloads occupied chips, also those that are deleted while the console runs. A job that ended before the
    console started is known if its JobSet still exists."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache
        self._ended: dict[tuple[str, str, str], JobRun] = {}
        self._current: dict[tuple[str, str], JobRun] = {}
        self._view: UsageView | None = None
        self._due = 0.0
        self._recorded = ""

    def update(self) -> UsageView:
        """Record the current state, at most every second; returns the usage until now."""
        if self._view is None or clock.loop_time() >= self._due:
            now, self._due = self.record(), clock.loop_time() + _INTERVAL
            self._view = build_usage([*self._ended.values(), *self._current.values()], now)
        return self._view

    def record(self) -> datetime:
        """Record the current state; returns its time."""
        now = self._cache.now()
        self._record(current_uses(self._cache), clock.rfc3339(now))
        self._record_finished_jobs()
        self._recorded = clock.rfc3339(now)
        return now

    def _record(self, uses: Iterable[ChipUse], now: str) -> None:
        current = {}
        for use in uses:
            key, run = (use.owner, use.place), self._current.get((use.owner, use.place))
            continues = run is not None and run.chips == use.chips
            started = run.started if run and continues else now if run else max(use.since or now, self._recorded)
            current[key] = JobRun(use.team, use.chips, use.usd or 0.0, started)
        for key, run in self._current.items():
            if key not in current or current[key].started != run.started:
                self._ended[(*key, run.started)] = replace(run, ended=now)
        self._current = current

    def _record_finished_jobs(self) -> None:
        """Add the jobs that ended before the console saw them on a slice."""
        teams, seen = teams_by_namespace(self._cache), {owner for owner, _place, _started in self._ended}
        for row in self._cache.row_cache(JOBSETS, job_row).rows().values():
            owner = f"{row.namespace}/{row.name}"
            if row.started and row.ended and row.chips and owner not in seen:
                team = teams.get(row.namespace, row.namespace)
                self._ended[owner, "", row.started] = JobRun(team, row.chips, row.usd or 0.0, row.started, row.ended)
        for run_key in list(self._ended)[: max(len(self._ended) - MAX_RUNS, 0)]:
            del self._ended[run_key]


async def record_usage(cache: ClusterCache) -> None:
    """Record the usage forever, also while no page is open: the end of a deleted job is known only to this interval."""
    while True:
        cache.shared(TeamUsage).record()
        await clock.sleep(_RECORD_INTERVAL)


def current_usage(cache: ClusterCache) -> UsageView:
    """The usage of all teams until now."""
    return cache.shared(TeamUsage).update()


def build_usage(runs: Iterable[JobRun], now: datetime) -> UsageView:
    """Totals and chips over time of these runs."""
    spans = [(run, datetime.fromisoformat(run.started), datetime.fromisoformat(run.ended) if run.ended else now) for run in runs]
    if not spans:
        return UsageView(now, now)
    start = min(started for _run, started, _ended in spans)
    hours: dict[str, float] = defaultdict(float)
    usd: dict[str, float] = defaultdict(float)
    rate: dict[str, float] = defaultdict(float)
    changes: dict[str, list[int]] = defaultdict(lambda: [0] * (_BINS + 1))
    step = max((now - start).total_seconds(), 1.0) / _BINS
    for run, started, ended in spans:
        length = max((ended - started).total_seconds(), 0.0) / 3600
        hours[run.team] += run.chips * length
        usd[run.team] += run.usd * length
        rate[run.team] += 0.0 if run.ended else run.usd
        first, last = (min(int((at - start).total_seconds() / step), _BINS) for at in (started, ended))
        changes[run.team][first] += run.chips
        changes[run.team][min(max(last, first + 1), _BINS) if run.ended else _BINS] -= run.chips
    order = sorted(hours, key=lambda team: (-usd[team], -hours[team], team))
    totals = tuple(TeamTotal(team, hours[team], usd[team], rate[team]) for team in order)
    return UsageView(start, now, totals, tuple((team, tuple(_running_sum(changes[team][:_BINS]))) for team in order))


def _running_sum(changes: Iterable[int]) -> Iterator[int]:
    total = 0
    for change in changes:
        total += change
        yield total


def usage_svg(view: UsageView) -> str:
    """Chips of each team over time, stacked."""
    shown, others = view.chips[:SHOWN_TEAMS], view.chips[SHOWN_TEAMS:]
    areas = [*shown, *([("others", tuple(map(sum, zip(*(row for _team, row in others), strict=True))))] if others else [])]
    most = max((sum(column) for column in zip(*(row for _team, row in areas), strict=True)), default=0) or 1
    words = f"Chips in use by team from {view.start:%d %b %H:%M} to {view.end:%d %b %H:%M}, at most {most:,}"
    parts = [f'<svg class="sw-strip sw-usage" viewBox="0 0 {_WIDTH:g} {_HEIGHT:g}" role="img" aria-label="{words}">']
    below = [0] * _BINS
    for number, (team, row) in enumerate(areas):
        above = [low + chips for low, chips in zip(below, row, strict=True)]
        parts.append(f'<path class="sw-team-{number}" d="{_area(below, above, most)}"><title>{escape(team)}</title></path>')
        below = above
    parts.append(f'<text class="sw-when sw-most" x="0" y="12">{most:,} chips</text>')
    ends = ((view.start, "0", "sw-most"), (view.end, f"{_WIDTH:g}", "sw-last"))
    parts += [f'<text class="sw-when {cls}" x="{x}" y="{_HEIGHT - 3:g}">{at:%d %b %H:%M}</text>' for at, x, cls in ends]
    return "".join([*parts, "</svg>"])


def _area(below: list[int], above: list[int], most: int) -> str:
    """The outline of a step chart between two rows."""
    width = _WIDTH / _BINS
    upper = [(x * width, chips) for bin_, chips in enumerate(above) for x in (bin_, bin_ + 1)]
    lower = [(x * width, chips) for bin_, chips in reversed(list(enumerate(below))) for x in (bin_ + 1, bin_)]
    return "M" + "L".join(f"{x:.1f} {_BASE - chips / most * (_BASE - 18):.1f}" for x, chips in (*upper, *lower)) + "Z"
