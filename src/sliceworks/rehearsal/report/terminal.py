"""The summary of a run for a terminal of any width."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING

from sliceworks.base import tables
from sliceworks.rehearsal.report import figures
from sliceworks.rehearsal.report.figures import format_duration, format_percent, format_usd, format_verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sliceworks.rehearsal.record import RunRecord

_COLUMNS = ("team", "jobs", "median wait", "max wait", "chip hours", "cost")
_MIN_WIDTH = 24


def render_summary(run: RunRecord, width: int, paint: Callable[[str, bool], str] = lambda line, _good: line) -> str:
    """The summary, wrapped to `width`. `paint(line, good)` colors the verdict and failures."""
    width = max(width, _MIN_WIDTH)
    teams = _teams(run)
    lines = [paint(item, run.passed) for item in _wrap(f"{'✓' if run.passed else '✗'} {run.name}: {format_verdict(run)}", width)]
    if teams:
        table = tables.render(_COLUMNS, teams)
        fits = all(tables.width(line) <= width for line in table.splitlines())
        lines += ["", *(table.splitlines() if fits else _blocks(teams, width))]
    facts = [line for fact in _facts(run) for line in _wrap(fact, width)]
    lines += ["", *facts] if facts else []
    lines += [paint(line, False) for failure in _failures(run) for line in _wrap(failure, width)]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _teams(run: RunRecord) -> list[tuple[str, ...]]:
    waits = {item.team: item for item in figures.waits(run)}
    bills = {bill.team: bill for bill in figures.bills(run)}
    rows: list[tuple[str, ...]] = []
    for team in [*sorted({*waits, *bills} - {figures.IDLE}), *([figures.IDLE] if figures.IDLE in bills else ())]:
        wait, bill = waits.get(team), bills.get(team)
        waited = (format_duration(wait.quantile(0.5)), format_duration(wait.quantile(1))) if wait else ("–", "–")
        cost = (f"{bill.chip_hours:,.1f}", "no price" if bill.usd is None else format_usd(bill.usd)) if bill else ("–", "–")
        rows.append((team, str(wait.jobs) if wait else "–", *waited, *cost))
    return rows


def _blocks(teams: list[tuple[str, ...]], width: int) -> Iterator[str]:
    """The table as one block per team, for narrow terminals."""
    for team, *values in teams:
        yield from _wrap(team, width)
        details = "; ".join(f"{name} {value}" for name, value in zip(_COLUMNS[1:], values, strict=True) if value != "–")
        yield from _wrap(f"  {details}", width)


def _facts(run: RunRecord) -> Iterator[str]:
    use = figures.total_use(run)
    if use.existing:
        types = ", ".join(f"{chip.name} {format_percent(chip.share)}" for chip in figures.use_by_chip(run) if chip.existing)
        hours = f"{use.used / 3600:,.0f} of {use.existing / 3600:,.0f} chip hours"
        yield f"Chips: {format_percent(use.share)} in use, {hours} ({types})"
    cost = figures.total_cost(run)
    if cost is not None:
        yield f"Cost: {format_usd(cost)} at published prices"
    if run.incidents:
        yield f"Incidents: {len(run.incidents)}, {figures.count_recovered(run)} recovered"
    if run.outages:
        yield f"Drill: {len(run.outages)} programs killed, {sum(death.was_busy for death in run.outages)} of them during a request"
    checks = [check for step in run.steps for check in step.checks]
    if checks:
        yield f"Expectations: {sum(check.passed for check in checks)} of {len(checks)} met"


def _failures(run: RunRecord) -> Iterator[str]:
    for step in run.steps:
        for check in step.checks:
            if not check.passed:
                place = f"{check.place}: " if check.place else ""
                yield f"✗ {place}{step.title}: expected {check.expected}, found {check.actual}"
        if step.result == "failed":
            yield f"✗ {step.title}: {step.summary or 'failed'}"


def _wrap(line: str, width: int) -> list[str]:
    indent = line[: len(line) - len(line.lstrip())]
    shown = tables.cell(line.strip())
    return fill(shown, width, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False).splitlines()
