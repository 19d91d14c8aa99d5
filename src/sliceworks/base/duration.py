"""Durations: Go's notation (`1h2m3.5s`) read and written, and the short ages that kubectl shows."""

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
_MOST = 2**63
_piece = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]*)")

_DAY = 24
_YEAR = 365 * 24


def parse(text: str) -> float:
    """A Go duration in seconds; ValueError in Go's words when it is none."""
    return parse_nanoseconds(text) / 1e9


def parse_nanoseconds(text: str) -> int:
    """A Go duration in nanoseconds, exactly."""
    sign = -1 if text.startswith("-") else 1
    rest = text[1:] if text[:1] in {"-", "+"} else text
    if rest == "0":
        return 0
    if not rest:
        raise _wrong("invalid duration", text)
    total, place = 0, 0
    while place < len(rest):
        found = _piece.match(rest, place)
        if found is None or not (found[1] or found[2]):
            raise _wrong("invalid duration", text)
        if not found[3]:
            raise _wrong("missing unit in duration", text)
        if found[3] not in _NANOSECONDS:
            raise _wrong(f"unknown unit {_quoted(found[3])} in duration", text)
        total += int(Decimal(f"{found[1] or 0}.{found[2] or 0}") * _NANOSECONDS[found[3]])
        place = found.end()
        if total > _MOST:
            raise _wrong("invalid duration", text)
    if total == _MOST and sign > 0:
        raise _wrong("invalid duration", text)
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
    text = f"{_decimal(rest, _NANOSECONDS['s'])}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{text}"
    return f"{sign}{minutes}m{text}" if minutes else sign + text


def human(seconds: float) -> str:
    """An age as kubectl shows it, two or three digits of it: `45s`, `5m30s`, `3d4h`, `2y21d`."""
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
    if hours < 2 * _DAY:
        return f"{hours}h"
    if hours < 8 * _DAY:
        return _pair(hours // _DAY, "d", hours % _DAY, "h")
    if hours < 2 * _YEAR:
        return f"{hours // _DAY}d"
    if hours < 8 * _YEAR:
        return _pair(hours // _YEAR, "y", hours // _DAY % 365, "d")
    return f"{hours // _YEAR}y"


def short(seconds: float) -> str:
    """An age in its largest unit alone: `45s`, `5m`, `3d`."""
    whole = _whole(seconds)
    if whole < 60:
        return _seconds(whole)
    hours = whole // 3600
    if whole < 3600:
        return f"{whole // 60}m"
    if hours < _DAY:
        return f"{hours}h"
    return f"{hours // _DAY}d" if hours < _YEAR else f"{hours // _YEAR}y"


def _whole(seconds: float) -> int:
    # The difference of two moments may miss a whole hour by a millionth of a second.
    return int(round(seconds, 3))


def _seconds(whole: int) -> str:
    # Clocks of two machines differ a little: a second into the future is now.
    return "<invalid>" if whole < -1 else f"{max(whole, 0)}s"


def _pair(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def _decimal(value: int, unit: int) -> str:
    whole, rest = divmod(value, unit)
    digits = str(rest).zfill(len(str(unit)) - 1).rstrip("0")
    return f"{whole}.{digits}" if rest else str(whole)


def _wrong(reason: str, text: str) -> ValueError:
    return ValueError(f"time: {reason} {_quoted(text)}")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(letter if " " <= letter < "\x7f" else _hexadecimal(letter) for letter in escaped) + '"'


def _hexadecimal(letter: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in letter.encode("utf-8", "surrogatepass"))
