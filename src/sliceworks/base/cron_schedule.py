"""Cron schedules: parse one, and find the most recent and the next time. Pure."""

from __future__ import annotations

import re
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
    """Parse a CronJob's spec.schedule in its spec.timeZone. Raises ValueError with the message of Kubernetes' parser."""
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        prefix, space, schedule = schedule.partition(" ")
        if not space:
            raise ValueError("invalid schedule format: runtime error: slice bounds out of range [:-1]")
        zone, schedule = prefix.partition("=")[2], schedule.strip()
    timezone = find_zone(zone) if zone else UTC
    if timezone is None:
        raise ValueError(f"provided bad location {zone}: unknown time zone {zone}")
    if schedule.startswith("@every "):
        return Schedule(interval=_parse_interval(schedule))
    if schedule.startswith("@") and schedule not in _DESCRIPTORS:
        raise ValueError(f"unrecognized descriptor: {schedule}")
    parts = _DESCRIPTORS.get(schedule, schedule).split()
    if len(parts) != len(_FIELDS):
        raise ValueError(f"expected exactly {len(_FIELDS)} fields, found {len(parts)}: [{' '.join(parts)}]")
    fields = tuple(_parse_field(part, *limits) for part, limits in zip(parts, _FIELDS, strict=True))
    return Schedule(fields, (parts[2][0] in "*?", parts[4][0] in "*?"), timezone)


def find_zone(name: str) -> tzinfo | None:
    """The time zone with a name of the IANA database; None for other names."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _parse_interval(schedule: str) -> float:
    from sliceworks.base import duration

    try:
        seconds = duration.parse(schedule.removeprefix("@every "))
    except ValueError as error:
        raise ValueError(f"failed to parse duration {schedule}: {error}") from None
    return max(1.0, float(int(seconds)))


def _parse_field(field: str, low: int, high: int, names: tuple[str, ...]) -> frozenset[int]:
    return frozenset(number for part in filter(None, field.split(",")) for number in _parse_range(part, low, high, names))


def _parse_range(part: str, low: int, high: int, names: tuple[str, ...]) -> range:
    """The numbers of one item of a field: `*`, `5` or `1-5`, with an optional step."""
    interval, *steps = part.split("/")
    ends = interval.split("-")
    if ends[0] in ("*", "?"):
        first, last = low, high
    else:
        first = _parse_value(ends[0], low, names)
        if len(ends) > 2:
            raise ValueError(f"too many hyphens: {part}")
        last = _parse_value(ends[-1], low, names)
    if len(steps) > 1:
        raise ValueError(f"too many slashes: {part}")
    step = _parse_value(steps[0], 0, ()) if steps else 1
    if steps and len(ends) == 1:
        last = high
    for is_invalid, problem in (
        (first < low, f"beginning of range ({first}) below minimum ({low})"),
        (last > high, f"end of range ({last}) above maximum ({high})"),
        (first > last, f"beginning of range ({first}) beyond end of range ({last})"),
        (step == 0, "step of range should be a positive number"),
    ):
        if is_invalid:
            raise ValueError(f"{problem}: {part}")
    return range(first, last + 1, step)


def _parse_value(value: str, low: int, names: tuple[str, ...]) -> int:
    if value.lower() in names:
        return names.index(value.lower()) + low
    if not re.fullmatch(r"[+-]?\d+", value, re.ASCII):
        raise ValueError(f'failed to parse int from {value}: strconv.Atoi: parsing "{value}": invalid syntax')
    if int(value) < 0:
        raise ValueError(f"negative number ({int(value)}) not allowed: {value}")
    return int(value)


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
