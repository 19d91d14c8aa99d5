"""The closing words of a day, for a terminal of any width: who waited, what it cost, what was mended, what was not as expected."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING

from sliceworks.base import tables
from sliceworks.base.words import counted
from sliceworks.rehearsal.day import figures
from sliceworks.rehearsal.day.words import lasting, share, usd, verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sliceworks.rehearsal.day.record import Day

_COLUMNS = ("team", "jobs", "half waited", "longest", "chip hours", "cost")
_LEAST = 24


def closing(day: Day, width: int, paint: Callable[[str, bool], str] = lambda text, _good: text) -> str:
    """All of it, each line ended and none wider than the terminal. `paint` colours what is good or bad."""
    width = max(width, _LEAST)
    teams = _teams(day)
    lines = [paint(each, day.kept) for each in _wrapped(f"{'✓' if day.kept else '✗'} {day.name}: {verdict(day)}", width)]
    if teams:
        table = tables.render(_COLUMNS, teams)
        fits = all(tables.width(line) <= width for line in table.splitlines())
        lines += ["", *(table.splitlines() if fits else _blocks(teams, width))]
    facts = [each for text in _facts(day) for each in _wrapped(text, width)]
    lines += ["", *facts] if facts else []
    lines += [paint(each, False) for text in _misses(day) for each in _wrapped(text, width)]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _teams(day: Day) -> list[tuple[str, ...]]:
    waits = {each.team: each for each in figures.waits(day)}
    bills = {each.team: each for each in figures.bills(day)}
    rows: list[tuple[str, ...]] = []
    for team in [*sorted({*waits, *bills} - {figures.IDLE}), *([figures.IDLE] if figures.IDLE in bills else ())]:
        wait, bill = waits.get(team), bills.get(team)
        waited = (lasting(wait.quantile(0.5)), lasting(wait.quantile(1))) if wait else ("–", "–")
        cost = (f"{bill.chip_hours:,.1f}", "no price" if bill.usd is None else usd(bill.usd)) if bill else ("–", "–")
        rows.append((team, str(wait.jobs) if wait else "–", *waited, *cost))
    return rows


def _blocks(teams: list[tuple[str, ...]], width: int) -> Iterator[str]:
    """The same as the table, one below the other, for a terminal that is too narrow for it."""
    for team, *values in teams:
        yield from _wrapped(team, width)
        told = "; ".join(f"{name} {value}" for name, value in zip(_COLUMNS[1:], values, strict=True) if value != "–")
        yield from _wrapped(f"  {told}", width)


def _facts(day: Day) -> Iterator[str]:
    use = figures.total_use(day)
    if use.there:
        each = ", ".join(f"{chip.name} {share(chip.share)}" for chip in figures.use_by_chip(day) if chip.there)
        yield f"Chips: {share(use.share)} in use, {use.used / 3600:,.0f} of {use.there / 3600:,.0f} chip hours ({each})"
    cost = figures.total_cost(day)
    if cost is not None:
        yield f"Cost: {usd(cost)} at list prices"
    mended = figures.mended(day)
    if day.incidents:
        yield f"Went wrong: {counted(len(day.incidents), 'thing')}, {mended} mended"
    if day.deaths:
        yield f"Drill: programs were killed {len(day.deaths)} times, {sum(each.at_work for each in day.deaths)} of them at work"
    checks = [check for step in day.steps for check in step.checks]
    if checks:
        yield f"Expectations: {sum(check.kept for check in checks)} of {len(checks)} met"


def _misses(day: Day) -> Iterator[str]:
    for step in day.steps:
        for check in step.checks:
            if not check.kept:
                place = f"{check.place}: " if check.place else ""
                yield f"✗ {place}{step.title}: expected {check.expected}, found {check.actual}"
        if step.result == "failed":
            yield f"✗ {step.title}: {step.told or 'failed'}"


def _wrapped(text: str, width: int) -> list[str]:
    begin = text[: len(text) - len(text.lstrip())]
    shown = tables.cell(text.strip())
    return fill(shown, width, initial_indent=begin, subsequent_indent=f"{begin}  ", break_on_hyphens=False).splitlines()
