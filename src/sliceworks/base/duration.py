"""Go durations (`1h2m3.5s`), parsed and formatted, and the short ages that kubectl shows."""

from __future__ import annotations

import re
from decimal import Decimal

_NANOSECONDS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # micro sign
    "μs": 1_000,  # Greek mu
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_LIMIT = 2**63
_component = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]*)")

_HOURS_PER_DAY = 24
_HOURS_PER_YEAR = 365 * 24


def parse(text: str) -> float:
    """A Go duration in seconds; ValueError with Go's message if it is invalid."""
    return parse_nanoseconds(text) / 1e9


def parse_nanoseconds(text: str) -> int:
    """A Go duration in nanoseconds, exactly."""
    sign = -1 if text.startswith("-") else 1
    rest = text[1:] if text[:1] in {"-", "+"} else text
    if rest == "0":
        return 0
    if not rest:
        raise _error("invalid duration", text)
    total, position = 0, 0
    while position < len(rest):
        match = _component.match(rest, position)
        if match is None or not (match[1] or match[2]):
            raise _error("invalid duration", text)
        if not match[3]:
            raise _error("missing unit in duration", text)
        if match[3] not in _NANOSECONDS:
            raise _error(f"unknown unit {_quote(match[3])} in duration", text)
        total += int(Decimal(f"{match[1] or 0}.{match[2] or 0}") * _NANOSECONDS[match[3]])
        position = match.end()
        if total > _LIMIT:
            raise _error("invalid duration", text)
    if total == _LIMIT and sign > 0:
        raise _error("invalid duration", text)
    return sign * total


def render(seconds: float) -> str:
    """Seconds as Go prints a duration: `1h0m0s`, `1.5s`, `250ms`."""
    return render_nanoseconds(round(seconds * 1_000_000_000))


def render_nanoseconds(total: int) -> str:
    """Nanoseconds as Go prints a duration."""
    sign, total = ("-", -total) if total < 0 else ("", total)
    if total == 0:
        return "0s"
    if total < 1_000_000_000:
        unit = "ns" if total < 1_000 else "µs" if total < 1_000_000 else "ms"
        return f"{sign}{_decimal(total, _NANOSECONDS[unit])}{unit}"
    minutes, rest = divmod(total, _NANOSECONDS["m"])
    hours, minutes = divmod(minutes, 60)
    seconds = f"{_decimal(rest, _NANOSECONDS['s'])}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    return f"{sign}{minutes}m{seconds}" if minutes else sign + seconds


def human(seconds: float) -> str:
    """An age as kubectl shows it: `45s`, `5m30s`, `3d4h`, `2y21d`."""
    whole = _whole(seconds)
    if whole < 120:
        return _seconds(whole)
    minutes, hours = whole // 60, whole // 3600
    if minutes < 10:
        return _pair(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _pair(hours, "h", minutes % 60, "m")
    if hours < 2 * _HOURS_PER_DAY:
        return f"{hours}h"
    if hours < 8 * _HOURS_PER_DAY:
        return _pair(hours // _HOURS_PER_DAY, "d", hours % _HOURS_PER_DAY, "h")
    if hours < 2 * _HOURS_PER_YEAR:
        return f"{hours // _HOURS_PER_DAY}d"
    if hours < 8 * _HOURS_PER_YEAR:
        return _pair(hours // _HOURS_PER_YEAR, "y", hours // _HOURS_PER_DAY % 365, "d")
    return f"{hours // _HOURS_PER_YEAR}y"


def short(seconds: float) -> str:
    """An age in its largest unit: `45s`, `5m`, `3d`."""
    whole = _whole(seconds)
    if whole < 60:
        return _seconds(whole)
    hours = whole // 3600
    if whole < 3600:
        return f"{whole // 60}m"
    if hours < _HOURS_PER_DAY:
        return f"{hours}h"
    return f"{hours // _HOURS_PER_DAY}d" if hours < _HOURS_PER_YEAR else f"{hours // _HOURS_PER_YEAR}y"


def _whole(seconds: float) -> int:
    # The difference of two times may be a microsecond short of a whole hour.
    return int(round(seconds, 3))


def _seconds(whole: int) -> str:
    # Clocks of two machines differ a little: one second into the future counts as now.
    return "<invalid>" if whole < -1 else f"{max(whole, 0)}s"


def _pair(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def _decimal(value: int, unit: int) -> str:
    whole, rest = divmod(value, unit)
    digits = str(rest).zfill(len(str(unit)) - 1).rstrip("0")
    return f"{whole}.{digits}" if rest else str(whole)


def _error(reason: str, text: str) -> ValueError:
    return ValueError(f"time: {reason} {_quote(text)}")


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(letter if " " <= letter < "\x7f" else _escape(letter) for letter in escaped) + '"'


def _escape(letter: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in letter.encode("utf-8", "surrogatepass"))
