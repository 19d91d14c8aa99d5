"""`train forecast`: when queued jobs will start and end; and the one-line forecast of `train submit`."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import clock, duration, progress
from sliceworks.base.errors import SliceworksError, UsageError
from sliceworks.cli import options, train_client
from sliceworks.cli.output import Report, print_report

if TYPE_CHECKING:
    from datetime import datetime

    from sliceworks.kube import Client
    from sliceworks.rehearsal.forecast.forecaster import Forecast, Forecaster, JobForecast, Range
    from sliceworks.rehearsal.forecast.jobs import Job
    from sliceworks.rehearsal.forecast.snapshot import Snapshot
    from sliceworks.rehearsal.forecast.whatif import WhatIf

Object = dict[str, Any]


def forecast_rows(current: Forecast, changed: Forecast | None, *, wide: bool) -> tuple[list[str], list[list[object]]]:
    """Return columns and rows; a second forecast adds its own columns."""
    columns = ["namespace", "name", "queue", "starts in", "90 % range", "ends in", "90 % range"]
    columns += ["then starts in", "then ends in"] if changed else []
    columns += ["starts at", "ends at"] if wide else []
    table = []
    for number, expectation in enumerate(current.expectations):
        other = changed.expectations[number] if changed else None
        row = [expectation.job.key[0], expectation.job.name, expectation.job.item.queue[1], *_cells(expectation)]
        row += [_middle(other, other.starts), _middle(other, other.ends)] if other else []
        row += [_moment(current.taken, expectation.starts), _moment(current.taken, expectation.ends)] if wide else []
        table.append([*row, expectation.reason or expectation.source])
    return [*columns, "known from"], table


def _cells(expectation: JobForecast) -> list[object]:
    span = "-" if expectation.job.state == "running" else _range(expectation.starts)
    return [_middle(expectation, expectation.starts), span, _middle(expectation, expectation.ends), _range(expectation.ends)]


def _middle(expectation: JobForecast, times: Range | None) -> str:
    if times is None:
        return "unknown" if expectation.verdict == "starts" else expectation.verdict
    if times is expectation.starts and expectation.job.state == "running":
        return "running"
    return "now" if times is expectation.starts and times.median < 1 else _length(times.median)


def _range(times: Range | None) -> str:
    return "-" if times is None else f"{_length(times.low)} – {_length(times.high)}"


def _length(seconds: float) -> str:
    return f"-{duration.human(-seconds)}" if seconds < 0 else duration.human(seconds)


def _moment(snapshot_time: datetime, times: Range | None) -> str:
    return "-" if times is None else clock.rfc3339(snapshot_time + timedelta(seconds=times.median))


def forecast_data(current: Forecast, changed: Forecast | None, what_if: WhatIf | None) -> Object:
    """Return the forecast as data."""
    document: Object = {
        "taken": clock.rfc3339(current.taken),
        "runs": current.runs,
        "seed": current.seed,
        "assumptions": current.assumptions,
        "jobs": [_job(current.taken, expectation) for expectation in current.expectations],
    }
    if changed is not None and what_if is not None:
        document["whatIf"] = {
            "changes": what_if.messages,
            "assumptions": changed.assumptions,
            "jobs": [_job(changed.taken, item) for item in changed.expectations],
        }
    return document


def _job(snapshot_time: datetime, expectation: JobForecast) -> Object:
    return {
        "namespace": expectation.job.key[0],
        "name": expectation.job.name,
        "queue": expectation.job.item.queue[1],
        "priority": expectation.job.item.priority,
        "state": expectation.job.state,
        "verdict": expectation.verdict,
        "reason": expectation.reason or None,
        "runTimeFrom": expectation.source,
        "preempted": expectation.preempted,
        "starts": _span(snapshot_time, expectation.starts),
        "ends": _span(snapshot_time, expectation.ends),
    }


def _span(snapshot_time: datetime, times: Range | None) -> Object | None:
    if times is None:
        return None
    names = {"median": times.median, "low": times.low, "high": times.high}
    return {
        name: {"seconds": round(value, 1), "at": clock.rfc3339(snapshot_time + timedelta(seconds=value))}
        for name, value in names.items()
    }


async def print_forecast(client: Client, jobset: dict[str, Any]) -> None:
    """Print when the job will start, unless the forecast takes too long or is not permitted."""
    from sliceworks.rehearsal.forecast.forecaster import forecast_job

    expectation = await forecast_job(client, jobset)
    if expectation is not None:
        progress.say(format_forecast(expectation))


def format_forecast(expectation: JobForecast) -> str:
    """Return the one-line forecast."""
    name = expectation.job.name
    if expectation.verdict == "never":
        return f"{name} never starts: {expectation.reason}."
    if expectation.starts is None:
        return f"The start of {name} cannot be forecast: {expectation.reason}."
    first = expectation.starts
    if first.high < 1:
        return f"{name} starts immediately."
    span = f"90 %: {duration.human(first.low)} – {duration.human(first.high)}"
    return f"{name} starts in about {duration.human(first.median)} ({span}). See: sliceworks train forecast {name}"


_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("-f", "--file", type=_FILE, help="A TrainingJob, JobSet or Job that is not yet submitted.")
@click.option("--snapshot", "source", type=_FILE, help="Read a snapshot of the queues from a file instead of a cluster.")
@click.option("--save", "target", type=click.Path(dir_okay=False, path_type=Path), help="Write a snapshot of the queues to a file.")
@click.option("--what-if", "scenario", type=_FILE, help="A Scenario with other quotas, priorities and submissions.")
@click.option("--assume", type=options.DURATION, help="Run time of jobs without an estimate or history.")
@click.option(
    "--no-arrivals", is_flag=True, help="Assume no further submissions, instead of submissions like those of recent days."
)
@click.option("--runs", type=click.IntRange(1, 10_000), help="Number of simulations.  [default: 20 to 200; more for fewer jobs]")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed; the same seed gives the same forecast.")
@options.namespace
@options.all_namespaces
@options.cluster
@options.output("table", "wide", "json", "yaml", "name")
@options.quiet
def forecast(
    *,
    names: tuple[str, ...],
    file: Path | None,
    source: Path | None,
    target: Path | None,
    scenario: Path | None,
    assume: float | None,
    no_arrivals: bool,
    runs: int | None,
    seed: int,
    namespace: str,
    all_namespaces: bool,
    output: str,
    **where: Any,
) -> int:
    """Forecast when jobs start and end: those named, one not yet submitted, or all pending jobs.

    The current queues are simulated in a twin many times, with run times like those of earlier jobs.
    """
    if names and file:
        raise UsageError("-f cannot be combined with job names", hint="pass only one of them")
    snapshot, place = _snapshot(source, namespace, where)
    if target is not None:
        snapshot.save(target)
        if not names and not file and not scenario:
            progress.say(f"Snapshot written to {target}.")
            return 0
    from sliceworks.rehearsal.forecast.forecaster import Forecaster

    forecaster = Forecaster(snapshot, assume, include_arrivals=not no_arrivals)
    if file is not None:
        selected = [_read_new_job(file, forecaster, namespace, place)]
    else:
        selected = _named(forecaster, names, namespace) if names else _waiting(forecaster, None if all_namespaces else place)
    if not selected:
        progress.say(f"No pending jobs in {'the cluster' if all_namespaces or not place else place}.")
        return 0
    what_if = _what_if(scenario, forecaster)
    current = _run(forecaster, selected, None, "Simulating the queues", runs=runs, seed=seed)
    changed = _run(forecaster, selected, what_if, f"Simulating {scenario}", runs=runs, seed=seed) if what_if else None
    _show(current, changed, what_if, output)
    return _unknown(current, changed)


def _snapshot(source: Path | None, namespace: str, where: dict[str, Any]) -> tuple[Snapshot, str]:
    """Return a snapshot of the queues and the namespace; a file without namespace means all."""
    from sliceworks.rehearsal.forecast import snapshot

    if source is not None:
        if any(where.values()):
            raise UsageError("--snapshot cannot be combined with a cluster", hint="pass only one of them")
        return snapshot.load(source), namespace

    async def work(client: Client) -> tuple[Snapshot, str]:
        return await snapshot.take(client), client.namespace

    with progress.task("Reading the queues"):
        return train_client.run(work, namespace, where)


def _read_new_job(file: Path, outlook: Forecaster, namespace: str, place: str) -> Job:
    from sliceworks.base import yaml_documents
    from sliceworks.rehearsal.forecast import arrivals

    document = yaml_documents.load_one(file, "job")
    metadata = document.data.get("metadata")
    own = metadata.get("namespace") if isinstance(metadata, dict) else ""
    return arrivals.job_from_document(
        document, file.parent, outlook.snapshot, namespace=namespace or str(own or "") or place or "default"
    )


def _named(outlook: Forecaster, names: tuple[str, ...], namespace: str) -> list[Job]:
    from sliceworks.rehearsal.forecast.whatif import closest_job, find

    result = []
    for name in names:
        jobs = find(outlook, name, namespace)
        if not jobs:
            where = f" in {namespace}" if namespace else ""
            raise SliceworksError(f"no running or pending job {name!r} found{where}", hint=closest_job(outlook, name))
        result += jobs
    return result


def _waiting(outlook: Forecaster, namespace: str | None) -> list[Job]:
    from sliceworks.rehearsal.forecast.jobs import RUNNING

    jobs = (job for job in outlook.jobs.values() if job.state != RUNNING and (not namespace or job.key[0] == namespace))
    return sorted(jobs, key=lambda job: (job.item.queue, -job.item.priority, job.arrived))


def _what_if(file: Path | None, outlook: Forecaster) -> WhatIf | None:
    if file is None:
        return None
    from sliceworks.rehearsal.forecast import whatif

    return whatif.read(file, outlook)


def _run(
    forecaster: Forecaster, selected: list[Job], what_if: WhatIf | None, title: str, *, runs: int | None, seed: int
) -> Forecast:
    new_jobs = [job for job in selected if job.key not in forecaster.jobs]
    with progress.task(title) as report:
        return forecaster.forecast(
            selected,
            extra_jobs=[*new_jobs, *(what_if.extra_jobs if what_if else ())],
            events=what_if.events if what_if else (),
            runs=runs,
            seed=seed,
            on_progress=lambda done, count: report(f"{done} of {count}"),
        )


def _show(current: Forecast, changed: Forecast | None, what_if: WhatIf | None, output: str) -> None:

    columns, table = forecast_rows(current, changed, wide=output == "wide")
    names = [f"{expectation.job.key[0]}/{expectation.job.name}" for expectation in current.expectations]
    if output in ("json", "yaml"):
        from sliceworks.cli.output import print_object

        print_object(forecast_data(current, changed, what_if), output)
        return
    print_report(Report(columns, table, [], names), "name" if output == "name" else "table")
    if output == "name":
        return
    for sentence in what_if.messages if what_if else ():
        progress.say(f"If: {sentence}.")
    for sentence in current.assumptions:
        progress.say(f"Assumed: {sentence}")


def _unknown(current: Forecast, changed: Forecast | None) -> int:
    """Raise, with a hint, if a job has no forecast."""
    for expectation in (changed or current).expectations:
        if expectation.verdict == "unknown" and len(current.expectations) == 1:
            remedy = "set spec.estimate in those TrainingJobs, or pass --assume 2h"
            raise SliceworksError(f"the start of {expectation.job.name} cannot be forecast: {expectation.reason}", hint=remedy)
    return 0
