"""Figures of a run (waits, chip use, cost) and how they are formatted. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sliceworks.base.names import pluralize

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sliceworks.rehearsal.record import JobRecord, RunRecord, Series

_LONGEST_WAITS = 5
IDLE = "idle"
"""Stands for the team of unused chips."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Waits of a team's admitted jobs, sorted, and the number of jobs that were never admitted."""

    team: str
    seconds: tuple[float, ...]
    never_admitted: int

    @property
    def jobs(self) -> int:
        return len(self.seconds) + self.never_admitted

    def quantile(self, share: float) -> float | None:
        """A quantile of the waits; None if no job was admitted."""
        if not self.seconds:
            return None
        return self.seconds[min(int(share * len(self.seconds)), len(self.seconds) - 1)]


@dataclass(frozen=True, slots=True)
class ChipUsage:
    """Used and existing chips of a run, in chip seconds."""

    name: str
    used: float
    existing: float

    @property
    def share(self) -> float | None:
        return self.used / self.existing if self.existing else None


def teams(run: RunRecord) -> list[str]:
    """Names of all teams, sorted."""
    names = {job.team for job in run.jobs} | {item.team for item in run.usage} | {cost.team for cost in run.costs}
    return sorted(names - {""})


def waits(run: RunRecord) -> list[Waits]:
    """Waits of each team that submitted jobs."""
    by_team: dict[str, list[JobRecord]] = defaultdict(list)
    for job in run.jobs:
        by_team[job.team].append(job)
    return [_waits(team, jobs) for team, jobs in sorted(by_team.items())]


def admission_wait(job: JobRecord) -> float | None:
    """Seconds until a job was admitted, without the time it was suspended; None if it was never admitted."""
    if job.waited is None or job.admitted is None:
        return None
    suspended = (
        min(span.end, job.admitted) - span.begin for span in job.spans if span.state == "suspended" and span.begin < job.admitted
    )
    return max(0.0, job.waited - sum(suspended))


def _waits(team: str, jobs: Iterable[JobRecord]) -> Waits:
    known = [admission_wait(job) for job in jobs]
    return Waits(team or "no team", tuple(sorted(item for item in known if item is not None)), known.count(None))


def longest_waits(run: RunRecord) -> list[tuple[JobRecord, float]]:
    """The jobs with the longest waits; a job that was never admitted waited until it or the run ended."""
    waits = []
    for job in run.jobs:
        known, until = admission_wait(job), run.duration if job.ended is None else job.ended
        waits.append((job, until - job.submitted if known is None else known))
    return sorted((item for item in waits if item[1] >= 1), key=lambda entry: -entry[1])[:_LONGEST_WAITS]


def wait_reason(job: JobRecord) -> str:
    """The reason of the longest wait that has one."""
    explained = [span for span in job.spans if span.state == "waiting" and span.note]
    return max(explained, key=lambda span: span.end - span.begin).note if explained else ""


def integrate(points: Sequence[tuple[float, int]], until: float) -> float:
    """Integral over time of a step function given as (time, value) points."""
    ends = [at for at, _ in points[1:]] + [until]
    return sum(value * max(0.0, min(end, until) - at) for (at, value), end in zip(points, ends, strict=True))


def total_use(run: RunRecord) -> ChipUsage:
    """Use of all chips."""
    used = sum(integrate(item.points, run.duration) for item in run.usage)
    return ChipUsage("all", used, sum(integrate(series.points, run.duration) for series in run.capacity))


def use_by_chip(run: RunRecord) -> list[ChipUsage]:
    """Use of each chip type."""
    used, existing = _summed(run.usage, run.duration), _summed(run.capacity, run.duration)
    return [ChipUsage(chip or "unknown type", used.get(chip, 0.0), existing.get(chip, 0.0)) for chip in sorted({*used, *existing})]


def _summed(series: Iterable[Series], until: float) -> dict[str, float]:
    result: dict[str, float] = defaultdict(float)
    for item in series:
        result[item.chip] += integrate(item.points, until)
    return result


@dataclass(frozen=True, slots=True)
class Bill:
    """Cost of a team's chips by type and capacity, such as `v5e, spot`. `unpriced` chip hours have no published price."""

    team: str
    kinds: tuple[tuple[str, float | None], ...]
    chip_hours: float
    unpriced: float

    @property
    def usd(self) -> float | None:
        """Total; None if nothing has a price."""
        known = [usd for _, usd in self.kinds if usd is not None]
        return sum(known) if known else None


def bills(run: RunRecord) -> list[Bill]:
    """One bill per team, and last one for idle chips."""
    result = []
    for team in sorted({item.team for item in run.costs}, key=lambda team: (team == "", team)):
        costs = [cost for cost in run.costs if cost.team == team]
        kinds: dict[str, float | None] = {}
        for cost in costs:
            kind = f"{cost.chip}, {cost.capacity}"
            kinds[kind] = kinds.get(kind) if cost.usd is None else (kinds.get(kind) or 0.0) + cost.usd
        unpriced = sum(cost.chip_hours for cost in costs if cost.usd is None)
        result.append(Bill(team or IDLE, tuple(sorted(kinds.items())), sum(cost.chip_hours for cost in costs), unpriced))
    return result


def total_cost(run: RunRecord) -> float | None:
    """Cost of all teams and idle chips."""
    known = [bill.usd for bill in bills(run) if bill.usd is not None]
    return sum(known) if known else None


def count_failures(run: RunRecord) -> int:
    """Number of failed checks, and of failed steps without one."""
    return sum(not check.passed for step in run.steps for check in step.checks) + sum(
        step.result == "failed" and all(check.passed for check in step.checks) for step in run.steps
    )


def count_recovered(run: RunRecord) -> int:
    """Number of incidents that the platform recovered from."""
    return sum(incident.recovered_at is not None for incident in run.incidents)


def format_duration(seconds: float | None) -> str:
    """`45 s`, `12 min`, `3 h 20 min`, `2 d 4 h`; a dash for None."""
    if seconds is None:
        return "–"
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {rest} min" if rest else f"{hours} h"
    return f"{hours // 24} d {hours % 24} h" if hours % 24 else f"{hours // 24} d"


def format_time(run: RunRecord, at: float) -> str:
    """Twin time: `09:30:05`, with `+1d` on later days."""
    start = datetime.fromisoformat(run.start)
    time = start + timedelta(seconds=round(at))
    days = (time.date() - start.date()).days
    return f"{time:%H:%M:%S}" + (f" +{days}d" if days else "")


def format_usd(amount: float | None) -> str:
    """`$1,234`, with cents below $100; a dash for None."""
    if amount is None:
        return "–"
    return f"${amount:,.0f}" if amount >= 100 else f"${amount:,.2f}"


def format_percent(value: float | None) -> str:
    """`63 %`."""
    return "–" if value is None else f"{value:.0%}".replace("%", " %")


def format_verdict(run: RunRecord) -> str:
    """The result of the run in one line."""
    checks = sum(len(step.checks) for step in run.steps)
    if not run.passed:
        return pluralize(count_failures(run), "failure")
    return f"{pluralize(checks, 'expectation')} met" if checks else "passed"
