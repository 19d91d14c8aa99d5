"""`sliceworks load`: find out what a model server can take, and show it to others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import progress
from sliceworks.base.errors import SliceworksError, UsageError
from sliceworks.cli import options
from sliceworks.cli.groups import Group
from sliceworks.cli.load_publish import publish
from sliceworks.cli.load_search import search, senders_option, workers_option
from sliceworks.cli.output import Report, show, show_one

if TYPE_CHECKING:
    from sliceworks.loadtest.comparing import Change, Side
    from sliceworks.loadtest.running import Locust

_FORMS = {"html": "report.html", "markdown": "report.md", "json": "run.json"}


@click.group(cls=Group)
def load() -> None:
    """Run load tests, and read, compare and query their results."""


load.add_command(search)
load.add_command(publish)

folder_option = click.option(
    "--folder", type=click.Path(path_type=Path), default=Path("load-tests"), show_default=True, help="Where runs are kept."
)


@load.command()
@click.option("-f", "--file", type=click.Path(exists=True, path_type=Path), required=True, help="The LoadTest document.")
@click.option("--url", default="", metavar="URL", help="Ask this address, not the document's.")
@click.option("--tag", "tags", multiple=True, metavar="NAME=VALUE", help="Kept with the run; repeat for more.")
@workers_option
@senders_option
@click.option("--locust-csv", is_flag=True, help="Write Locust's own CSV files into the run's folder too.")
@click.option("--locust-port", type=click.IntRange(1, 65535), metavar="PORT", help="Show Locust's own pages on loopback meanwhile.")
@options.namespace
@options.cluster
@options.output("table", "json")
@options.quiet
def run(*, file: Path, url: str, tags: tuple[str, ...], workers: int | None, output: str, **given: Any) -> int:
    """Run a load test: send what the document says, when it says so, and keep every request's times.

    Exit code 1 when the run does not count, or an objective was missed.
    """
    from sliceworks.cli import load_perform, load_runs

    where = load_runs.Where(*(given[key] for key in ("namespace", "kubeconfig", "context", "twin")))
    test = load_runs.read(file, where, url=url, workers=workers, on=given["senders"])
    if test.spec.workers.where == "cluster" and (given["locust_csv"] or given["locust_port"]):
        raise UsageError(
            "Locust's own files and pages are of senders on this machine", hint="leave them out, or send with --on here"
        )
    found, folder = load_perform.performed(load_runs.aimed(test), tags=options.pairs("--tag", tags), locust=_locust(given))
    _show_run(found, output)
    load_perform.store(folder, test)
    progress.say(f"sliceworks load report {folder} draws it")
    return 0 if found["valid"] and found["kept"] else 1


@load.command(name="list")
@folder_option
@options.output("table", "json", "name")
def list_(*, folder: Path, output: str) -> int:
    """List the runs that are kept, newest first."""
    from datetime import UTC, datetime

    from sliceworks.loadtest import check_installed

    check_installed()
    from sliceworks.loadtest import ending, results
    from sliceworks.loadtest.report import words

    runs = sorted(
        (results.load(each.parent) | {"folder": str(each.parent)} for each in folder.glob("*/run.json")),
        key=lambda run: -run["began"],
    )
    for broken in ending.unfinished(folder):
        progress.say(f"{broken} did not come to its end, or has not yet: sliceworks load recover {broken}")
    if not runs and output == "table":
        progress.say(f"There are no runs in {folder}.")
        return 0
    rows = []
    for each in runs:
        summary = each["summary"]
        times = [
            words.time(summary["times"].get(name, {}).get(at)) for name, at in (("ttft", "p99"), ("e2e", "p50"), ("e2e", "p99"))
        ]
        began = f"{datetime.fromtimestamp(each['began'], UTC):%Y-%m-%d %H:%M}"
        rate = f"{summary['delivery']['rateSent']:.4g}"
        rows.append((each["folder"], began, rate, *times, f"{summary['errorRate']:.2%}", words.verdict(each)))
    columns = ("run", "began", "sent/s", "ttft p99", "e2e p50", "e2e p99", "errors", "verdict")
    show(Report(columns, rows, runs, [each["folder"] for each in runs]), output)
    return 0


@load.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(list(_FORMS)), default="html", show_default=True, help="What to write.")
@click.option("-o", "--output", "target", metavar="FILE", help="Where to write it; - is stdout.  [default: into the run's folder]")
def report(*, run: Path, form: str, target: str | None) -> int:
    """Write a report of a run: one HTML file with pictures, Markdown, or JSON."""
    from sliceworks.cli import load_runs

    text = load_runs.rendered(run, form)
    if target == "-":
        click.echo(text, nl=False)
        return 0
    file = Path(target) if target else run / _FORMS[form]
    file.write_text(text)
    progress.say(f"written to {file}")
    return 0


@load.command()
@click.argument("run", type=click.Path(path_type=Path))
@options.output("table", "json")
def recover(*, run: Path, output: str) -> int:
    """Put together what is left of a run that broke off: on a full disk, or when this program was killed.

    Its result is marked as partial, and the exit code is 1, as for every run that does not count.
    """
    from sliceworks.loadtest import check_installed

    check_installed()
    from sliceworks.loadtest import ending

    with progress.working("Putting the rows together"):
        found = ending.recover(run)
    _show_run(found, output)
    progress.say(f"sliceworks load report {run} draws it")
    return 1


@load.command()
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
@click.option("--matters", type=click.FloatRange(0, 1), default=0.05, show_default=True, help="Smaller changes are none.")
@options.output("table", "json")
def compare(*, before: Path, after: Path, matters: float, output: str) -> int:
    """Compare two runs: what changed, by how much, and whether that is more than chance. Exit code 1 when something got worse."""
    from sliceworks.loadtest import comparing

    found = comparing.compare(_side(before), _side(after), matters=matters)
    if not found:
        raise SliceworksError("there is nothing to compare: too few requests succeeded in both runs")
    data = [
        {
            "figure": e.figure,
            "before": e.before,
            "after": e.after,
            "change": e.relative,
            "interval": [e.low, e.high],
            "verdict": e.verdict,
        }
        for e in found
    ]
    show(
        Report(("figure", "before", "after", "change", "95 % interval", "verdict"), [_changed(each) for each in found], data),
        output,
    )
    return 1 if any(each.verdict == "worse" for each in found) else 0


@load.command()
@click.argument("query")
@folder_option
@options.output("table", "json")
def sql(*, query: str, folder: Path, output: str) -> int:
    """Ask all runs in SQL: the tables are `runs`, with one row each, and `requests` and `pieces`, with a column `run`."""
    from sliceworks.loadtest import queries

    columns, rows = queries.ask(folder, query)
    data = [dict(zip(columns, row, strict=True)) for row in rows]
    show(Report(columns, [tuple("" if value is None else value for value in row) for row in rows], data), output)
    return 0


def _locust(asked: dict[str, Any]) -> Locust:
    """What is wanted of Locust's own; the password of its pages is new each time."""
    import secrets

    from sliceworks.loadtest.running import Locust

    port, password = asked["locust_port"] or 0, secrets.token_urlsafe(12)
    if port:
        progress.say(f"Locust's pages: http://127.0.0.1:{port}, user locust, password {password}")
    return Locust(asked["locust_csv"], port, password)


def _show_run(run: dict[str, Any], output: str) -> None:
    from sliceworks.loadtest.report import words

    if output == "json":
        show_one(run, "json")
        return
    show(Report(("time", *words.COLUMNS), words.rows(run["summary"]), []), "table")
    for name, text in words.facts(run):
        click.echo(f"{name + ':':12} {text}")
    for each in run["objectives"]:
        click.echo(words.objective(each))
    if not run["valid"]:
        click.echo(words.verdict(run))


def _side(folder: Path) -> Side:
    from sliceworks.cli import load_runs
    from sliceworks.loadtest.comparing import Side

    begins, ends = load_runs.counted(folder)
    return Side(folder, begins, ends)


def _changed(change: Change) -> tuple[object, ...]:
    from sliceworks.loadtest.report import words

    if change.points:
        shown = (f"{change.before:.2%}", f"{change.after:.2%}", f"{change.relative:+.2%} points")
    else:
        shown = (words.time(change.before), words.time(change.after), f"{change.relative:+.1%}")
    return (change.figure, *shown, f"{change.low:+.1%} … {change.high:+.1%}", change.verdict)
