"""`sliceworks slices`: the node pools behind accelerators, whose they are, how they stand and what they cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import progress
from sliceworks.base.words import counted
from sliceworks.cli import options
from sliceworks.cli.groups import Group
from sliceworks.cli.output import Report, show, show_one

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.cli.slice_sources import Sources
    from sliceworks.cli.slice_views import SliceView

_COLUMNS = ("name", "type", "hosts", "zone", "capacity", "owner", "state", "age", "usd/hour")
_WIDE = (*_COLUMNS, "machine", "topology", "job", "message")
_EVERY = 2.0  # seconds between looks at the cloud, which has no watch


def _cloud(command: options.Command) -> options.Command:
    """Which cluster of the cloud, by the names that the controller has for its settings."""
    for name, variable, what in (
        ("cluster", "GCP_CLUSTER", "The cluster's name in the cloud."),
        ("location", "GCP_CLUSTER_LOCATION", "The cluster's region or zone."),
        ("project", "GCP_PROJECT_ID", "The cluster's project."),
    ):
        default = f"{what}  [default: ${variable}, or the context's where gcloud made it]"
        command = click.option(f"--{name}", metavar="NAME", help=default)(command)
    return options.cluster(command)


@click.group(cls=Group)
def slices() -> None:
    """See and drain the slices of a cluster."""


@slices.command("list")
@options.namespace
@options.all_namespaces
@_cloud
@options.output("table", "wide", "json", "yaml", "name")
@options.watch
@options.quiet
def list_(*, namespace: str, everywhere: bool, output: str, watch: bool, **where: Any) -> None:
    """List the slices of the namespace's JobSets; with -A every accelerator pool of the cluster, whoever made it."""

    async def look(sources: Sources) -> None:
        shown: dict[str, tuple[object, ...]] = {}
        while True:
            found = _wanted(await sources.slices(), None if everywhere else sources.client.namespace)
            rows = {view.name: _row(view, output) for view in found}
            news = [view for view in found if _still(rows[view.name]) != _still(shown.get(view.name, ()))]
            if news:
                _print(news, rows, output, header=not shown)
            elif not watch:
                _nothing(output, "the cluster" if everywhere else sources.client.namespace)
            shown |= rows
            if not watch:
                return
            await sources.pause(_EVERY)

    _run(look, namespace, where)


@slices.command("show")
@click.argument("name")
@options.namespace
@_cloud
@options.output("table", "json", "yaml", "name")
@options.quiet
def show_(*, name: str, namespace: str, output: str, **where: Any) -> None:
    """Show one slice by its pool's name, or all slices of a JobSet by its name."""

    async def look(sources: Sources) -> None:
        found = await sources.named(name)
        if output == "table":
            from sliceworks.cli.slice_page import page

            click.echo(page(found))
        elif output == "name":
            click.echo("".join(f"{view.name}\n" for view in found.slices), nl=False)
        else:
            show_one(found.data(), output)

    _run(look, namespace, where)


@slices.command()
@click.argument("name", required=False)
@click.option("--all", "everything", is_flag=True, help="Every JobSet of the cluster, those that are made later too.")
@click.option("--undo", is_flag=True, help="Let it have slices again.")
@options.namespace
@_cloud
@options.yes
@options.quiet
def drain(*, name: str | None, everything: bool, undo: bool, namespace: str, yes: bool, **where: Any) -> None:
    """Give slices back and make no new ones: those of a JobSet, of the JobSet that a pool belongs to, or all.

    The machines are deleted, whatever runs on them. With --all none is made for anybody until --all --undo, which also frees
    JobSets that were drained by name.
    """
    from collections import Counter

    from sliceworks.base.errors import UsageError

    if everything == bool(name):
        raise UsageError("name a slice or a JobSet, or say --all")

    async def look(sources: Sources) -> None:
        owners = await sources.owners(name)
        if not undo:
            machines = counted(sum(owners.values()), "slice")
            options.confirm(f"Give back {machines} of {', '.join(map(str, owners)) or 'nobody'}?", yes)
        if everything:
            await sources.drain_everything(undo=undo)
            click.echo("all JobSets may have slices again" if undo else "all JobSets are drained, those that are made later too")
            owners = Counter(await sources.drained()) if undo else Counter()
        for owner in owners:
            await sources.drain(owner, undo=undo)
            click.echo(f"jobset/{owner.name} in {owner.namespace} {'has slices again' if undo else 'is drained'}")

    _run(look, namespace, where)


def _run(look: Callable[[Sources], Any], namespace: str, where: dict[str, Any]) -> None:
    from sliceworks.cli.connections import run
    from sliceworks.cli.slice_sources import open_sources

    async def main() -> None:
        async with open_sources(namespace, **where) as sources:
            await look(sources)

    run(main, **{name: where[name] for name in ("kubeconfig", "context", "twin")})


def _wanted(found: list[SliceView], namespace: str | None) -> list[SliceView]:
    if namespace is None:
        return [view for view in found if view.accelerated or view.owner]
    return [view for view in found if view.owner and view.owner.namespace == namespace]


def _row(view: SliceView, form: str) -> tuple[object, ...]:
    from sliceworks.base import clock, duration

    pool = view.pool
    row = (
        view.name,
        view.type_name,
        f"{view.ready}/{pool.nodes}",
        pool.zone,
        view.capacity,
        str(view.owner or "-"),
        view.state,
        duration.human(clock.since(view.created).total_seconds()) if view.created else "unknown",
        view.price or "unknown",
    )
    return (*row, pool.machine, pool.topology or "-", pool.job.name or "-", view.message or "-") if form == "wide" else row


def _still(row: tuple[object, ...]) -> tuple[object, ...]:
    """A row without its age, which always changes."""
    return row[:7] + row[8:]


def _nothing(form: str, place: str) -> None:
    if form in ("table", "wide"):
        progress.say(f"There are no slices in {place}.")
    else:
        show(Report((), [], []), form)


def _print(views: list[SliceView], rows: dict[str, tuple[object, ...]], form: str, *, header: bool) -> None:
    from sliceworks.cli.slice_views import data

    columns = _WIDE if form == "wide" else _COLUMNS
    report = Report(columns, [rows[view.name] for view in views], [data(view) for view in views], [view.name for view in views])
    show(report, form, header=header)
