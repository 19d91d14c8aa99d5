"""`sliceworks train why`: one answer to why a job is where it is, in plain words, with the objects that say so."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import click

from sliceworks.cli import options
from sliceworks.cli.output import show_one

if TYPE_CHECKING:
    from sliceworks.cloud import Container
    from sliceworks.kube import Client
    from sliceworks.training.why.answer import Answer

_MOST_NAMES = 2000


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
    from sliceworks.cli import connections

    async def main() -> Answer:
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(
                connections.open_cluster(where["kubeconfig"], where["context"], where["twin"], namespace)
            )
            return await answer_for(client, name, await _container(stack, where))

    found = connections.run(main, **where)
    from sliceworks.cli import why_page

    if output == "table":
        click.echo(why_page.page(found), nl=False)
    else:
        show_one(why_page.data(found), output)
    return 0


async def answer_for(client: Client, name: str, container: Container | None = None) -> Answer:
    """Read and explain; an error with the closest names where there is no such job."""
    from sliceworks.base.errors import NotFound
    from sliceworks.training.why.explain import explain
    from sliceworks.training.why.gather import gather

    try:
        return explain(await gather(client, client.namespace, name, container=container))
    except NotFound as error:
        raise await _unknown(client, name) from error


async def _unknown(client: Client, name: str) -> Exception:
    import difflib

    from sliceworks.base.errors import Forbidden, NotFound, SliceworksError
    from sliceworks.training.why.reading import JOBSET

    try:
        known = [each["metadata"]["name"] for each in (await client.list(JOBSET, client.namespace, limit=_MOST_NAMES)).items]
    except NotFound:
        return SliceworksError("JobSet is not installed in this cluster", hint="install it, or use --twin")
    try:
        elsewhere = (await client.list(JOBSET, fields=f"metadata.name={name}", limit=3)).items
    except Forbidden:
        elsewhere = []
    close = difflib.get_close_matches(name, known, n=3)
    hint = f"did you mean {' or '.join(close)}?" if close else "sliceworks train list -A"
    if elsewhere:
        hint = f"there is one in {' and '.join(each['metadata']['namespace'] for each in elsewhere)}: -n names it"
    return SliceworksError(f"there is no training job {name!r} in {client.namespace}", hint=hint)


async def _container(stack: AsyncExitStack, where: dict[str, Any]) -> Container | None:
    """The cloud behind the cluster, where it is known which one that is."""
    from sliceworks.base.errors import SliceworksError
    from sliceworks.cli import clouds

    try:
        settings = clouds.settings_for({}, twin=where["twin"], kubeconfig=where["kubeconfig"], context=where["context"])
        return await stack.enter_async_context(clouds.open_container(settings))
    except SliceworksError:
        return None
