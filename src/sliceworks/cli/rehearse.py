"""`sliceworks rehearse`: a folder of documents on a fresh twin, from start to finish."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import progress
from sliceworks.cli import options
from sliceworks.cli.output import Report, show

if TYPE_CHECKING:
    from sliceworks.rehearsal.rehearse import Outcome, Rehearsal


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--for", "seconds", type=options.DURATION, default="1m", show_default=True, help="How much of the twin's time passes."
)
@click.option("--seed", type=int, default=0, show_default=True, help="One seed, one course of events.")
@options.output("table", "json", "yaml", "name")
@options.quiet
def rehearse(folder: Path, seconds: float, seed: int, output: str) -> int:
    """Apply every document in DIR to a fresh twin, in virtual time, and tell what happened.

    Nothing is kept, and no cluster but the twin is touched. Exit code 1 when something was refused.
    """
    from sliceworks.rehearsal import documents
    from sliceworks.rehearsal.rehearse import rehearse as run

    read = documents.read(folder)
    with progress.working(f"Rehearsing {len(read)} documents of {folder}"):
        done = run(read, seconds=seconds, seed=seed)
    if output == "table":
        _tell(done)
    show(Report(("kind", "namespace", "name", "result", "state"), *_rows(done)), output)
    for outcome in done.refused:
        click.echo(f"refused: {outcome.document.place()}: {outcome.document.name}: {outcome.reason}", err=True)
    return 1 if done.refused else 0


def _tell(done: Rehearsal) -> None:
    from sliceworks.base import tables

    rows = [(_clock(moment.at), moment.verb, moment.subject, moment.by, moment.note or " ") for moment in done.moments]
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
