"""`sliceworks train show`: one training job whole: its slices and hosts, what has happened to it, and what was told about it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from sliceworks.cli import options, train_cluster
from sliceworks.cli.output import show_one

if TYPE_CHECKING:
    from sliceworks.cli.train_page import Found
    from sliceworks.kube import Client

Object = dict[str, Any]


@click.command("show")
@click.argument("name")
@options.namespace
@options.cluster
@options.output("table", "json", "yaml")
@options.quiet
def show_(*, name: str, namespace: str, output: str, **where: Any) -> int:
    """Show one training job: its slices, hosts and restarts, its timeline, and its latest events."""
    from sliceworks.cli.train_page import data, page

    async def work(client: Client) -> None:
        found = await gather(client, name)
        if output == "table":
            click.echo(page(found), nl=False)
        else:
            show_one(data(found), output)

    train_cluster.run(work, namespace, where)
    return 0


async def gather(client: Client, name: str) -> Found:
    """Everything that belongs to a job."""
    from sliceworks.cli.train_page import Found

    jobset = await train_cluster.find_jobset(client, name, client.namespace)
    workload, pods, events = await asyncio.gather(
        train_cluster.workload_of(client, jobset),
        train_cluster.pods_of(client, name, client.namespace),
        _events(client, client.namespace),
    )
    about = {each["metadata"]["uid"] for each in (jobset, *([workload] if workload else []), *pods)}
    told = [each for each in events if (each.get("involvedObject") or {}).get("uid") in about]
    return Found(jobset, workload, pods, told, await _why(client, jobset))


async def _why(client: Client, jobset: Object) -> str:
    """What stands in its way, in one line; nothing where all is well."""
    from sliceworks.cli.train_why import answer_for
    from sliceworks.training.states import state

    if state(jobset) in ("running", "completed"):
        return ""
    return (await answer_for(client, jobset["metadata"]["name"])).summary


async def _events(client: Client, namespace: str) -> list[Object]:
    """All of a namespace, which are kept for an hour; none where one may not look."""
    from sliceworks.base.errors import Forbidden
    from sliceworks.kube.well_known import CORE_EVENT

    try:
        return (await client.list_all(CORE_EVENT, namespace)).items
    except Forbidden:
        return []
