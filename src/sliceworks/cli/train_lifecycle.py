"""`train wait`, `train restart` and `train cancel`."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import clock, progress
from sliceworks.base.errors import SliceworksError, TimedOut
from sliceworks.cli import options, train_client
from sliceworks.cli.output import print_object

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.kube import Client

Object = dict[str, Any]


@click.command("wait")
@click.argument("name")
@click.option(
    "--until", type=click.Choice(["running", "finished"]), default="finished", show_default=True, help="What to wait for."
)
@click.option("--timeout", type=options.DURATION, help="Time to wait before exit code 3.  [default: no limit]")
@options.namespace
@options.cluster
@options.quiet
def wait(*, name: str, until: str, timeout: float | None, namespace: str, **where: Any) -> int:
    """Wait for a submitted training job. Exit code 1 if it fails, 3 on timeout."""

    async def work(client: Client) -> None:
        await wait_for(client, await train_client.find_jobset(client, name, client.namespace), until, timeout)

    train_client.run(work, namespace, where)
    return 0


async def wait_for(client: Client, jobset: Object, until: str, timeout: float | None) -> None:
    """Wait until a job is running or finished; raise if it fails, is deleted, or on timeout."""
    name, namespace = jobset["metadata"]["name"], jobset["metadata"]["namespace"]
    with progress.task(f"Waiting until {name} {'is running' if until == 'running' else 'has finished'}") as step:
        try:
            await watch_until(client, jobset, until, timeout, _teller(name, step))
        except asyncio.CancelledError:
            progress.say(f"{name} continues in the cluster: sliceworks train show {name} -n {namespace}")
            raise


async def watch_until(client: Client, jobset: Object, until: str, timeout: float | None, tell: Callable[[str], None]) -> None:
    """Follow a job until it reaches the desired state."""
    from sliceworks.cli.train_client import watch_job
    from sliceworks.training.status import job_state, status_line

    name, last = jobset["metadata"]["name"], ""
    try:
        async with asyncio.timeout(timeout), watch_job(client, jobset) as follower, aclosing(follower.snapshots()) as snapshots:
            async for snapshot in snapshots:
                now = status_line(snapshot.jobset, snapshot.workload, snapshot.pods)
                if now != last:
                    tell(now)
                last, word = now, job_state(snapshot.jobset)
                if word == "failed":
                    namespace = jobset["metadata"]["namespace"]
                    raise SliceworksError(f"{name} {now}", hint=f"sliceworks train logs {name} -n {namespace}")
                if word == "completed" or (word == until and not snapshot.is_deleted):
                    return
                if snapshot.is_deleted:
                    raise SliceworksError(f"{name} was deleted while waiting for it", hint="it may have been cancelled")
    except TimeoutError as error:
        raise TimedOut(
            f"{name} is not {until} after {timeout:g} seconds: {last}", hint="the job continues; see train show and train why"
        ) from error


def _teller(name: str, step: Callable[[str], None]) -> Callable[[str], None]:
    """Show the state: in place on a terminal, else as a line with a timestamp."""
    if progress.is_interactive():
        return step
    return lambda text: progress.say(f"{clock.timestamp()} {name} {text}")


@click.command()
@click.argument("name")
@click.option(
    "--requeue",
    is_flag=True,
    help="Release the slices, and submit the job again at the end of the queue with its restart count reset.",
)
@options.timeout(120)
@options.namespace
@options.cluster
@options.yes
@options.output("table", "json", "yaml", "name")
@options.quiet
def restart(*, name: str, requeue: bool, timeout: float, namespace: str, yes: bool, output: str, **where: Any) -> int:
    """Restart a training job: in place if it is running, from its queue if it has ended.

    A running job keeps its slices: its pods are replaced, and the new ones resume from the last checkpoint. This does not count
    against its restart limit.
    """

    async def work(client: Client) -> tuple[Object, str]:
        from sliceworks.training.lifecycle import restart, resubmit
        from sliceworks.training.status import FINISHED_STATES, PENDING_STATES, job_state

        jobset = await train_client.find_jobset(client, name, client.namespace)
        word = job_state(jobset)
        if word in PENDING_STATES and not requeue:
            raise SliceworksError(f"{name} is {word} and has no running pods to restart", hint=f"sliceworks train show {name}")
        options.confirm(f"Restart {name} in {client.namespace}? It is {word}.", yes)
        if requeue or word in FINISHED_STATES:
            return await resubmit(client, jobset, timeout), "resubmitted"
        await restart(client, jobset)
        return jobset, "restarted"

    result, outcome = train_client.run(work, namespace, where)
    if output in ("json", "yaml"):
        print_object(result, output)
    else:
        click.echo(f"jobset/{name}" if output == "name" else f"jobset/{name} {outcome}")
    return 0


@click.command()
@click.argument("name")
@options.namespace
@options.cluster
@options.yes
@options.output("table", "json", "yaml", "name")
@options.quiet
def cancel(*, name: str, namespace: str, yes: bool, output: str, **where: Any) -> int:
    """Cancel a training job: delete it with its pods."""

    async def work(client: Client) -> dict[str, Any]:
        from sliceworks.training import lifecycle

        result = await train_client.find_jobset(client, name, client.namespace)
        options.confirm(f"Cancel {name} in {client.namespace}?", yes)
        await lifecycle.cancel(client, result)
        return result

    result = train_client.run(work, namespace, where)
    if output in ("json", "yaml"):
        print_object(result, output)
    else:
        click.echo(f"jobset/{name}" if output == "name" else f"jobset/{name} cancelled")
    return 0
