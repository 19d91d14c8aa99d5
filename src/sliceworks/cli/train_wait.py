"""`sliceworks train wait`, and `submit --wait`: a moving line on a terminal, a line for each change elsewhere."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base import clock, progress
from sliceworks.base.errors import SliceworksError, TimedOut
from sliceworks.cli import options, train_cluster

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.kube import Client

Object = dict[str, Any]


@click.command("wait")
@click.argument("name")
@click.option(
    "--until", type=click.Choice(["running", "finished"]), default="finished", show_default=True, help="What to wait for."
)
@click.option("--timeout", type=options.DURATION, help="How long, before exit code 3.  [default: no limit]")
@options.namespace
@options.cluster
@options.quiet
def wait(*, name: str, until: str, timeout: float | None, namespace: str, **where: Any) -> int:
    """Wait for a training job that is already submitted. Exit code 1 when it fails, 3 when time runs out."""

    async def work(client: Client) -> None:
        await wait_for(client, await train_cluster.find_jobset(client, name, client.namespace), until, timeout)

    train_cluster.run(work, namespace, where)
    return 0


async def wait_for(client: Client, jobset: Object, until: str, timeout: float | None) -> None:
    """Wait until a job runs or has finished. One that failed or went away is an error; so is a time that ran out."""
    name, namespace = jobset["metadata"]["name"], jobset["metadata"]["namespace"]
    with progress.working(f"Waiting until {name} {'runs' if until == 'running' else 'has finished'}") as step:
        try:
            await watch_until(client, jobset, until, timeout, _teller(name, step))
        except asyncio.CancelledError:
            progress.say(f"{name} goes on without you: sliceworks train show {name} -n {namespace}")
            raise


async def watch_until(client: Client, jobset: Object, until: str, timeout: float | None, tell: Callable[[str], None]) -> None:
    """Follow a job to where it is wanted."""
    from sliceworks.cli.train_follow import follow
    from sliceworks.training.stages import line
    from sliceworks.training.states import state

    name, last = jobset["metadata"]["name"], ""
    try:
        async with asyncio.timeout(timeout), follow(client, jobset) as follower, aclosing(follower.pictures()) as pictures:
            async for picture in pictures:
                now = line(picture.jobset, picture.workload, picture.pods)
                if now != last:
                    tell(now)
                last, word = now, state(picture.jobset)
                if word == "failed":
                    namespace = jobset["metadata"]["namespace"]
                    raise SliceworksError(f"{name} {now}", hint=f"sliceworks train logs {name} -n {namespace}")
                if word == "completed" or (word == until and not picture.gone):
                    return
                if picture.gone:
                    raise SliceworksError(f"{name} was removed while it was waited for", hint="somebody cancelled it")
    except TimeoutError as error:
        raise TimedOut(
            f"{name} is not {until} after {timeout:g} seconds: {last}", hint="it goes on: train show, train why"
        ) from error


def _teller(name: str, step: Callable[[str], None]) -> Callable[[str], None]:
    """On a terminal the line moves; in a log each change is a line with its time."""
    if progress.lively():
        return step
    return lambda text: progress.say(f"{clock.timestamp()} {name} {text}")
