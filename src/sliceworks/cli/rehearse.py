"""`sliceworks rehearse`: run a folder of documents on a fresh twin and report the result."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from sliceworks.base import files, progress
from sliceworks.base.errors import SliceworksError, UsageError
from sliceworks.cli import options, rehearse_simulation, terminal
from sliceworks.cli.examples import example_path
from sliceworks.cli.output import Report, print_report

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.base.errors import InvalidDocument
    from sliceworks.rehearsal.basic_run import Outcome, Rehearsal
    from sliceworks.rehearsal.record import RunRecord
    from sliceworks.specs.scenario import Scenario

Command = TypeVar("Command", bound="Callable[..., Any]")
_WIDE = 200  # width of output that is not a terminal
_COLOURS = {True: "\x1b[32m", False: "\x1b[31m"}


def report_options(command: Command) -> Command:
    """`--report` and `--open`."""
    for option in (
        click.option("--open", "open_it", is_flag=True, help="Open the report in a browser."),
        click.option(
            "--report",
            metavar="FILE",
            type=click.Path(dir_okay=False, path_type=Path),
            help="File of the HTML report.  [default: in the data folder of Sliceworks]",
        ),
    ):
        command = option(command)
    return command


def report_result(record: RunRecord, report: Path | None = None, *, open_it: bool = False, summary: bool = True) -> int:
    """Write the report, print the result, and return the exit code: 1 if an expectation was not met."""
    file = write_report(record, report)
    if summary:
        click.echo(_summary(record), nl=False)
    progress.say(f"Report: {file}")
    if open_it and not open_report(file):
        progress.say("No browser found to open the report.")
    return 0 if record.passed else 1


def write_report(record: RunRecord, report: Path | None = None) -> Path:
    """Write the report file atomically."""
    from sliceworks.rehearsal.report.page import render

    file = rehearse_simulation.report_path(record.name, report)
    try:
        files.write_atomic(file, render(record).encode())
    except OSError as error:
        raise SliceworksError(
            f"writing the report to {file} failed: {error.strerror}", hint="choose another --report FILE"
        ) from error
    return file


def _summary(record: RunRecord) -> str:
    from sliceworks.rehearsal.report.terminal import render_summary

    width = shutil.get_terminal_size((_WIDE, 24)).columns
    if not progress.is_colored(sys.stdout):
        return render_summary(record, width)
    return render_summary(record, width, lambda text, good: f"{_COLOURS[good]}{text}\x1b[0m")


def open_report(file: Path) -> bool:
    """Open a file in a graphical browser; False if there is none."""
    return terminal.open_browser(file.as_uri())


@click.command()
@click.argument("folder", metavar="[DIR]", type=click.Path(exists=True, path_type=Path), required=False)
@click.option("--example", metavar="NAME", help="Run an installed example instead of DIR, such as platform.")
@click.option("--for", "seconds", type=options.DURATION, help="Simulated time to run.  [default: the scenario's, or 1m]")
@click.option(
    "--seed", type=int, help="Seed of the simulation; the same seed gives the same result.  [default: the scenario's, or 0]"
)
@click.option("--only", multiple=True, metavar="STEP", help="Run only this step; repeatable.")
@click.option("--skip", multiple=True, metavar="STEP", help="Skip this step; repeatable.")
@click.option("--keep", is_flag=True, help="Delete nothing, and keep the twin running for kubectl and the console.")
@click.option(
    "--drill", is_flag=True, help="Kill a component of the twin or a controller every few minutes; expectations must still be met."
)
@click.option("--drill-every", type=options.DURATION, metavar="DURATION", help="Simulated time between kills.  [default: 5m]")
@report_options
@options.output("table", "json", "yaml", "name")
@options.quiet
def rehearse(
    *,
    folder: Path | None,
    example: str | None,
    seconds: float | None,
    seed: int | None,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    keep: bool,
    drill: bool,
    drill_every: float | None,
    report: Path | None,
    open_it: bool,
    output: str,
) -> int:
    """Run every document in DIR on a fresh twin, in virtual time, and report the result.

    A Scenario in DIR defines the timeline. If it has expectations or applies the environment with Terraform, or if DIR has load
    tests, a full simulation runs in steps: environment, documents, models, scenario, load-test, destroy. Otherwise the objects are
    applied and listed; with --report or --open, this is a simulation of two steps.

    Nothing is kept by default, and only the twin is changed. Exit code 1 if an object was rejected or an expectation was not met.
    """
    from sliceworks.platform import document_set, validation
    from sliceworks.rehearsal.drill import DEFAULT_INTERVAL

    if (folder is None) == (example is None):
        raise UsageError("name either a folder or an --example", hint="`sliceworks examples list` prints the examples")
    folder = folder or example_path(example or "")
    skipped = rehearse_simulation.skipped_steps(only, skip)
    if errors := validation.validate_folder(folder):
        return _print_errors(errors)
    drill_interval = drill_every or (DEFAULT_INTERVAL if drill else None)
    documents = document_set.load(folder)
    scenario = documents.scenario
    if seconds is None:
        seconds = scenario.spec.duration if scenario else 60.0
    if seed is None:
        seed = scenario.spec.seed if scenario else 0
    if not (documents.needs_simulation or keep or report or open_it):
        return _apply(folder, scenario, output, seconds=seconds, seed=seed, drill=drill_interval)
    page = rehearse_simulation.report_path(documents.folder.resolve().name, report)
    record = rehearse_simulation.run_simulation(
        documents, page, seed=seed, seconds=seconds, skipped=skipped, keep=keep, drill=drill_interval
    )
    if output != "table":
        rehearse_simulation.print_record(record, output)
    return report_result(record, report, open_it=open_it, summary=output == "table")


def _print_errors(errors: list[InvalidDocument]) -> int:
    """Print all problems of the documents; nothing was started."""
    for error in errors:
        click.echo(f"error: {' '.join(error.message.split())}", err=True)
        if error.hint:
            click.echo(f"hint: {' '.join(error.hint.split())}", err=True)
    if len(errors) > 1:
        click.echo(f"{len(errors)} problems; nothing was started", err=True)
    return 1


def _apply(folder: Path, scenario: Scenario | None, output: str, **settings: Any) -> int:
    """Apply a folder of objects, run the simulation, and list each object."""
    from sliceworks.platform import loader
    from sliceworks.rehearsal.basic_run import rehearse as run

    documents = loader.load(folder)
    with progress.task(f"Rehearsing {len(documents)} documents of {folder}"):
        rehearsal = run(documents, scenario=scenario, folder=folder, **settings)
    if output == "table":
        _print_outcomes(rehearsal)
    print_report(Report(("kind", "namespace", "name", "result", "state"), *_rows(rehearsal)), output)
    for outcome in rehearsal.refused:
        click.echo(f"rejected: {outcome.document.place()}: {outcome.document.name}: {outcome.reason}", err=True)
    for result in rehearsal.event_results:
        if result.refused:
            click.echo(f"rejected: {_clock(result.at)}: {result.description}: {result.refused}", err=True)
    return 1 if rehearsal.failed else 0


def _print_outcomes(rehearsal: Rehearsal) -> None:
    from sliceworks.base import tables

    changes = [(change.at, change.verb, change.subject, change.by, change.note or " ") for change in rehearsal.timeline]
    planned = [
        (result.at, "planned", result.description, "the scenario", result.refused or " ") for result in rehearsal.event_results
    ]
    rows = [(_clock(at), *rest) for at, *rest in sorted([*planned, *changes], key=lambda row: row[0])]
    click.echo(tables.render(("time", "what", "object", "by", "message"), rows))


def _rows(rehearsal: Rehearsal) -> tuple[list[tuple[object, ...]], list[dict[str, Any]], list[str]]:
    rows: list[tuple[object, ...]] = []
    for outcome in rehearsal.outcomes:
        metadata = outcome.document.data["metadata"]
        rows.append((outcome.document.data["kind"], metadata.get("namespace"), metadata["name"], outcome.result, outcome.state))
    return rows, [_data(outcome) for outcome in rehearsal.outcomes], [outcome.document.name for outcome in rehearsal.outcomes]


def _data(outcome: Outcome) -> dict[str, Any]:
    data = outcome.document.data
    return {
        "apiVersion": data["apiVersion"],
        "kind": data["kind"],
        "namespace": data["metadata"].get("namespace"),
        "name": data["metadata"]["name"],
        "place": outcome.document.place(),
        "result": outcome.result,
        "reason": outcome.reason or None,
        "state": outcome.state or None,
        "warnings": outcome.warnings,
    }


def _clock(seconds: float) -> str:
    minutes, rest = divmod(seconds, 60)
    return f"+{int(minutes):02d}:{rest:04.1f}"
