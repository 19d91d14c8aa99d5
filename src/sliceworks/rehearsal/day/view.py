"""What the pictures of a day's page draw: a day as plain data for the page's script. Pure."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sliceworks.rehearsal.day import figures

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sliceworks.rehearsal.day.record import Day, Incident, JobLife, Life, Series, SliceLife, Span, Step

Object = dict[str, Any]
SpanData = tuple[str, float, float, str]

# The states that spans are drawn in: how each is called, and what is written into a span that has room for it.
STATES = {
    "done": ("done", "about"),
    "failed": ("not as expected", "✗ not as expected"),
    "skipped": ("left out", "left out"),
    "waiting": ("waiting", "waits"),
    "preempted": ("preempted, waiting again", "✕ preempted"),
    "suspended": ("suspended", "‖ suspended"),
    "starting": ("starting", ""),
    "restarting": ("restarting", "↻"),
    "running": ("running", "about"),
    "ready": ("ready", "about"),
    "coming": ("being made", "…"),
    "error": ("in error", "✗ error"),
    "leaving": ("being deleted", ""),
    "killed": ("killed", "✕"),
    "other": ("", "about"),
}
_READY = {"running", "ready", "active", "succeeded", "available"}
_COMING = {"provisioning", "pending", "progressing", "in_progress", "inprogress", "creating", "starting", "not ready", "notready"}
_LEAVING = {"stopping", "deleting", "terminating"}
_ERROR = {"error", "failed", "degraded"}


def view(day: Day) -> Object:
    """All that is drawn."""
    return {
        "start": int(datetime.fromisoformat(day.start).timestamp()),
        "lasted": max(day.lasted, 1.0),
        "groups": groups(day),
        "incidents": [_incident(number, each) for number, each in enumerate(day.incidents, 1)],
        "states": {name: spoken for name, (spoken, _) in STATES.items()},
        "labels": {name: label for name, (_, label) in STATES.items()},
        "usage": usage(day),
    }


def groups(day: Day) -> list[Object]:
    """The rows of the time line, in groups: steps, each team's jobs, slices, and everything else that has a life."""
    teams = figures.teams(day)
    found = [_group("The platform", [_step(each) for each in day.steps])]
    for team in [*teams, ""]:
        rows = [job_row(each) for each in day.jobs if each.team == team]
        found.append(_group(f"{team or 'no team'}", rows, teams.index(team) if team else None))
    found.append(_group("Slices", [_slice(each, day.lasted) for each in day.slices]))
    found.append(_group("Models and graphs", [_life(each, day.lasted) for each in day.lives]))
    found.append(_group("Killed in the drill", _deaths(day)))
    return [each for each in found if each["rows"]]


def _deaths(day: Day) -> list[Object]:
    """A row for each program that a drill killed, with the times for which it was away."""
    rows = []
    for name in sorted({death.name for death in day.deaths}):
        deaths = [death for death in day.deaths if death.name == name]
        notes = ("killed at rest", "killed in the middle of its work")
        spans = [("killed", each.at, each.at + max(each.lasted, 1.0), notes[each.at_work]) for each in deaths]
        rows.append(_row(name, f"killed {len(deaths)} times", "", spans))
    return rows


def _group(name: str, rows: list[Object], colour: int | None = None) -> Object:
    return {"name": name, "colour": None if colour is None else colour % 5, "rows": rows}


def _row(name: str, about: str, short: str, spans: Iterable[SpanData]) -> Object:
    told = [(state, round(begin, 1), round(end, 1), note) for state, begin, end, note in spans]
    return {"name": name, "about": about, "short": short, "spans": told}


def _step(step: Step) -> Object:
    missed = [f"expected {check.expected}, found {check.actual}" for check in step.checks if not check.kept]
    note = "; ".join([*([step.told] if step.told else ()), *missed])
    state = "skipped" if step.result == "skipped" else "done" if step.kept else "failed"
    return _row(step.title, "", step.told, [(state, step.at, step.at + step.lasted, note)])


