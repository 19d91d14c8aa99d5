"""`sliceworks train forecast`: when queued work will start and end, and what would change that."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import progress
from sliceworks.base.errors import SliceworksError, UsageError
from sliceworks.cli import options, train_cluster
from sliceworks.cli.output import Report, show

if TYPE_CHECKING:
    from sliceworks.kube import Client
    from sliceworks.rehearsal.forecast.jobs import Job
    from sliceworks.rehearsal.forecast.outlook import Forecast, Outlook
    from sliceworks.rehearsal.forecast.snapshot import Snapshot
    from sliceworks.rehearsal.forecast.whatif import WhatIf

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("-f", "--file", type=_FILE, help="A TrainingJob, JobSet or Job that is not submitted yet.")
@click.option("--snapshot", "source", type=_FILE, help="The state of the queues from a file, in place of a cluster.")
@click.option("--save", "target", type=click.Path(dir_okay=False, path_type=Path), help="Write the state of the queues to a file.")
@click.option("--what-if", "scenario", type=_FILE, help="A Scenario: other quotas, priorities and submissions.")
@click.option("--assume", type=options.DURATION, help="How long work runs of which nothing is known.")
@click.option("--no-arrivals", is_flag=True, help="Suppose that nobody submits anything else, in place of days like the last ones.")
@click.option(
    "--runs", type=click.IntRange(1, 10_000), help="How often it is run forward.  [default: 20 to 200, the more the fewer jobs]"
)
@click.option("--seed", type=int, default=0, show_default=True, help="One seed, one forecast.")
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
    everywhere: bool,
    output: str,
    **where: Any,
) -> int:
    """Tell when jobs will start and end: those named, one that is not submitted yet, or all that wait.

    The queues as they are now are run forward in a twin, many times, with run times like those seen before.
    """
    if names and file:
        raise UsageError("-f and names both say which job is meant", hint="leave one out")
    snapshot, place = _snapshot(source, namespace, where)
    if target is not None:
        snapshot.save(target)
        if not names and not file and not scenario:
            progress.say(f"The state of the queues is in {target}.")
            return 0
    from sliceworks.rehearsal.forecast.outlook import Outlook

    outlook = Outlook(snapshot, assume, coming=not no_arrivals)
    if file is not None:
        wanted = [_newcomer(file, outlook, namespace, place)]
    else:
        wanted = _named(outlook, names, namespace) if names else _waiting(outlook, None if everywhere else place)
    if not wanted:
        progress.say(f"Nothing waits in {'the cluster' if everywhere or not place else place}.")
        return 0
    what_if = _what_if(scenario, outlook)
    found = _run(outlook, wanted, None, "Running the queues forward", runs=runs, seed=seed)
    then = _run(outlook, wanted, what_if, f"And if {scenario}", runs=runs, seed=seed) if what_if else None
    _show(found, then, what_if, output)
    return _unknown(found, then)


def _snapshot(source: Path | None, namespace: str, where: dict[str, Any]) -> tuple[Snapshot, str]:
    """The state of the queues, and the namespace that is meant; no namespace with a file is all of them."""
    from sliceworks.rehearsal.forecast import snapshot

    if source is not None:
        if any(where.values()):
            raise UsageError("--snapshot and a cluster both say where the queues are", hint="leave one out")
        return snapshot.load(source), namespace

    async def work(client: Client) -> tuple[Snapshot, str]:
        return await snapshot.take(client), client.namespace

    with progress.working("Reading the queues"):
        return train_cluster.run(work, namespace, where)


def _newcomer(file: Path, outlook: Outlook, namespace: str, place: str) -> Job:
    from sliceworks.base import yamls
    from sliceworks.rehearsal.forecast import newcomers

    document = yamls.load_one(file, "job")
    metadata = document.data.get("metadata")
    own = metadata.get("namespace") if isinstance(metadata, dict) else ""
    return newcomers.job(document, file.parent, outlook.snapshot, namespace=namespace or str(own or "") or place or "default")


def _named(outlook: Outlook, names: tuple[str, ...], namespace: str) -> list[Job]:
    from sliceworks.rehearsal.forecast.whatif import closest_job, find

    found = []
    for name in names:
        jobs = find(outlook, name, namespace)
        if not jobs:
            where = f" in {namespace}" if namespace else ""
            raise SliceworksError(f"there is no job {name!r} that runs or waits{where}", hint=closest_job(outlook, name))
        found += jobs
    return found


def _waiting(outlook: Outlook, namespace: str | None) -> list[Job]:
    from sliceworks.rehearsal.forecast.jobs import RUNNING

    jobs = (job for job in outlook.jobs.values() if job.state != RUNNING and (not namespace or job.key[0] == namespace))
    return sorted(jobs, key=lambda job: (job.item.queue, -job.item.priority, job.came))


def _what_if(file: Path | None, outlook: Outlook) -> WhatIf | None:
    if file is None:
        return None
    from sliceworks.rehearsal.forecast import whatif

    return whatif.read(file, outlook)


def _run(outlook: Outlook, wanted: list[Job], what_if: WhatIf | None, title: str, *, runs: int | None, seed: int) -> Forecast:
    more = [job for job in wanted if job.key not in outlook.jobs]
    with progress.working(title) as told:
        return outlook.forecast(
            wanted,
            more=[*more, *(what_if.more if what_if else ())],
            happens=what_if.happens if what_if else (),
            runs=runs,
            seed=seed,
            step=lambda done, count: told(f"{done} of {count}"),
        )


def _show(found: Forecast, then: Forecast | None, what_if: WhatIf | None, output: str) -> None:
    from sliceworks.cli.train_forecast_page import data, rows

    columns, table = rows(found, then, wide=output == "wide")
    names = [f"{each.job.key[0]}/{each.job.name}" for each in found.expectations]
    if output in ("json", "yaml"):
        from sliceworks.cli.output import show_one

        show_one(data(found, then, what_if), output)
        return
    show(Report(columns, table, [], names), "name" if output == "name" else "table")
    if output == "name":
        return
    for words in what_if.words if what_if else ():
        progress.say(f"If: {words}.")
    for words in found.assumptions:
        progress.say(f"Assumed: {words}")


def _unknown(found: Forecast, then: Forecast | None) -> int:
    """An answer that is no answer is a failure, with what would help."""
    for each in (then or found).expectations:
        if each.verdict == "unknown" and len(found.expectations) == 1:
            remedy = "give those an estimate (spec.estimate of a TrainingJob), or --assume 2h"
            raise SliceworksError(f"it cannot be told when {each.job.name} starts: {each.reason}", hint=remedy)
    return 0
