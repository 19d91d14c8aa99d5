"""`sliceworks train why`: one answer to why a job is where it is, in plain words, with the objects that say so."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base.errors import Forbidden, NotFound, SliceworksError
from sliceworks.base.words import closest
from sliceworks.cli import options, train_cluster
from sliceworks.cli.output import show_one

if TYPE_CHECKING:
    from sliceworks.cloud import Container
    from sliceworks.kube import Client
    from sliceworks.training.why.answer import Answer

_MOST_NAMES = 2000  # so many are looked through for one that was meant


@click.command()
@click.argument("name")
@options.namespace
@options.cluster
@options.output("table", "json", "yaml")
@options.quiet
def why(*, name: str, namespace: str, output: str, **where: Any) -> int:
    """Say why a job waits, starts slowly or has failed: what it waits for, who is ahead, and what to change.

    Every cause names the object and the field it was read from. What may not be read is told at the end.
    """
    from sliceworks.cli import clouds, why_page

    async def work(client: Client) -> None:
        async with AsyncExitStack() as stack:
            found = await answer_for(client, name, await clouds.container_of(stack, where))
        if output == "table":
            click.echo(why_page.page(found), nl=False)
        else:
            show_one(why_page.data(found), output)

    train_cluster.run(work, namespace, where)
    return 0


async def answer_for(client: Client, name: str, container: Container | None = None) -> Answer:
    """Read and explain; an error with the closest name where there is no such job."""
    from sliceworks.training.why.explain import explain
    from sliceworks.training.why.gather import gather

    try:
        return explain(await gather(client, client.namespace, name, container=container))
    except NotFound as error:
        raise await _unknown(client, name) from error


async def _unknown(client: Client, name: str) -> SliceworksError:
    """In which namespace there is a job of this name, or which is called nearly so."""
    try:
        known = (await client.list(train_cluster.JOBSETS, client.namespace, limit=_MOST_NAMES)).items
    except NotFound:
        return train_cluster.not_installed("JobSet")
    try:
        elsewhere = (await client.list(train_cluster.JOBSETS, fields=f"metadata.name={name}", limit=3)).items
    except Forbidden:
        elsewhere = []
    hint = closest(name, (each["metadata"]["name"] for each in known)) or "sliceworks train list -A"
    if elsewhere:
        hint = f"there is one in {' and '.join(each['metadata']['namespace'] for each in elsewhere)}: name it with -n"
    return SliceworksError(f"there is no training job {name!r} in {client.namespace}", hint=hint)
