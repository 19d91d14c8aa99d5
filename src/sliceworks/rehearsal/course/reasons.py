"""Why jobs wait, in words: each is asked about a little after it began to, as `train why` would."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sliceworks.kube.client import Client
    from sliceworks.rehearsal.course.jobs import Jobs

_EVERY = 30.0
_AT_A_TIME = 20  # of a crowd that waits, so many are asked about each time


@asynccontextmanager
async def asking(client: Client, jobs: Jobs) -> AsyncIterator[None]:
    """Ask for as long as the day lasts."""
    task = asyncio.create_task(_ask(client, jobs), name="why")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _ask(client: Client, jobs: Jobs) -> None:
    from sliceworks.training.why.explain import explain
    from sliceworks.training.why.gather import gather

    while True:
        await clock.sleep(_EVERY)
        for namespace, name in jobs.unexplained()[:_AT_A_TIME]:
            try:
                answer = explain(await gather(client, namespace, name))
            except SliceworksError:
                continue  # it is gone, or is about to be
            if answer.causes:
                jobs.explain(namespace, name, answer.causes[0].words)
