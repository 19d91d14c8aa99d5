"""`sliceworks queues`: manage team queues and show pending workloads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import progress
from sliceworks.base.errors import NotFound, SliceworksError
from sliceworks.base.names import suggest_name
from sliceworks.cli import options
from sliceworks.cli.groups import Group
from sliceworks.cli.output import Report, print_object, print_report
from sliceworks.cli.terminal import bar

if TYPE_CHECKING:
    from sliceworks.kube import Client
    from sliceworks.training.queue_status import FlavorUsage, QueueStatus

_MANAGER = "sliceworks"


@click.group(cls=Group)
def queues() -> None:
    """Manage team queues and show pending workloads."""


@queues.command()
@click.option(
    "-f",
    "--file",
    type=click.Path(exists=True, path_type=Path),
    default=Path("environment.yaml"),
    show_default=True,
    help="The Environment document.",
)
@click.option(
    "--dry-run",
    type=click.Choice(["none", "client", "server"]),
    default="none",
    show_default=True,
    help="Only print the objects (client), or validate them on the server (server).",
)
@click.option("--skip", "skipped", multiple=True, metavar="CHECK", help="Skip a check of `env check`; repeatable.")
@options.cluster
@options.output("table", "json", "yaml", "name")
@options.quiet
def apply(*, file: Path, dry_run: str, skipped: tuple[str, ...], output: str, **where: Any) -> int:
    """Apply flavors, queues, priorities and team namespaces of an Environment that passes `env check`.

    Objects of another environment are not overwritten.
    """
    from sliceworks.cli import connections
    from sliceworks.cli.env_site import require_valid
    from sliceworks.infra.cluster.applier import find_object
    from sliceworks.infra.cluster.inventory import add_owner_label, reference_to, require_owner
    from sliceworks.training.queues import build_manifests

    environment = require_valid(file, skipped)
    name = environment.metadata.name
    objects = [add_owner_label(obj, name) for obj in build_manifests(environment)]
    if dry_run == "client":
        return _print_manifests(objects, output)

    async def apply_all(client: Client) -> None:
        for reference in map(reference_to, objects):
            require_owner(reference, await find_object(client, reference), name)
        for item in objects:
            await _apply(client, item, dry_run == "server")

    with progress.task(f"Applying {len(objects)} objects"):
        connections.run_on_cluster(apply_all, where)
    if environment.spec.queues.ready_within:
        progress.say("queues.readyWithin is a setting of Kueue, which only `sliceworks env apply` changes")
    rows = [(obj["kind"], obj["metadata"].get("namespace"), obj["metadata"]["name"]) for obj in objects]
    names = [f"{obj['kind']}/{obj['metadata']['name']}" for obj in objects]
    print_report(Report(("kind", "namespace", "name"), rows, objects, names), output)
    return 0


@queues.command("list")
@options.cluster
@options.output("table", "json", "yaml", "name")
@options.quiet
def list_(*, output: str, **where: Any) -> int:
    """List queues: chips used of quota, borrowed and lent, admitted and pending workloads."""
    statuses = _queue_statuses(where)
    rows: list[tuple[object, ...]] = []
    for item in statuses:
        chips = [holding for holding in item.flavor_usage if "/" in holding.resource] or list(item.flavor_usage[:1])
        used, quota = sum(holding.used for holding in chips), sum(holding.quota for holding in chips)
        borrowed, lent = sum(holding.borrowed for holding in chips), sum(holding.lent for holding in chips)
        state = f"stopped ({item.stopped})" if item.stopped else "open"
        full = f"{bar(used, quota, borrowed)} {_amount(used)}/{_amount(quota)}"
        rows.append(
            (item.name, item.cohort or " ", full, _amount(borrowed), _amount(lent), item.admitted, len(item.waiting), state)
        )
    columns = ("name", "cohort", "chips", "borrowed", "lent", "admitted", "waiting", "state")
    print_report(Report(columns, rows, [_data(status) for status in statuses], [status.name for status in statuses]), output)
    return 0


@queues.command("show")
@click.argument("name")
@options.cluster
@options.output("table", "json", "yaml")
@options.quiet
def show_queue(*, name: str, output: str, **where: Any) -> int:
    """Show one queue: usage and quota of each flavor, and pending workloads in order, with Kueue's reason."""
    statuses = {status.name: status for status in _queue_statuses(where)}
    if name not in statuses:
        raise SliceworksError(f"queue {name!r} not found", hint=suggest_name(name, statuses) or "sliceworks queues list")
    queue = statuses[name]
    if output != "table":
        print_object(_data(queue), output)
        return 0
    from sliceworks.base import tables

    rows = [
        (item.flavor, item.resource, bar(item.used, item.quota, item.borrowed), *map(_amount, _quantities(item)))
        for item in queue.flavor_usage
    ]
    click.echo(tables.render(("flavor", "resource", "use", "used", "quota", "borrowed", "lent"), rows))
    waiting = [
        (number, f"{workload.namespace}/{workload.name}", workload.priority, workload.since, workload.reason)
        for number, workload in enumerate(queue.waiting, start=1)
    ]
    if waiting:
        click.echo(tables.render(("#", "job", "priority", "since", "reason"), waiting), nl=False)
    else:
        click.echo("No pending workloads.")
    return 0


def _quantities(holding: FlavorUsage) -> tuple[Any, ...]:
    return holding.used, holding.quota, holding.borrowed, holding.lent


def _print_manifests(objects: list[dict[str, Any]], output: str) -> int:
    from sliceworks.base import yaml_documents

    if output == "json":
        import orjson

        click.echo(orjson.dumps(objects, option=orjson.OPT_INDENT_2))
    else:
        click.echo(yaml_documents.dump_all(objects), nl=False)
    return 0


async def _apply(client: Client, obj: dict[str, Any], dry: bool) -> None:
    try:
        await client.apply(obj, field_manager=_MANAGER, force=True, dry_run=dry)
    except NotFound as error:
        if obj["apiVersion"].startswith("kueue"):
            raise SliceworksError("Kueue is not installed in this cluster", hint="install it, or use --twin") from error
        raise


def _queue_statuses(where: dict[str, Any]) -> list[QueueStatus]:
    from sliceworks.cli import connections
    from sliceworks.kube.resources import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD
    from sliceworks.training.queue_status import list_queue_statuses

    async def read(client: Client) -> list[QueueStatus]:
        try:
            listed = [(await client.list_all(resource)).items for resource in (CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD)]
        except NotFound as error:
            raise SliceworksError("Kueue is not installed in this cluster", hint="install it, or use --twin") from error
        return list_queue_statuses(*listed)

    return connections.run_on_cluster(read, where)


def _amount(value: Any) -> str:
    number = float(value)
    if number >= 2**30:
        return f"{number / 2**30:,.0f}Gi"
    return f"{number:g}"


def _data(status: QueueStatus) -> dict[str, Any]:
    return {
        "name": status.name,
        "cohort": status.cohort or None,
        "stopped": status.stopped or None,
        "admitted": status.admitted,
        "queues": list(status.queues),
        "holdings": [
            {
                "flavor": item.flavor,
                "resource": item.resource,
                "quota": float(item.quota),
                "used": float(item.used),
                "borrowed": float(item.borrowed),
                "lent": float(item.lent),
            }
            for item in status.flavor_usage
        ],
        "waiting": [
            {
                "namespace": workload.namespace,
                "name": workload.name,
                "priority": workload.priority,
                "since": workload.since,
                "reason": workload.reason,
            }
            for workload in status.waiting
        ],
    }
