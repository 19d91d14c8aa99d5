"""Cron schedules: parse one, and find the most recent and the next time. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS = ((0, 59, ()), (0, 23, ()), (1, 31, ()), (1, 12, _MONTHS), (0, 6, _DAYS))
_DESCRIPTORS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_SEARCH_DAYS = 5 * 366


@dataclass(frozen=True, slots=True)
class Schedule:
    """The sets of minutes, hours, days of the month, months and days of the week; or a constant interval."""

    fields: tuple[frozenset[int], ...] = ()
    any_day: tuple[bool, bool] = (True, True)
    """Whether the day of the month and the day of the week are `*`."""
    zone: tzinfo = UTC
    interval: float = 0.0

    def next(self, after: datetime) -> datetime | None:
        """The first time after this; None if there is none in the next five years."""
        if self.interval:
            return (after + timedelta(seconds=self.interval)).replace(microsecond=0)
        start = after.astimezone(self.zone).replace(second=0, microsecond=0)
        for ahead in range(_SEARCH_DAYS):
            day = (start + timedelta(days=ahead)).date()
            if not self._matches_day(day.month, day.day, day.isoweekday() % 7):
                continue
            for hour in sorted(self.fields[1]):
                for minute in sorted(self.fields[0]):
                    naive = datetime(day.year, day.month, day.day, hour, minute)  # noqa: DTZ001 - the zone follows
                    time = naive.replace(tzinfo=self.zone).astimezone(UTC)
                    if time > after and time.astimezone(self.zone).replace(tzinfo=None) == naive:
                        return time
        return None

    def _matches_day(self, month: int, day: int, weekday: int) -> bool:
        by_month, by_week = day in self.fields[2], weekday in self.fields[4]
        matches = by_month and by_week if any(self.any_day) else by_month or by_week
        return month in self.fields[3] and matches


def parse(schedule: str, zone: str = "") -> Schedule:
    """Parse a CronJob's spec.schedule in its spec.timeZone."""
    if schedule.startswith("@every "):
        from sliceworks.base import duration

        return Schedule(interval=max(1.0, float(int(duration.parse(schedule.removeprefix("@every "))))))
    timezone: tzinfo = UTC
    if zone:
        from zoneinfo import ZoneInfo

        timezone = ZoneInfo(zone)
    parts = _DESCRIPTORS.get(schedule, schedule).split()
    fields = tuple(_parse_field(part, *limits) for part, limits in zip(parts, _FIELDS, strict=True))
    return Schedule(fields, (parts[2][0] in "*?", parts[4][0] in "*?"), timezone)


def _parse_field(field: str, low: int, high: int, names: tuple[str, ...]) -> frozenset[int]:
    values: set[int] = set()
    for part in filter(None, field.split(",")):
        interval, _, step = part.partition("/")
        first, dash, last = interval.partition("-")
        if first in ("*", "?"):
            start, end = low, high
        else:
            start, end = _parse_value(first, low, names), _parse_value(last or first, low, names)
            if step and not dash:
                end = high
        values.update(range(start, end + 1, int(step or 1)))
    return frozenset(values)


def _parse_value(value: str, low: int, names: tuple[str, ...]) -> int:
    return names.index(value.lower()) + low if value.lower() in names else int(value)


@dataclass(frozen=True, slots=True)
class Due:
    """The most recent time that is due, whether too many times were missed, and the seconds until the next time."""

    at: datetime | None
    too_many_missed: bool
    requeue_after: float


def find_due(schedule: Schedule, since: datetime, now: datetime) -> Due:
    """The most recent time of a schedule that was last followed at `since`."""
    latest: datetime | None = None
    missed = 0
    upcoming = schedule.next(since)
    following = schedule.next(upcoming) if upcoming else None
    if upcoming and following and following <= now:
        # Skip close to now: a schedule that was not followed for long may have been missed any number of times.
        interval = max(1.0, (following - upcoming).total_seconds())
        missed = int((now - upcoming).total_seconds() / interval)
        upcoming = schedule.next(upcoming + timedelta(seconds=interval * max(0, missed - 1) - 1))
    while upcoming is not None and upcoming <= now:
        latest, missed = upcoming, missed + 1
        upcoming = schedule.next(upcoming)
    requeue_after = (upcoming - now).total_seconds() + 0.1 if upcoming else float(24 * 3600)
    return Due(latest, missed > 100, requeue_after)
