"""`sliceworks train cancel`: end a training job and remove it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sliceworks.cli import options, train_cluster
from sliceworks.cli.output import show_one

if TYPE_CHECKING:
    from sliceworks.kube import Client


@click.command()
@click.argument("name")
@options.namespace
@options.cluster
@options.yes
@options.output("table", "json", "yaml", "name")
@options.quiet
def cancel(*, name: str, namespace: str, yes: bool, output: str, **where: Any) -> int:
    """End a training job and remove it, with its pods."""

    async def work(client: Client) -> dict[str, Any]:
        from sliceworks.training import restarting

        found = await train_cluster.find_jobset(client, name, client.namespace)
        options.confirm(f"Cancel {name} in {client.namespace}?", yes)
        await restarting.cancel(client, found)
        return found

    found = train_cluster.run(work, namespace, where)
    if output in ("json", "yaml"):
        show_one(found, output)
    else:
        click.echo(f"jobset/{name}" if output == "name" else f"jobset/{name} is cancelled")
    return 0
