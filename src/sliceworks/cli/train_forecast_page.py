"""A forecast for people and for programs."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, duration

if TYPE_CHECKING:
    from datetime import datetime

    from sliceworks.rehearsal.forecast.outlook import Expectation, Forecast, Range
    from sliceworks.rehearsal.forecast.whatif import WhatIf

Object = dict[str, Any]


def rows(found: Forecast, then: Forecast | None, *, wide: bool) -> tuple[list[str], list[list[object]]]:
    """Columns and rows. With a second forecast each job has what it changes beside it."""
    columns = ["namespace", "name", "queue", "starts in", "90 % range", "ends in", "90 % range"]
    columns += ["then starts in", "then ends in"] if then else []
    columns += ["starts at", "ends at"] if wide else []
    table = []
    for number, each in enumerate(found.expectations):
        other = then.expectations[number] if then else None
        row = [each.job.key[0], each.job.name, each.job.item.queue[1], *_cells(each)]
        row += [_middle(other, other.starts), _middle(other, other.ends)] if other else []
        row += [_moment(found.taken, each.starts), _moment(found.taken, each.ends)] if wide else []
        table.append([*row, each.reason or each.source])
    return [*columns, "known from"], table


def _cells(each: Expectation) -> list[object]:
    span = "-" if each.job.state == "running" else _range(each.starts)
    return [_middle(each, each.starts), span, _middle(each, each.ends), _range(each.ends)]


def _middle(each: Expectation, found: Range | None) -> str:
    if found is None:
        return "unknown" if each.verdict == "starts" else each.verdict
    if found is each.starts and each.job.state == "running":
        return "running"
    return "now" if found is each.starts and found.median < 1 else _length(found.median)


def _range(found: Range | None) -> str:
    return "-" if found is None else f"{_length(found.low)} – {_length(found.high)}"


def _length(seconds: float) -> str:
    return f"-{duration.human(-seconds)}" if seconds < 0 else duration.human(seconds)


def _moment(taken: datetime, found: Range | None) -> str:
    return "-" if found is None else clock.rfc3339(taken + timedelta(seconds=found.median))


def data(found: Forecast, then: Forecast | None, what_if: WhatIf | None) -> Object:
    """Everything, as data."""
    whole: Object = {
        "taken": clock.rfc3339(found.taken),
        "runs": found.runs,
        "seed": found.seed,
        "assumptions": found.assumptions,
        "jobs": [_job(found.taken, each) for each in found.expectations],
    }
    if then is not None and what_if is not None:
        whole["whatIf"] = {
            "changes": what_if.words,
            "assumptions": then.assumptions,
            "jobs": [_job(then.taken, each) for each in then.expectations],
        }
    return whole


def _job(taken: datetime, each: Expectation) -> Object:
    return {
        "namespace": each.job.key[0],
        "name": each.job.name,
        "queue": each.job.item.queue[1],
        "priority": each.job.item.priority,
        "state": each.job.state,
        "verdict": each.verdict,
        "reason": each.reason or None,
        "runTimeFrom": each.source,
        "preempted": each.preempted,
        "starts": _span(taken, each.starts),
        "ends": _span(taken, each.ends),
    }


def _span(taken: datetime, found: Range | None) -> Object | None:
    if found is None:
        return None
    names = {"median": found.median, "low": found.low, "high": found.high}
    return {
        name: {"seconds": round(value, 1), "at": clock.rfc3339(taken + timedelta(seconds=value))} for name, value in names.items()
    }
