"""`sliceworks models`: list model services, see how they stand, and remove them. The other commands are in modules of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import progress
from sliceworks.cli import options
from sliceworks.cli.groups import Group
from sliceworks.cli.models_deploy import deploy
from sliceworks.cli.models_invoke import invoke
from sliceworks.cli.models_publish import publish, unpublish, update
from sliceworks.cli.output import Report, show, show_one

if TYPE_CHECKING:
    from sliceworks.kube import Client
    from sliceworks.serving.cluster import Seen
    from sliceworks.serving.record import Record
    from sliceworks.serving.standing import Standing

Object = dict[str, Any]
_COLUMNS = ("name", "engine", "models", "on", "ready", "state", "gateway", "age")


@click.group(cls=Group)
def models() -> None:
    """Deploy models, publish them, call them, and see how they stand."""


for command in (deploy, publish, unpublish, update, invoke):
    models.add_command(command)


@models.command("list", short_help="List model services, and how they stand.")
@options.namespace
@options.all_namespaces
@options.cluster
@options.output("table", "json", "yaml", "name")
@options.quiet
def list_(*, namespace: str, everywhere: bool, output: str, **where: Any) -> int:
    """List the model services of a namespace, or of all: what they serve, on what, and how they stand."""
    from sliceworks.cli import connections

    async def work(client: Client) -> None:
        from sliceworks.serving import cluster
        from sliceworks.serving.standing import standing

        place = None if everywhere else client.namespace
        records = await cluster.all_records(client, place)
        if not records and output == "table":
            progress.say(f"There are no model services in {place or 'the cluster'}.")
            return
        by_place: dict[str, list[Object]] = {}
        for each in await cluster.workloads(client, place) if records else []:
            by_place.setdefault(each["metadata"]["namespace"], []).append(each)
        stands = [(each, standing(each, by_place.get(each.namespace, ()))) for each in records]
        show(_report(stands, everywhere=everywhere), output)

    connections.on_cluster(work, where, namespace)
    return 0


@models.command("show", short_help="Show one, and why it is not ready.")
@click.argument("name")
@options.namespace
@options.cluster
@options.output("table", "json", "yaml")
@options.quiet
def show_(*, name: str, namespace: str, output: str, **where: Any) -> int:
    """Show one model service: its models and addresses, each part of it, and why it is not ready where it is not."""
    from sliceworks.cli import connections, model_page

    async def look(client: Client) -> Seen:
        from sliceworks.serving import cluster

        return await cluster.look(client, await cluster.one_record(client, name, client.namespace), client.namespace)

    seen = connections.on_cluster(look, where, namespace)
    if output == "table":
        click.echo(model_page.render(seen), nl=False)
    else:
        show_one(model_page.data(seen), output)
    return 0


@models.command(short_help="Remove a model service.")
@click.argument("name")
@options.namespace
@options.cluster
@options.timeout(300)
@options.yes
@options.quiet
def delete(*, name: str, namespace: str, timeout: float, yes: bool, **where: Any) -> int:
    """Remove a model service with everything that belongs to it. A gateway that others share stays."""
    from sliceworks.cli import connections

    async def remove(client: Client) -> None:
        from sliceworks.serving import cluster, removing

        record = await cluster.one_record(client, name, client.namespace)
        options.confirm(f"Delete {name} in {client.namespace} with {len(record.objects)} objects?", yes)
        with progress.leaving(f"{name} goes away all the same."), progress.working(f"Deleting {name}"):
            await removing.delete(client, record, client.namespace, timeout)

    connections.on_cluster(remove, where, namespace)
    click.echo(f"modelservice/{name} is deleted")
    return 0


def _report(found: list[tuple[Record, Standing]], *, everywhere: bool) -> Report:
    """All of them, for any form; ages are by the clock of whoever calls."""
    from sliceworks.cli import model_page

    columns = ("namespace", *_COLUMNS) if everywhere else _COLUMNS
    rows = [((one.namespace, *_row(one, stands)) if everywhere else _row(one, stands)) for one, stands in found]
    data = [model_page.brief(one, stands) for one, stands in found]
    return Report(columns, rows, data, [f"modelservice/{one.service.metadata.name}" for one, _ in found])


def _row(record: Record, stands: Standing) -> tuple[object, ...]:
    from datetime import datetime

    from sliceworks.base import clock, duration
    from sliceworks.serving.compile import plan

    spec = record.service.spec
    ready, wanted = sum(each.ready for each in stands.servers), sum(each.wanted for each in stands.servers)
    age = clock.since(datetime.fromisoformat(record.created)).total_seconds()
    return (
        record.service.metadata.name,
        spec.engine,
        ", ".join(each.name for each in spec.models),
        plan(record.service).what,
        f"{ready}/{wanted}" if stands.servers else "-",
        stands.state,
        spec.gateway.name if spec.gateway else "-",
        duration.human(max(age, 0)),
    )
