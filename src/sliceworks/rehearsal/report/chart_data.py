"""Data of the report's charts, as the page's scripts read it. Pure."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from sliceworks.rehearsal.record import Span
from sliceworks.rehearsal.report import figures

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from sliceworks.rehearsal.record import Incident, InstanceRecord, JobRecord, RunRecord, Series, SliceRecord, StepRecord

Object = dict[str, Any]
SpanData = tuple[str, float, float, str]

# State of a span: its name in the legend, and the label inside a span that is wide enough.
STATES = {
    "done": ("done", "about"),
    "failed": ("failed", "✗ failed"),
    "skipped": ("skipped", "skipped"),
    "waiting": ("waiting", "waiting"),
    "preempted": ("preempted, waiting again", "✕ preempted"),
    "suspended": ("suspended", "‖ suspended"),
    "starting": ("starting", ""),
    "restarting": ("restarting", "↻"),
    "running": ("running", "about"),
    "ready": ("ready", "about"),
    "coming": ("being created", "…"),
    "error": ("in error", "✗ error"),
    "leaving": ("being deleted", ""),
    "killed": ("killed", "✕"),
    "other": ("", "about"),
}
_READY = {"running", "ready", "active", "succeeded", "available"}
_COMING = {"provisioning", "pending", "progressing", "in_progress", "inprogress", "creating", "starting", "not ready", "notready"}
_LEAVING = {"stopping", "deleting", "terminating"}
_ERROR = {"error", "failed", "degraded"}


def build_chart_data(run: RunRecord) -> Object:
    """Everything that the scripts draw."""
    return {
        "start": int(datetime.fromisoformat(run.start).timestamp()),
        "duration": max(run.duration, 1.0),
        "groups": timeline_groups(run),
        "incidents": [_incident(number, incident) for number, incident in enumerate(run.incidents, 1)],
        "states": {name: spoken for name, (spoken, _) in STATES.items()},
        "labels": {name: label for name, (_, label) in STATES.items()},
        "usage": chip_usage(run),
    }


def timeline_groups(run: RunRecord) -> list[Object]:
    """Rows of the timeline in groups: steps, jobs of each team, slices, instances, outages."""
    teams = figures.teams(run)
    groups = [_group("Steps", [_step(step) for step in run.steps])]
    for team in [*teams, ""]:
        rows = [job_row(job) for job in run.jobs if job.team == team]
        groups.append(_group(f"{team or 'no team'}", rows, teams.index(team) if team else None))
    groups.append(_group("Slices", [_slice(record, run.duration) for record in run.slices]))
    groups.append(_group("Models and graphs", [_instance(instance, run.duration) for instance in run.instances]))
    groups.append(_group("Drill outages", _outages(run)))
    return [item for item in groups if item["rows"]]


def _outages(run: RunRecord) -> list[Object]:
    """A row for each program that the drill killed, with its outages."""
    rows = []
    for name in sorted({outage.name for outage in run.outages}):
        outages = [outage for outage in run.outages if outage.name == name]
        notes = ("killed while idle", "killed during a request")
        spans = [("killed", item.at, item.at + max(item.duration, 1.0), notes[item.was_busy]) for item in outages]
        rows.append(_row(name, f"killed {len(outages)} times", "", spans))
    return rows


def _group(name: str, rows: list[Object], color: int | None = None) -> Object:
    return {"name": name, "color": None if color is None else color % 5, "rows": rows}


def _row(name: str, about: str, short: str, spans: Iterable[SpanData]) -> Object:
    rows = [(state, round(begin, 1), round(end, 1), note) for state, begin, end, note in spans]
    return {"name": name, "about": about, "short": short, "spans": rows}


def _step(step: StepRecord) -> Object:
    missed = [f"expected {check.expected}, found {check.actual}" for check in step.checks if not check.passed]
    note = "; ".join([*([step.summary] if step.summary else ()), *missed])
    state = "skipped" if step.result == "skipped" else "done" if step.passed else "failed"
    return _row(step.title, "", step.summary, [(state, step.at, step.at + step.duration, note)])


def job_row(job: JobRecord) -> Object:
    """The row of a job: waiting after running is a preemption, starting after running a restart."""
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


def _slice(record: SliceRecord, end: float) -> Object:
    about = f"{record.chip} {record.topology}, {record.chips} chips on {record.hosts} hosts, {record.capacity} in {record.zone}"
    about += f", for {record.job}" if record.job else ""
    spans = record.spans or (_full_span(record.created, record.deleted, end),)
    return _row(record.name, about, f"{record.chip} {record.topology}", map(_record_span, spans))


def _instance(record: InstanceRecord, end: float) -> Object:
    spans = record.spans or (_full_span(record.created, record.deleted, end),)
    return _row(record.name, f"{record.kind} in {record.namespace}: {record.about}", record.about, map(_record_span, spans))


def _full_span(created: float, deleted: float | None, until: float) -> Span:
    return Span("ready", created, until if deleted is None else deleted)


def _record_span(span: Span) -> SpanData:
    lowered = span.state.lower()
    kinds = (("ready", _READY), ("coming", _COMING), ("leaving", _LEAVING), ("error", _ERROR))
    state = next((name for name, words in kinds if lowered in words), "other")
    note = span.note if state != "other" else f"{span.state}: {span.note}" if span.note else span.state
    return state, span.begin, span.end, note


def _incident(number: int, incident: Incident) -> Object:
    return {
        "number": number,
        "at": incident.at,
        "ends": incident.recovered_at,
        "what": incident.what,
        "acts": [(answer.at, answer.what) for answer in incident.responses],
        "recovered": incident.recovered_at is not None,
    }


def chip_usage(run: RunRecord) -> Object:
    """Used chips by team and by type, and capacity, at each time at which one of them changes."""
    times = sorted({0.0, *(at for series in (*run.usage, *run.capacity) for at, _ in series.points if at <= run.duration)})
    teams = figures.teams(run)
    chips = sorted({item.chip for item in (*run.usage, *run.capacity)})
    by_team = {team: _sampled([series for series in run.usage if series.team == team], times) for team in teams}
    by_chip = {chip: _sampled([series for series in run.usage if series.chip == chip], times) for chip in chips}
    columns = [_sampled(run.capacity, times), *by_team.values(), *by_chip.values()]
    changed = [0, *(index for index in range(1, len(times)) if any(column[index] != column[index - 1] for column in columns))]
    return {
        "at": [round(times[index], 1) for index in changed],
        "capacity": [columns[0][index] for index in changed],
        "by": {"team": _layers(by_team, changed), "type": _layers(by_chip, changed)},
    }


def _layers(columns: dict[str, list[int]], indices: Sequence[int]) -> Object:
    return {"names": list(columns), "values": [[column[index] for index in indices] for column in columns.values()]}


def _sampled(series: Iterable[Series], times: Sequence[float]) -> list[int]:
    """The sum of the series at each time."""
    changes: dict[float, int] = defaultdict(int)
    for item in series:
        for (_, before), (at, value) in pairwise(((0.0, 0), *item.points)):
            changes[at] += value - before
    return list(accumulate(changes.get(at, 0) for at in times))
