"""Fault drill: kills programs of a rehearsal at random, in the middle of their requests, and restarts them without state.

Work takes no virtual time, so at any clock time every program is idle. The drill therefore kills a program when it is about to send
its n-th request after a random time.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from random import Random
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.loops import VirtualLoop
from sliceworks.platform.controller_host import list_restartables
from sliceworks.rehearsal.record import Outage
from sliceworks.twin.controllers.manager import current_component

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from sliceworks.platform.controller_host import Restartable
    from sliceworks.twin.cluster import Cluster

DEFAULT_INTERVAL = 300.0
"""Default mean number of seconds between outages."""
_MAX_DOWNTIME, _PICK_TIMEOUT, _MAX_REQUESTS = 30.0, 600.0, 10
_PROPAGATION = 60.0
"""Seconds until a new service account can be used, in a drill."""


class Drill:
    """Kills a program about every `every` seconds, chosen by `seed`; `outages` lists them."""

    def __init__(self, every: float, seed: int) -> None:
        self.outages: list[Outage] = []
        self._every, self._random = every, Random(f"drill {seed}")
        self._targets: frozenset[str] = frozenset()
        self._requests_left, self._victim = 0, ""
        self._victim_chosen = asyncio.Event()

    async def between(self) -> None:
        """Hook before every request to the cluster; blocks the program that is about to be killed."""
        component = current_component.get()
        if component and component == self._victim:
            await _block_forever()
        if component not in self._targets or _is_held():
            return
        self._requests_left -= 1
        if self._requests_left <= 0:
            self._victim, self._targets = component, frozenset()
            self._victim_chosen.set()
            await _block_forever()

    @asynccontextmanager
    async def active(self, cluster: Cluster, others: Callable[[], Sequence[Restartable]]) -> AsyncIterator[None]:
        """Kill programs of the twin, and `others` that run beside it, while the context is open."""
        cluster.cloud.services["iam"].configure({"propagationSeconds": _PROPAGATION})
        task = asyncio.create_task(self._run(cluster, others), name="drill")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self._victim, self._targets = "", frozenset()

    async def _run(self, cluster: Cluster, others: Callable[[], Sequence[Restartable]]) -> None:
        begin = clock.loop_time()
        while True:
            await clock.sleep(self._every * self._random.uniform(0.5, 1.5))
            victim, was_busy = await self._pick_victim([*list_restartables(cluster), *others()])
            died = clock.loop_time()
            await victim.kill()
            self._victim = ""
            # Half restart at once, like a container; the others after a delay, like a rescheduled pod.
            await clock.sleep(self._random.choice((0.0, self._random.uniform(1.0, _MAX_DOWNTIME))))
            await victim.restart()
            self.outages.append(Outage(victim.name, died - begin, clock.loop_time() - died, was_busy))

    async def _pick_victim(self, programs: list[Restartable]) -> tuple[Restartable, bool]:
        """The program to kill, and whether it was about to send a request; an idle program if none sends one in time."""
        chosen = self._random.choice(programs)
        self._victim_chosen.clear()
        targets = self._random.choice(([chosen], programs))
        self._requests_left, self._targets = self._random.randrange(1, _MAX_REQUESTS), frozenset(item.name for item in targets)
        try:
            async with asyncio.timeout(max(self._every, _PICK_TIMEOUT)):
                await self._victim_chosen.wait()
        except TimeoutError:
            self._targets = frozenset()
            return chosen, False
        return next(program for program in programs if program.name == self._victim), True


async def _block_forever() -> None:
    await asyncio.get_running_loop().create_future()


def _is_held() -> bool:
    """Whether real programs run: their requests have no deterministic order, so the drill pauses."""
    loop = asyncio.get_running_loop()
    return isinstance(loop, VirtualLoop) and loop.is_held
