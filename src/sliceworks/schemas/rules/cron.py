"""Schedules of CronJobs, refused in the words of the parser that Kubernetes uses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sliceworks.schemas.field_errors import invalid, required

if TYPE_CHECKING:
    from sliceworks.schemas.rules.texts import Errors

_MONTHS = {
    name: number
    for number, name in enumerate(["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1)
}
_DAYS = {name: number for number, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}
_FIELDS: tuple[tuple[int, int, dict[str, int]], ...] = ((0, 59, {}), (0, 23, {}), (1, 31, {}), (1, 12, _MONTHS), (0, 6, _DAYS))
_NICKNAMES = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_is_zone_part = re.compile(r"[A-Za-z.\-_0-9+]{1,14}").fullmatch


def schedule_errors(out: Errors, schedule: str, path: str) -> None:
    if not schedule:
        out.append(required(path))
        return
    try:
        _parse(schedule)
    except ValueError as error:
        out.append(invalid(path, schedule, str(error)))
    if "TZ" in schedule:
        out.append(invalid(path, schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"))


def time_zone_errors(out: Errors, zone: str | None, path: str) -> None:
    if zone is None:
        return
    if not zone:
        out.append(invalid(path, zone, "timeZone must be nil or non-empty string"))
        return
    if any(part in (".", "..") or part.startswith("-") or not _is_zone_part(part) for part in zone.split("/")):
        out.append(invalid(path, zone, f"unknown time zone {zone}"))
        return
    if zone.casefold() == "local":
        detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        out.append(invalid(path, zone, detail))
    if zone != "Local" and not _is_known(zone):
        out.append(invalid(path, zone, f"unknown time zone {zone}"))


def _is_known(zone: str) -> bool:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _parse(schedule: str) -> None:
    """ValueError when the schedule cannot be read."""
    text = schedule
    if text.startswith(("TZ=", "CRON_TZ=")):
        zone, space, text = text.partition(" ")
        if not space:
            raise ValueError("invalid schedule format: runtime error: slice bounds out of range [:-1]")
        if not _is_known(zone.partition("=")[2]):
            raise ValueError(f"provided bad location {zone.partition('=')[2]}: unknown time zone {zone.partition('=')[2]}")
        text = text.strip()
    if text.startswith("@"):
        _nickname(text)
        return
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise ValueError(f"expected exactly {len(_FIELDS)} fields, found {len(fields)}: [{' '.join(fields)}]")
    for field, (low, high, names) in zip(fields, _FIELDS, strict=True):
        for part in field.split(","):
            if part:
                _check_part(part, low, high, names)


def _nickname(text: str) -> None:
    if text in _NICKNAMES:
        return
    if text.startswith("@every "):
        from sliceworks.base import duration

        try:
            duration.parse(text.removeprefix("@every "))
        except ValueError as error:
            raise ValueError(f"failed to parse duration {text}: {error}") from None
        return
    raise ValueError(f"unrecognized descriptor: {text}")


def _check_part(part: str, low: int, high: int, names: dict[str, int]) -> None:
    """One item of a field: `*`, `5`, `1-5`, each with a step perhaps."""
    span, *steps = part.split("/")
    first, last = _span(span, part, low, high, names)
    if len(steps) > 1:
        raise ValueError(f"too many slashes: {part}")
    step = _number(steps[0], {}) if steps else 1
    if steps and "-" not in span:
        last = high
    for wrong, words in (
        (first < low, f"beginning of range ({first}) below minimum ({low})"),
        (last > high, f"end of range ({last}) above maximum ({high})"),
        (first > last, f"beginning of range ({first}) beyond end of range ({last})"),
        (step == 0, "step of range should be a positive number"),
    ):
        if wrong:
            raise ValueError(f"{words}: {part}")


def _span(span: str, part: str, low: int, high: int, names: dict[str, int]) -> tuple[int, int]:
    ends = span.split("-")
    if ends[0] in ("*", "?"):
        return low, high
    first = _number(ends[0], names)
    if len(ends) > 2:
        raise ValueError(f"too many hyphens: {part}")
    return first, _number(ends[-1], names)


def _number(text: str, names: dict[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not re.fullmatch(r"[+-]?\d+", text, re.ASCII):
        raise ValueError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    if int(text) < 0:
        raise ValueError(f"negative number ({int(text)}) not allowed: {text}")
    return int(text)
