"""`sliceworks train restart`: begin a training job again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sliceworks.base.errors import SliceworksError
from sliceworks.cli import options, train_cluster
from sliceworks.cli.output import show_one

if TYPE_CHECKING:
    from sliceworks.kube import Client

Object = dict[str, Any]


@click.command()
@click.argument("name")
@click.option(
    "--requeue", is_flag=True, help="Give its slices back first, and begin at the end of the queue with all restarts left."
)
@options.timeout(120)
@options.namespace
@options.cluster
@options.yes
@options.output("table", "json", "yaml", "name")
@options.quiet
def restart(*, name: str, requeue: bool, timeout: float, namespace: str, yes: bool, output: str, **where: Any) -> int:
    """Begin a training job again: in its place if it runs, from its queue if it has ended.

    A job that runs keeps its slices: its pods end, and new ones begin from the last checkpoint. This counts as no restart.
    """

    async def work(client: Client) -> tuple[Object, str]:
        from sliceworks.training.restarting import begin_again, resubmit
        from sliceworks.training.states import state
        from sliceworks.training.words import ENDED, WAITS

        jobset = await train_cluster.find_jobset(client, name, client.namespace)
        word = state(jobset)
        if word in WAITS and not requeue:
            raise SliceworksError(f"{name} is {word}: nothing runs that could begin again", hint=f"sliceworks train show {name}")
        options.confirm(f"Begin {name} in {client.namespace} again? It is {word}.", yes)
        if requeue or word in ENDED:
            return await resubmit(client, jobset, timeout), "is submitted again"
        await begin_again(client, jobset)
        return jobset, "begins again"

    found, words = train_cluster.run(work, namespace, where)
    if output in ("json", "yaml"):
        show_one(found, output)
    else:
        click.echo(f"jobset/{name}" if output == "name" else f"jobset/{name} {words}")
    return 0