def job_row(job: JobLife) -> Object:
    """A job. A wait after it ran is a preemption, and a start after it ran is a restart."""
    spans: list[SpanData] = []
    ran = False
    for span in job.spans:
        state = span.state
        if ran and state == "waiting":
            state = "preempted"
        elif ran and state == "starting":
            state = "restarting"
        ran = ran or span.state == "running"
        spans.append((state if state in STATES else "other", span.begin, span.end, span.note))
    short = f"{job.chip} × {job.chips}" if job.chips else job.chip
    about = f"{short} chips in {job.queue or 'no queue'}, priority {job.priority or 'none'}: {job.outcome}"
    return _row(job.name, about, short, spans)


def _slice(each: SliceLife, until: float) -> Object:
    about = f"{each.chip} {each.topology}, {each.chips} chips on {each.hosts} hosts, {each.capacity} in {each.zone}"
    about += f", for {each.job}" if each.job else ""
    spans = each.spans or (_whole(each.born, each.gone, until),)
    return _row(each.name, about, f"{each.chip} {each.topology}", map(_life_span, spans))


def _life(each: Life, until: float) -> Object:
    spans = each.spans or (_whole(each.born, each.gone, until),)
    return _row(each.name, f"{each.kind} in {each.namespace}: {each.about}", each.about, map(_life_span, spans))


def _whole(born: float, gone: float | None, until: float) -> Span:
    from sliceworks.rehearsal.day.record import Span

    return Span("ready", born, until if gone is None else gone)


def _life_span(span: Span) -> SpanData:
    word = span.state.lower()
    kinds = (("ready", _READY), ("coming", _COMING), ("leaving", _LEAVING), ("error", _ERROR))
    state = next((name for name, words in kinds if word in words), "other")
    note = span.note if state != "other" else f"{span.state}: {span.note}" if span.note else span.state
    return state, span.begin, span.end, note


def _incident(number: int, each: Incident) -> Object:
    return {
        "number": number,
        "at": each.at,
        "ends": each.mended,
        "what": each.what,
        "acts": [(answer.at, answer.what) for answer in each.answers],
        "mended": each.mended is not None,
    }


def usage(day: Day) -> Object:
    """Chips in use at every moment at which some number changes: by team, by type, and all that there are."""
    moments = sorted({0.0, *(at for each in (*day.usage, *day.capacity) for at, _ in each.points if at <= day.lasted)})
    teams = figures.teams(day)
    chips = sorted({each.chip for each in (*day.usage, *day.capacity)})
    by_team = {team: _sampled([each for each in day.usage if each.team == team], moments) for team in teams}
    by_chip = {chip: _sampled([each for each in day.usage if each.chip == chip], moments) for chip in chips}
    columns = [_sampled(day.capacity, moments), *by_team.values(), *by_chip.values()]
    kept = [0, *(index for index in range(1, len(moments)) if any(column[index] != column[index - 1] for column in columns))]
    return {
        "at": [round(moments[index], 1) for index in kept],
        "capacity": [columns[0][index] for index in kept],
        "by": {"team": _layers(by_team, kept), "type": _layers(by_chip, kept)},
    }


def _layers(columns: dict[str, list[int]], kept: Sequence[int]) -> Object:
    return {"names": list(columns), "values": [[column[index] for index in kept] for column in columns.values()]}


def _sampled(series: Iterable[Series], moments: Sequence[float]) -> list[int]:
    """The sum of some series at each moment."""
    changes: dict[float, int] = defaultdict(int)
    for each in series:
        for (_, before), (at, value) in pairwise(((0.0, 0), *each.points)):
            changes[at] += value - before
    found, sum_ = [], 0
    for at in moments:
        sum_ += changes.get(at, 0)
        found.append(sum_)
    return found
