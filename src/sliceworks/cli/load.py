"""`sliceworks load`: run load tests; list, report, compare, query and publish their results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import progress
from sliceworks.base.errors import SliceworksError, UsageError
from sliceworks.cli import options
from sliceworks.cli.groups import Group
from sliceworks.cli.load_search import search, senders_option, workers_option
from sliceworks.cli.output import Report, print_object, print_report

if TYPE_CHECKING:
    from sliceworks.loadtest.bigquery_export import PubSubSink
    from sliceworks.loadtest.comparison import Change, ComparedRun
    from sliceworks.loadtest.runner import LocustOptions

_HOSTS = {"pubsub": "https://pubsub.googleapis.com", "bigquery": "https://bigquery.googleapis.com"}


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--project", required=True, metavar="ID", help="Google Cloud project.")
@click.option("--topic", required=True, metavar="NAME", help="Pub/Sub topic of the environment's loadMetrics.")
@click.option("--dataset", required=True, metavar="NAME", help="BigQuery dataset that the subscription writes to.")
@click.option("--table", default="requests", show_default=True, metavar="NAME", help="BigQuery table.")
@options.twin("Use the cloud of a twin on this machine.")
@options.timeout(120)
@options.output("table", "json")
@options.quiet
def publish(*, run: Path, twin: bool, timeout: float, output: str, **names: str) -> int:
    """Publish the records of a run to Pub/Sub, and wait until BigQuery has stored them all.

    Records already published are skipped. Exit code 3 if they are not stored before the timeout.
    """
    from sliceworks.base import clock
    from sliceworks.cli import load_test
    from sliceworks.loadtest.bigquery_export import PubSubSink

    place = PubSubSink(names["project"], names["topic"], names["dataset"], names["table"])
    counts = clock.run(_publish(run, load_test.load_run(run), place, twin=twin, timeout=timeout))
    if output == "json":
        print_object(counts, "json")
    else:
        click.echo(f"{counts['published']:,} records published, {counts['stored']:,} in {place.dataset}.{place.table}")
    return 0


async def _publish(folder: Path, run: dict[str, Any], place: PubSubSink, *, twin: bool, timeout: float) -> dict[str, int]:
    import asyncio

    from sliceworks.base import clock
    from sliceworks.base.errors import TimedOut
    from sliceworks.cloud import Session
    from sliceworks.loadtest import bigquery_export

    hosts, prefix, credentials = _cloud(twin)
    async with Session(hosts["bigquery"], credentials) as session:
        await bigquery_export.count_rows(session, place, folder)  # fails before anything is published if the table is missing
    with progress.task("Publishing") as step:
        async with Session(hosts["pubsub"], credentials) as session:
            publisher = bigquery_export.Publisher(session, place, folder, prefix)
            published = await publisher.publish(run, lambda done: step(f"{done:,}"))
    stored = 0
    with progress.task("Waiting for the table") as step:
        async with Session(hosts["bigquery"], credentials) as session:
            try:
                async with asyncio.timeout(timeout):
                    while (stored := await bigquery_export.count_rows(session, place, folder)) < published:
                        step(f"{stored:,} of {published:,}")
                        await clock.sleep(1)
            except TimeoutError as error:
                raise TimedOut(f"table has {stored:,} of {published:,} records after {timeout:g} s") from error
    return {"published": published, "stored": stored}


def _cloud(twin: bool) -> tuple[dict[str, str], str, Any]:
    """Return the addresses of both services, the path prefix of Pub/Sub, and the credentials."""
    from sliceworks.cloud import credentials

    if not twin:
        return _HOSTS, "", credentials.find_credentials()
    from sliceworks.cli.connections import twin_cloud

    address, token = twin_cloud()
    return {"pubsub": address, "bigquery": address}, "/pubsub", credentials.find_credentials(token)


_FORMS = {"html": "report.html", "markdown": "report.md", "json": "run.json"}


@click.group(cls=Group)
def load() -> None:
    """Run load tests; report, compare and query their results."""


load.add_command(search)


load.add_command(publish)

folder_option = click.option(
    "--folder", type=click.Path(path_type=Path), default=Path("load-tests"), show_default=True, help="Folder of the runs."
)


@load.command()
@click.option("-f", "--file", type=click.Path(exists=True, path_type=Path), required=True, help="The LoadTest document.")
@click.option("--url", default="", metavar="URL", help="Send requests to this URL instead of the document's target.")
@click.option("--tag", "tags", multiple=True, metavar="NAME=VALUE", help="Label stored with the run; repeatable.")
@workers_option
@senders_option
@click.option("--locust-csv", is_flag=True, help="Also write Locust's CSV files to the folder of the run.")
@click.option(
    "--locust-port", type=click.IntRange(1, 65535), metavar="PORT", help="Serve Locust's web UI on loopback during the run."
)
@options.namespace
@options.cluster
@options.output("table", "json")
@options.quiet
def run(*, file: Path, url: str, tags: tuple[str, ...], workers: int | None, output: str, **flags: Any) -> int:
    """Run a load test as the document describes it, and store the timings of every request.

    Exit code 1 if the run is not valid or an objective is missed.
    """
    from sliceworks.cli import load_runner, load_test

    where = load_test.ClusterOptions(*(flags[key] for key in ("namespace", "kubeconfig", "context", "twin")))
    test = load_test.read(file, where, url=url, workers=workers, on=flags["senders"])
    if test.spec.workers.where == "cluster" and (flags["locust_csv"] or flags["locust_port"]):
        raise UsageError("Locust's files and web UI need workers on this machine", hint="remove these flags, or pass --on here")
    results, folder = load_runner.run_test(
        load_test.resolve_target(test), tags=options.parse_pairs("--tag", tags), locust=_locust(flags)
    )
    _show_run(results, output)
    load_runner.upload_results(folder, test)
    progress.say(f"To write a report: sliceworks load report {folder}")
    return 0 if results["valid"] and results["met"] else 1


@load.command(name="list")
@folder_option
@options.output("table", "json", "name")
def list_(*, folder: Path, output: str) -> int:
    """List runs, newest first."""
    from datetime import UTC, datetime

    from sliceworks.loadtest import check_installed

    check_installed()
    from sliceworks.loadtest import results, run_folder
    from sliceworks.loadtest.report import formatter

    runs = sorted(
        (results.load(entry.parent) | {"folder": str(entry.parent)} for entry in folder.glob("*/run.json")),
        key=lambda run: -run["started"],
    )
    for broken in run_folder.list_unfinished(folder):
        progress.say(f"{broken} is incomplete or still running; to recover it: sliceworks load recover {broken}")
    if not runs and output == "table":
        progress.say(f"No runs found in {folder}.")
        return 0
    rows = []
    for item in runs:
        summary = item["summary"]
        times = [
            formatter.format_seconds(summary["latencies"].get(name, {}).get(at))
            for name, at in (("ttft", "p99"), ("e2e", "p50"), ("e2e", "p99"))
        ]
        started = f"{datetime.fromtimestamp(item['started'], UTC):%Y-%m-%d %H:%M}"
        rate = f"{summary['delivery']['sentRate']:.4g}"
        rows.append((item["folder"], started, rate, *times, f"{summary['errorRate']:.2%}", formatter.verdict(item)))
    columns = ("run", "started", "sent/s", "ttft p99", "e2e p50", "e2e p99", "errors", "verdict")
    print_report(Report(columns, rows, runs, [entry["folder"] for entry in runs]), output)
    return 0


@load.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--format", "form", type=click.Choice(list(_FORMS)), default="html", show_default=True, help="Report format.")
@click.option("-o", "--output", "target", metavar="FILE", help="File to write; - for stdout.  [default: in the folder of the run]")
def report(*, run: Path, form: str, target: str | None) -> int:
    """Write a report of a run: one HTML file with charts, Markdown, or JSON."""
    from sliceworks.cli import load_test

    text = load_test.render_report(run, form)
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
    """Recover the results of an interrupted run, for example after a full disk or a killed process.

    The result is marked as partial, so the exit code is 1, as for every run that is not valid.
    """
    from sliceworks.loadtest import check_installed

    check_installed()
    from sliceworks.loadtest import run_folder

    with progress.task("Merging results"):
        results = run_folder.recover(run)
    _show_run(results, output)
    progress.say(f"To write a report: sliceworks load report {run}")
    return 1


@load.command()
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", type=click.Path(path_type=Path))
@click.option(
    "--threshold",
    type=click.FloatRange(0, 1),
    default=0.05,
    show_default=True,
    help="Relative change below which a difference is ignored.",
)
@options.output("table", "json")
def compare(*, before: Path, after: Path, threshold: float, output: str) -> int:
    """Compare two runs: what changed, by how much, and whether it is significant. Exit code 1 on a regression."""
    from sliceworks.loadtest import comparison

    changes = comparison.compare(_side(before), _side(after), threshold=threshold)
    if not changes:
        raise SliceworksError("nothing to compare: too few successful requests in both runs")
    data = [
        {
            "figure": change.metric,
            "before": change.before,
            "after": change.after,
            "change": change.relative,
            "interval": [change.low, change.high],
            "verdict": change.verdict,
        }
        for change in changes
    ]
    print_report(
        Report(("figure", "before", "after", "change", "95 % interval", "verdict"), [_changed(item) for item in changes], data),
        output,
    )
    return 1 if any(change.verdict == "worse" for change in changes) else 0


@load.command()
@click.argument("query")
@folder_option
@options.output("table", "json")
def sql(*, query: str, folder: Path, output: str) -> int:
    """Query all runs in SQL. Tables: `runs` (one row per run), and `requests` and `chunks` (with a column `run`)."""
    from sliceworks.loadtest import results

    columns, rows = results.run_query(folder, query)
    data = [dict(zip(columns, row, strict=True)) for row in rows]
    print_report(Report(columns, [tuple("" if value is None else value for value in row) for row in rows], data), output)
    return 0


def _locust(options: dict[str, Any]) -> LocustOptions:
    """Return the Locust options; the password of its web UI is generated for each run."""
    import secrets

    from sliceworks.loadtest.runner import LocustOptions

    port, password = options["locust_port"] or 0, secrets.token_urlsafe(12)
    if port:
        progress.say(f"Locust web UI: http://127.0.0.1:{port}, user locust, password {password}")
    return LocustOptions(options["locust_csv"], port, password)


def _show_run(run: dict[str, Any], output: str) -> None:
    from sliceworks.loadtest.report import formatter

    if output == "json":
        print_object(run, "json")
        return
    print_report(Report(("time", *formatter.COLUMNS), formatter.latency_rows(run["summary"]), []), "table")
    for name, text in formatter.facts(run):
        click.echo(f"{name + ':':12} {text}")
    for objective in run["objectives"]:
        click.echo(formatter.format_objective(objective))
    if not run["valid"]:
        click.echo(formatter.verdict(run))


def _side(folder: Path) -> ComparedRun:
    from sliceworks.cli import load_test
    from sliceworks.loadtest.comparison import ComparedRun

    begins, ends = load_test.measured_window(folder)
    return ComparedRun(folder, begins, ends)


def _changed(change: Change) -> tuple[object, ...]:
    from sliceworks.loadtest.report import formatter

    if change.is_share:
        shown = (f"{change.before:.2%}", f"{change.after:.2%}", f"{change.relative:+.2%} points")
    else:
        shown = (formatter.format_seconds(change.before), formatter.format_seconds(change.after), f"{change.relative:+.1%}")
    return (change.metric, *shown, f"{change.low:+.1%} … {change.high:+.1%}", change.verdict)
