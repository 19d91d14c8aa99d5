"""Figures of a day: how long teams waited, how busy the chips were, what it cost. Pure; for the page and for the terminal."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sliceworks.rehearsal.day.record import Day, JobLife, Series

IDLE = "nobody"
"""Whose chips those are that stood idle."""


@dataclass(frozen=True, slots=True)
class Waits:
    """How long the jobs of a team waited: those that were admitted, in order, and how many still wait."""

    team: str
    seconds: tuple[float, ...]
    still: int

    @property
    def jobs(self) -> int:
        return len(self.seconds) + self.still

    def quantile(self, share: float) -> float | None:
        """The wait that so many of the admitted jobs had at most; None where none was admitted."""
        if not self.seconds:
            return None
        return self.seconds[min(int(share * len(self.seconds)), len(self.seconds) - 1)]


@dataclass(frozen=True, slots=True)
class Use:
    """Chips over a day: those in use, and those that were there, in chip seconds."""

    name: str
    used: float
    there: float

    @property
    def share(self) -> float | None:
        return self.used / self.there if self.there else None


def teams(day: Day) -> list[str]:
    """All teams of the day, by name; no team is none."""
    found = {job.team for job in day.jobs} | {each.team for each in day.usage} | {each.team for each in day.costs}
    return sorted(found - {""})


def waits(day: Day) -> list[Waits]:
    """One for each team that submitted something."""
    by_team: dict[str, list[JobLife]] = defaultdict(list)
    for job in day.jobs:
        by_team[job.team].append(job)
    return [_waits(team, jobs) for team, jobs in sorted(by_team.items())]


def waited(job: JobLife) -> float | None:
    """How long a job waited to be admitted; the time for which its owner had it suspended does not count. None: it never was."""
    if job.waited is None or job.admitted is None:
        return None
    held = (
        min(span.end, job.admitted) - span.begin for span in job.spans if span.state == "suspended" and span.begin < job.admitted
    )
    return max(0.0, job.waited - sum(held))


def _waits(team: str, jobs: Iterable[JobLife]) -> Waits:
    known = [waited(job) for job in jobs]
    return Waits(team or "no team", tuple(sorted(each for each in known if each is not None)), known.count(None))


def longest_waits(day: Day, most: int = 5) -> list[tuple[JobLife, float]]:
    """The jobs that waited longest, with how long: those that were never admitted have waited until they ended, or the day did."""
    found = []
    for job in day.jobs:
        known, until = waited(job), day.lasted if job.ended is None else job.ended
        found.append((job, until - job.submitted if known is None else known))
    return sorted((each for each in found if each[1] >= 1), key=lambda each: -each[1])[:most]


def reason(job: JobLife) -> str:
    """Why a job waited, in the words of its longest wait that has some."""
    told = [span for span in job.spans if span.state == "waiting" and span.note]
    return max(told, key=lambda span: span.end - span.begin).note if told else ""


def area(points: Sequence[tuple[float, int]], until: float) -> float:
    """What a number that changes at some moments sums up to over time."""
    ends = [at for at, _ in points[1:]] + [until]
    return sum(value * max(0.0, min(end, until) - at) for (at, value), end in zip(points, ends, strict=True))


def total_use(day: Day) -> Use:
    """All chips of the day."""
    used = sum(area(each.points, day.lasted) for each in day.usage)
    return Use("all", used, sum(area(each.points, day.lasted) for each in day.capacity))


def use_by_chip(day: Day) -> list[Use]:
    """For each type of chip that there was."""
    used, there = _summed(day.usage, day.lasted), _summed(day.capacity, day.lasted)
    return [Use(chip or "of no known type", used.get(chip, 0.0), there.get(chip, 0.0)) for chip in sorted({*used, *there})]


def _summed(series: Iterable[Series], until: float) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for each in series:
        found[each.chip] += area(each.points, until)
    return found


@dataclass(frozen=True, slots=True)
class Bill:
    """What a team's chips cost, by what was had: `v5e, spot`. `unpriced` chip hours have no list price."""

    team: str
    kinds: tuple[tuple[str, float | None], ...]
    chip_hours: float
    unpriced: float

    @property
    def usd(self) -> float | None:
        """In all; None where nothing has a price."""
        known = [usd for _, usd in self.kinds if usd is not None]
        return sum(known) if known else None


def bills(day: Day) -> list[Bill]:
    """One for each team, and one for what stood idle, which comes last."""
    found = []
    for team in sorted({each.team for each in day.costs}, key=lambda team: (team == "", team)):
        costs = [each for each in day.costs if each.team == team]
        kinds: dict[str, float | None] = {}
        for each in costs:
            kind = f"{each.chip}, {each.capacity}"
            kinds[kind] = kinds.get(kind) if each.usd is None else (kinds.get(kind) or 0.0) + each.usd
        unpriced = sum(each.chip_hours for each in costs if each.usd is None)
        found.append(Bill(team or IDLE, tuple(sorted(kinds.items())), sum(each.chip_hours for each in costs), unpriced))
    return found


def total_cost(day: Day) -> float | None:
    """Of all teams, and of what stood idle."""
    known = [bill.usd for bill in bills(day) if bill.usd is not None]
    return sum(known) if known else None


def broken(day: Day) -> int:
    """How many things did not end as the Scenario expects."""
    return sum(not check.kept for step in day.steps for check in step.checks) + sum(
        step.result == "failed" and all(check.kept for check in step.checks) for step in day.steps
    )


def mended(day: Day) -> int:
    """How many incidents were mended."""
    return sum(each.mended is not None for each in day.incidents)
