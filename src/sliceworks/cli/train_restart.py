"""`sliceworks train restart`: begin a training job again.

JobSet has no call for it, and its own restarts follow from failures alone. A job that runs has its Jobs deleted: JobSet makes
missing Jobs anew, the Workload stays admitted, and neither the place in the queue nor a restart of the budget is lost. A job that
has ended is removed and submitted once more, since a finished JobSet never runs again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import clock
from sliceworks.base.errors import AlreadyExists, NotFound, SliceworksError, TimedOut
from sliceworks.cli import options, train_cluster
from sliceworks.cli.output import show_one

if TYPE_CHECKING:
    from sliceworks.kube import Client

Object = dict[str, Any]
_LOOK_EVERY = 0.1


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


async def begin_again(client: Client, jobset: Object) -> None:
    """Delete the Jobs of a JobSet. Each is made anew when its last pod is gone."""
    from sliceworks.kube.well_known import JOB

    metadata = jobset["metadata"]
    jobs = (await client.list_all(JOB, metadata["namespace"], labels=f"{train_cluster.JOBSET_NAME}={metadata['name']}")).items
    for job in jobs:
        try:
            uid = job["metadata"]["uid"]
            await client.delete(JOB, job["metadata"]["name"], metadata["namespace"], propagation_policy="Foreground", uid=uid)
        except NotFound:
            continue


async def resubmit(client: Client, jobset: Object, timeout: float) -> Object:
    """Remove a JobSet and send the same once more."""
    from sliceworks.training.again import fresh

    metadata, jobsets = jobset["metadata"], train_cluster.JOBSETS
    name, namespace = metadata["name"], metadata["namespace"]
    again = fresh(jobset, await train_cluster.workload_of(client, jobset))
    await _try(client, again)
    await client.delete(jobsets, name, namespace, propagation_policy="Foreground", uid=metadata["uid"])
    deadline = clock.loop_time() + timeout
    while await _there(client, name, namespace, metadata["uid"]):
        if clock.loop_time() > deadline:
            raise TimedOut(f"{name} is not gone after {timeout:g} seconds", hint="it is being removed: submit it again later")
        await clock.sleep(_LOOK_EVERY)
    return await client.create(again, resource=jobsets)


async def _try(client: Client, jobset: Object) -> None:
    """Whether the cluster would take it, asked under a name as long as its own: nothing is removed that cannot come back."""
    name = jobset["metadata"]["name"]
    other = f"{name[:-1]}{'a' if name[-1] != 'a' else 'b'}"
    try:
        await client.create(
            {**jobset, "metadata": {**jobset["metadata"], "name": other}}, resource=train_cluster.JOBSETS, dry_run=True
        )
    except AlreadyExists:
        return


async def _there(client: Client, name: str, namespace: str, uid: str) -> bool:
    try:
        return bool((await client.get(train_cluster.JOBSETS, name, namespace))["metadata"]["uid"] == uid)
    except NotFound:
        return False
