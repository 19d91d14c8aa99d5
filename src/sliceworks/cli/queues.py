"""`sliceworks queues`: give teams their queues, and see how full they are and who waits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import progress
from sliceworks.base.errors import NotFound, SliceworksError
from sliceworks.base.words import closest
from sliceworks.cli import options
from sliceworks.cli.bars import bar
from sliceworks.cli.groups import Group
from sliceworks.cli.output import Report, show, show_one

if TYPE_CHECKING:
    from sliceworks.kube import Client
    from sliceworks.training.standing import Holding, Standing

_MANAGER = "sliceworks"


@click.group(cls=Group)
def queues() -> None:
    """Give teams their queues, and see who waits."""


@queues.command()
@click.option(
    "-f",
    "--file",
    type=click.Path(exists=True, path_type=Path),
    default=Path("environment.yaml"),
    show_default=True,
    help="The Environment whose teams get queues.",
)
@click.option(
    "--dry-run", type=click.Choice(["none", "client", "server"]), default="none", show_default=True, help="Print, or ask."
)
@options.cluster
@options.output("table", "json", "yaml", "name")
@options.quiet
def apply(*, file: Path, dry_run: str, output: str, **where: Any) -> int:
    """Make flavors, queues, priorities and the teams' namespaces as the document says."""
    from sliceworks.cli import connections
    from sliceworks.cli.env_sites import read_environment
    from sliceworks.training.queues import manifests

    objects = manifests(read_environment(file))
    if dry_run == "client":
        return _print_manifests(objects, output)

    async def put(client: Client) -> None:
        for each in objects:
            await _applied(client, each, dry_run == "server")

    with progress.working(f"Applying {len(objects)} objects"):
        connections.on_cluster(put, where)
    rows = [(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in objects]
    names = [f"{each['kind']}/{each['metadata']['name']}" for each in objects]
    show(Report(("kind", "namespace", "name"), rows, objects, names), output)
    return 0


@queues.command("list")
@options.cluster
@options.output("table", "json", "yaml", "name")
@options.quiet
def list_(*, output: str, **where: Any) -> int:
    """List the queues: chips in use against quota, borrowed and lent, admitted and waiting."""
    found = _standings(where)
    rows: list[tuple[object, ...]] = []
    for each in found:
        chips = [holding for holding in each.holdings if "/" in holding.resource] or list(each.holdings[:1])
        used, quota = sum(holding.used for holding in chips), sum(holding.quota for holding in chips)
        borrowed, lent = sum(holding.borrowed for holding in chips), sum(holding.lent for holding in chips)
        state = f"stopped ({each.stopped})" if each.stopped else "open"
        full = f"{bar(used, quota, borrowed)} {_amount(used)}/{_amount(quota)}"
        rows.append(
            (each.name, each.cohort or " ", full, _amount(borrowed), _amount(lent), each.admitted, len(each.waiting), state)
        )
    columns = ("name", "cohort", "chips", "borrowed", "lent", "admitted", "waiting", "state")
    show(Report(columns, rows, [_data(each) for each in found], [each.name for each in found]), output)
    return 0


@queues.command("show")
@click.argument("name")
@options.cluster
@options.output("table", "json", "yaml")
@options.quiet
def show_queue(*, name: str, output: str, **where: Any) -> int:
    """Show one queue: every flavor against its quota, and who waits, first to last, with Kueue's reason."""
    found = {each.name: each for each in _standings(where)}
    if name not in found:
        raise SliceworksError(f"there is no queue {name!r}", hint=closest(name, found) or "sliceworks queues list")
    queue = found[name]
    if output != "table":
        show_one(_data(queue), output)
        return 0
    from sliceworks.base import tables

    rows = [
        (each.flavor, each.resource, bar(each.used, each.quota, each.borrowed), *map(_amount, _numbers(each)))
        for each in queue.holdings
    ]
    click.echo(tables.render(("flavor", "resource", "use", "used", "quota", "borrowed", "lent"), rows))
    waiting = [
        (number, f"{each.namespace}/{each.name}", each.priority, each.since, each.reason)
        for number, each in enumerate(queue.waiting, start=1)
    ]
    if waiting:
        click.echo(tables.render(("#", "job", "priority", "since", "reason"), waiting), nl=False)
    else:
        click.echo("Nobody waits.")
    return 0


def _numbers(holding: Holding) -> tuple[Any, ...]:
    return holding.used, holding.quota, holding.borrowed, holding.lent


def _print_manifests(objects: list[dict[str, Any]], output: str) -> int:
    from sliceworks.base import yamls

    if output == "json":
        import orjson

        click.echo(orjson.dumps(objects, option=orjson.OPT_INDENT_2))
    else:
        click.echo(yamls.dump_all(objects), nl=False)
    return 0


async def _applied(client: Client, obj: dict[str, Any], dry: bool) -> None:
    try:
        await client.apply(obj, field_manager=_MANAGER, force=True, dry_run=dry)
    except NotFound as error:
        if obj["apiVersion"].startswith("kueue"):
            raise SliceworksError("Kueue is not installed in this cluster", hint="install it, or use --twin") from error
        raise


def _standings(where: dict[str, Any]) -> list[Standing]:
    from sliceworks.cli import connections
    from sliceworks.kube.resources import Resource
    from sliceworks.training.standing import standings

    def kueue(kind: str, plural: str, *, namespaced: bool = True) -> Resource:
        return Resource("kueue.x-k8s.io", "v1beta2", kind, plural, namespaced)

    async def look(client: Client) -> list[Standing]:
        try:
            found = [
                (await client.list_all(kueue("ClusterQueue", "clusterqueues", namespaced=False))).items,
                (await client.list_all(kueue("LocalQueue", "localqueues"))).items,
                (await client.list_all(kueue("Workload", "workloads"))).items,
            ]
        except NotFound as error:
            raise SliceworksError("Kueue is not installed in this cluster", hint="install it, or use --twin") from error
        return standings(*found)

    return connections.on_cluster(look, where)


def _amount(value: Any) -> str:
    number = float(value)
    if number >= 2**30:
        return f"{number / 2**30:,.0f}Gi"
    return f"{number:g}"


def _data(each: Standing) -> dict[str, Any]:
    return {
        "name": each.name,
        "cohort": each.cohort or None,
        "stopped": each.stopped or None,
        "admitted": each.admitted,
        "queues": list(each.queues),
        "holdings": [
            {
                "flavor": one.flavor,
                "resource": one.resource,
                "quota": float(one.quota),
                "used": float(one.used),
                "borrowed": float(one.borrowed),
                "lent": float(one.lent),
            }
            for one in each.holdings
        ],
        "waiting": [
            {"namespace": one.namespace, "name": one.name, "priority": one.priority, "since": one.since, "reason": one.reason}
            for one in each.waiting
        ],
    }
