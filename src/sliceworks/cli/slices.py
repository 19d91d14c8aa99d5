"""`sliceworks slices`: list, show and drain slices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import progress
from sliceworks.base.names import pluralize
from sliceworks.cli import options
from sliceworks.cli.groups import Group
from sliceworks.cli.output import Report, print_object, print_report

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.cli.slice_inventory import SliceInventory
    from sliceworks.cli.slice_view import SliceView

_COLUMNS = ("name", "type", "hosts", "zone", "capacity", "owner", "state", "age", "usd/hour")
_WIDE = (*_COLUMNS, "machine", "topology", "job", "message")
_EVERY = 2.0  # seconds between polls of the cloud, which has no watch


def _cloud(command: options.Command) -> options.Command:
    """Options of the cluster in the cloud, with the variables of the slices controller."""
    for name, variable, what in (
        ("cluster", "GCP_CLUSTER", "Name of the cluster in the cloud."),
        ("location", "GCP_CLUSTER_LOCATION", "Region or zone of the cluster."),
        ("project", "GCP_PROJECT_ID", "Project of the cluster."),
    ):
        default = f"{what}  [default: ${variable}, or from a context that gcloud created]"
        command = click.option(f"--{name}", metavar="NAME", help=default)(command)
    return options.cluster(command)


@click.group(cls=Group)
def slices() -> None:
    """List, show and drain slices."""


@slices.command("list")
@options.namespace
@options.all_namespaces
@_cloud
@options.output("table", "wide", "json", "yaml", "name")
@options.watch
@options.quiet
def list_(*, namespace: str, all_namespaces: bool, output: str, watch: bool, **where: Any) -> None:
    """List the slices of the JobSets in a namespace; with -A, every accelerator node pool of the cluster."""

    async def look(sources: SliceInventory) -> None:
        shown: dict[str, tuple[object, ...]] = {}
        while True:
            views = _visible(await sources.slices(), None if all_namespaces else sources.client.namespace)
            rows = {view.name: _row(view, output) for view in views}
            changed = [view for view in views if _without_ages(rows[view.name]) != _without_ages(shown.get(view.name, ()))]
            if changed:
                _print(changed, rows, output, header=not shown)
            elif not watch:
                _nothing(output, "the cluster" if all_namespaces else sources.client.namespace)
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
    """Show one slice by the name of its node pool, or all slices of a JobSet."""

    async def look(sources: SliceInventory) -> None:
        match = await sources.named(name)
        if output == "table":
            from sliceworks.cli.slice_view import describe

            click.echo(describe(match))
        elif output == "name":
            click.echo("".join(f"{view.name}\n" for view in match.slices), nl=False)
        else:
            print_object(match.data(), output)

    _run(look, namespace, where)


@slices.command()
@click.argument("name", required=False)
@click.option("--all", "everything", is_flag=True, help="Drain every JobSet of the cluster, including those created later.")
@click.option("--undo", is_flag=True, help="Allow slices again.")
@options.namespace
@_cloud
@options.yes
@options.quiet
def drain(*, name: str | None, everything: bool, undo: bool, namespace: str, yes: bool, **where: Any) -> None:
    """Delete the slices of a JobSet and create no new ones: by JobSet, by one of its node pools, or all.

    Nodes are deleted with the pods on them. With --all, no slice is created in the cluster until --all --undo, which also
    undoes drains of single JobSets.
    """
    from collections import Counter

    from sliceworks.base.errors import UsageError

    if everything == bool(name):
        raise UsageError("a slice, a JobSet or --all is required")

    async def look(sources: SliceInventory) -> None:
        owners = await sources.owners(name)
        if not undo:
            machines = pluralize(sum(owners.values()), "slice")
            options.confirm(f"Delete {machines} of {', '.join(map(str, owners)) or 'no JobSet'}?", yes)
        if everything:
            await sources.drain_everything(undo=undo)
            click.echo("drain of all JobSets undone" if undo else "all JobSets drained, including those created later")
            owners = Counter(await sources.drained()) if undo else Counter()
        for owner in owners:
            await sources.drain(owner, undo=undo)
            click.echo(f"jobset/{owner.name} in {owner.namespace} {'undrained' if undo else 'drained'}")

    _run(look, namespace, where)


def _run(look: Callable[[SliceInventory], Any], namespace: str, where: dict[str, Any]) -> None:
    from sliceworks.cli.connections import run
    from sliceworks.cli.slice_inventory import open_inventory

    async def main() -> None:
        async with open_inventory(namespace, **where) as sources:
            await look(sources)

    run(main, **{name: where[name] for name in ("kubeconfig", "context", "twin")})


def _visible(views: list[SliceView], namespace: str | None) -> list[SliceView]:
    if namespace is None:
        return [view for view in views if view.accelerated or view.owner]
    return [view for view in views if view.owner and view.owner.namespace == namespace]


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


def _without_ages(row: tuple[object, ...]) -> tuple[object, ...]:
    """Return a row without its age, to detect changes."""
    return row[:7] + row[8:]


def _nothing(form: str, place: str) -> None:
    if form in ("table", "wide"):
        progress.say(f"No slices found in {place}.")
    else:
        print_report(Report((), [], []), form)


def _print(views: list[SliceView], rows: dict[str, tuple[object, ...]], form: str, *, header: bool) -> None:
    from sliceworks.cli.slice_view import slice_data

    columns = _WIDE if form == "wide" else _COLUMNS
    report = Report(
        columns, [rows[view.name] for view in views], [slice_data(view) for view in views], [view.name for view in views]
    )
    print_report(report, form, header=header)
