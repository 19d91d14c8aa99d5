"""`sliceworks rehearse`: a folder of documents on a fresh twin, from start to finish."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import progress
from sliceworks.cli import options
from sliceworks.cli.output import Report, show
from sliceworks.cli.rehearse_end import finish, page_file, report_options

if TYPE_CHECKING:
    from sliceworks.base.errors import InvalidDocument
    from sliceworks.rehearsal.rehearse import Outcome, Rehearsal
    from sliceworks.specs.scenario import Scenario


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--for", "seconds", type=options.DURATION, help="How much of the twin's time passes.  [default: the scenario's, or 1m]"
)
@click.option("--seed", type=int, help="One seed, one course of events.  [default: the scenario's, or 0]")
@click.option("--only", multiple=True, metavar="STEP", help="Take this step of a day, and no other; repeat for more.")
@click.option("--skip", multiple=True, metavar="STEP", help="Leave this step of a day out; repeat for more.")
@click.option("--keep", is_flag=True, help="Remove nothing, and leave the twin running for kubectl and the console.")
@click.option(
    "--drill", is_flag=True, help="Kill a program of the twin or of ours every few minutes: the day must end as expected."
)
@click.option("--drill-every", type=options.DURATION, metavar="DURATION", help="How often, in the twin's time.  [default: 5m]")
@report_options
@options.output("table", "json", "yaml", "name")
@options.quiet
def rehearse(
    *,
    folder: Path,
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
    """Rehearse every document in DIR on a fresh twin, in virtual time, and tell what happened.

    A Scenario among them says what happens when. Where it expects something of the day, or has Terraform make the environment, and
    where there are load tests, DIR is rehearsed as a whole day, in steps: environment, documents, models, day, load-test, destroy.
    Other folders are applied, and each object is told; with --report or --open they are a day of two steps.

    Nothing is kept unless asked for, and no cluster but the twin is touched. Exit code 1 when something was refused or did not end
    as expected.
    """
    from sliceworks.cli import rehearse_day
    from sliceworks.rehearsal.checking import everything
    from sliceworks.rehearsal.course import program
    from sliceworks.rehearsal.drill import EVERY

    skipped = rehearse_day.skipped(only, skip)
    if wrong := everything.problems(folder):
        return _all_wrong(wrong)
    killing = drill_every or (EVERY if drill else None)
    found = program.read(folder)
    scenario = found.scenario
    if seconds is None:
        seconds = scenario.spec.duration if scenario else 60.0
    if seed is None:
        seed = scenario.spec.seed if scenario else 0
    if not (found.is_day or keep or report or open_it):
        return _apply(folder, scenario, output, seconds=seconds, seed=seed, drill=killing)
    page = page_file(found.folder.resolve().name, report)
    day = rehearse_day.perform(found, page, seed=seed, seconds=seconds, skipped=skipped, keep=keep, drill=killing)
    if output != "table":
        rehearse_day.show_record(day, output)
    return finish(day, report, open_it=open_it, words=output == "table")


def _all_wrong(wrong: list[InvalidDocument]) -> int:
    """Tell everything that is wrong with the documents; nothing has begun."""
    for each in wrong:
        click.echo(f"error: {' '.join(each.message.split())}", err=True)
        if each.hint:
            click.echo(f"hint: {' '.join(each.hint.split())}", err=True)
    if len(wrong) > 1:
        click.echo(f"{len(wrong)} problems; nothing was started", err=True)
    return 1


def _apply(folder: Path, scenario: Scenario | None, output: str, **how: Any) -> int:
    """A folder of objects: apply them, let time pass, and tell of each."""
    from sliceworks.rehearsal import documents
    from sliceworks.rehearsal.rehearse import rehearse as run

    read = documents.read(folder)
    with progress.working(f"Rehearsing {len(read)} documents of {folder}"):
        done = run(read, scenario=scenario, folder=folder, **how)
    if output == "table":
        _tell(done)
    show(Report(("kind", "namespace", "name", "result", "state"), *_rows(done)), output)
    for outcome in done.refused:
        click.echo(f"refused: {outcome.document.place()}: {outcome.document.name}: {outcome.reason}", err=True)
    for happening in done.happenings:
        if happening.refused:
            click.echo(f"refused: {_clock(happening.at)}: {happening.what}: {happening.refused}", err=True)
    return 1 if done.failed else 0


def _tell(done: Rehearsal) -> None:
    from sliceworks.base import tables

    moments = [(moment.at, moment.verb, moment.subject, moment.by, moment.note or " ") for moment in done.moments]
    planned = [(each.at, "planned", each.what, "the scenario", each.refused or " ") for each in done.happenings]
    rows = [(_clock(at), *rest) for at, *rest in sorted([*planned, *moments], key=lambda row: row[0])]
    click.echo(tables.render(("time", "what", "object", "by", "news"), rows))


def _rows(done: Rehearsal) -> tuple[list[tuple[object, ...]], list[dict[str, Any]], list[str]]:
    rows: list[tuple[object, ...]] = []
    for outcome in done.outcomes:
        metadata = outcome.document.data["metadata"]
        rows.append((outcome.document.data["kind"], metadata.get("namespace"), metadata["name"], outcome.result, outcome.state))
    return rows, [_data(outcome) for outcome in done.outcomes], [outcome.document.name for outcome in done.outcomes]


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
