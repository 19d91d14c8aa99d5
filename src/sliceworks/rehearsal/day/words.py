"""Moments, durations, money and shares of a day, as people read them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sliceworks.base.words import counted

if TYPE_CHECKING:
    from sliceworks.rehearsal.day.record import Day


def lasting(seconds: float | None) -> str:
    """`45 s`, `12 min`, `3 h 20 min`, `2 d 4 h`; a dash for what is not known."""
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


def clock(day: Day, at: float) -> str:
    """What the twin's clock showed at a moment: `09:30:05`, with the date when it is another one."""
    start = datetime.fromisoformat(day.start)
    moment = start + timedelta(seconds=round(at))
    days = (moment.date() - start.date()).days
    return f"{moment:%H:%M:%S}" + (f" +{days}d" if days else "")


def usd(amount: float | None) -> str:
    """`$1,234`, and cents where there are few dollars; a dash where there is no price."""
    if amount is None:
        return "–"
    return f"${amount:,.0f}" if amount >= 100 else f"${amount:,.2f}"


def share(value: float | None) -> str:
    """`63 %`."""
    return "–" if value is None else f"{value:.0%}".replace("%", " %")


def verdict(day: Day) -> str:
    """Whether the day was as it should be, in one line."""
    from sliceworks.rehearsal.day.figures import broken

    checks = sum(len(step.checks) for step in day.steps)
    if not day.kept:
        return f"{counted(broken(day), 'thing')} did not end as expected"
    return f"everything ended as expected: {counted(checks, 'expectation')} met" if checks else "every step was done"
