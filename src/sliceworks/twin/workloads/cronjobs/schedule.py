"""When a schedule is due. Pure: the API has refused what cannot be read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS = ((0, 59, ()), (0, 23, ()), (1, 31, ()), (1, 12, _MONTHS), (0, 6, _DAYS))
_NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_DAYS_AHEAD = 5 * 366


@dataclass(frozen=True, slots=True)
class Schedule:
    """Minutes, hours, days of the month, months and days of the week; or a constant delay."""

    fields: tuple[frozenset[int], ...] = ()
    any_day: tuple[bool, bool] = (True, True)
    """Whether days of the month and days of the week are left open."""
    zone: tzinfo = UTC
    every: float = 0.0

    def next(self, after: datetime) -> datetime | None:
        """The first time after this; None when there is none in the next years."""
        if self.every:
            return (after + timedelta(seconds=self.every)).replace(microsecond=0)
        start = after.astimezone(self.zone).replace(second=0, microsecond=0)
        for ahead in range(_DAYS_AHEAD):
            day = (start + timedelta(days=ahead)).date()
            if not self._is_day(day.month, day.day, day.isoweekday() % 7):
                continue
            for hour in sorted(self.fields[1]):
                for minute in sorted(self.fields[0]):
                    naive = datetime(day.year, day.month, day.day, hour, minute)  # noqa: DTZ001 - the zone follows
                    found = naive.replace(tzinfo=self.zone).astimezone(UTC)
                    if found > after and found.astimezone(self.zone).replace(tzinfo=None) == naive:
                        return found
        return None

    def _is_day(self, month: int, day: int, weekday: int) -> bool:
        by_month, by_week = day in self.fields[2], weekday in self.fields[4]
        fits = by_month and by_week if any(self.any_day) else by_month or by_week
        return month in self.fields[3] and fits


def parse(text: str, zone: str = "") -> Schedule:
    """The schedule that a CronJob names, in a time zone."""
    if text.startswith("@every "):
        from sliceworks.base import duration

        return Schedule(every=max(1.0, float(int(duration.parse(text.removeprefix("@every "))))))
    place: tzinfo = UTC
    if zone:
        from zoneinfo import ZoneInfo

        place = ZoneInfo(zone)
    parts = _NAMED.get(text, text).split()
    fields = tuple(_field(part, *limits) for part, limits in zip(parts, _FIELDS, strict=True))
    return Schedule(fields, (parts[2][0] in "*?", parts[4][0] in "*?"), place)


def _field(text: str, low: int, high: int, names: tuple[str, ...]) -> frozenset[int]:
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        span, _, step = part.partition("/")
        first, dash, last = span.partition("-")
        if first in ("*", "?"):
            ends = low, high
        else:
            ends = _number(first, low, names), _number(last or first, low, names)
            if step and not dash:
                ends = ends[0], high
        found.update(range(ends[0], ends[1] + 1, int(step or 1)))
    return frozenset(found)


def _number(text: str, low: int, names: tuple[str, ...]) -> int:
    return names.index(text.lower()) + low if text.lower() in names else int(text)


@dataclass(frozen=True, slots=True)
class Due:
    """The latest time that is due, if any; whether very many were missed; and when to look again."""

    at: datetime | None
    many: bool
    again: float


def due(schedule: Schedule, since: datetime, now: datetime) -> Due:
    """What a schedule that was met last at `since` asks for now."""
    latest: datetime | None = None
    missed = 0
    upcoming = schedule.next(since)
    following = schedule.next(upcoming) if upcoming else None
    if upcoming and following and following <= now:
        # Jump close to now: a schedule that was not followed for long may have been missed any number of times.
        between = max(1.0, (following - upcoming).total_seconds())
        missed = int((now - upcoming).total_seconds() / between)
        upcoming = schedule.next(upcoming + timedelta(seconds=between * max(0, missed - 1) - 1))
    while upcoming is not None and upcoming <= now:
        latest, missed = upcoming, missed + 1
        upcoming = schedule.next(upcoming)
    again = (upcoming - now).total_seconds() + 0.1 if upcoming else float(24 * 3600)
    return Due(latest, missed > 100, again)
