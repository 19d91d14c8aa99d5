"""A fault drill: the programs of a rehearsal die at random, in the middle of what they do, and come back knowing nothing.

In virtual time work takes no time: any moment of the clock would find everybody at rest. So a death strikes when its victim, from
some moment on, is about to make its first, second or tenth request.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.twin.controllers.programs import acting

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from sliceworks.rehearsal.day.record import Death
    from sliceworks.twin.cluster import Cluster
    from sliceworks.twin.controllers.programs import Program

EVERY = 300.0
"""Seconds from one death to the next, unless somebody says otherwise."""
_DOWN, _PATIENCE, _REQUESTS = 30.0, 600.0, 10


@dataclass(frozen=True, slots=True)
class Mortal:
    """Something that can be killed and started again. Its tasks act by its name."""

    name: str
    kill: Callable[[], Awaitable[None]]
    revive: Callable[[], Awaitable[None]]


def mortals(cluster: Cluster) -> list[Mortal]:
    """The programs of a twin's own: its controllers, its scheduler, JobSet, Kueue, and what plays the nodes."""
    from sliceworks.twin.cluster import NODES

    def of(program: Program) -> Mortal:
        async def revive() -> None:
            cluster.controllers.revive(program)

        return Mortal(program.name, program.kill, revive)

    return [*map(of, cluster.controllers.programs), Mortal(NODES, cluster.kill_nodes, cluster.revive_nodes)]


class Drill:
    """Somebody dies every so many seconds; the same seed kills the same ones. `deaths` tells of all that were."""

    def __init__(self, every: float, seed: int) -> None:
        self.deaths: list[Death] = []
        self._every, self._random = every, Random(f"drill {seed}")
        self._doomed: frozenset[str] = frozenset()
        self._left, self._struck = 0, ""
        self._dying = asyncio.Event()

    async def between(self) -> None:
        """What every request to the cluster has to pass: who is to die now gets no further."""
        who = acting.get()
        if who == self._struck and who:
            await _never()
        if who not in self._doomed or _is_held():
            return
        self._left -= 1
        if self._left <= 0:
            self._struck, self._doomed = who, frozenset()
            self._dying.set()
            await _never()

    @asynccontextmanager
    async def going_on(self, cluster: Cluster, others: Callable[[], Sequence[Mortal]]) -> AsyncIterator[None]:
        """Let programs of a twin die, and `others` that run beside it at the time."""
        task = asyncio.create_task(self._run(cluster, others), name="drill")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self, cluster: Cluster, others: Callable[[], Sequence[Mortal]]) -> None:
        from sliceworks.rehearsal.day.record import Death  # every twin that starts loads this module, and few have a drill

        begin = clock.loop_time()
        while True:
            await clock.sleep(self._every * self._random.uniform(0.5, 1.5))
            victim, at_work = await self._caught([*mortals(cluster), *others()])
            died = clock.loop_time()
            await victim.kill()
            self._struck = ""
            # Half of them are back at once, as a container is that is restarted; the others as one that has to be placed anew.
            await clock.sleep(self._random.choice((0.0, self._random.uniform(1.0, _DOWN))))
            await victim.revive()
            self.deaths.append(Death(victim.name, died - begin, clock.loop_time() - died, at_work))

    async def _caught(self, among: list[Mortal]) -> tuple[Mortal, bool]:
        """Who is about to make some request: now one who was chosen, now whoever is at work. Somebody at rest, if nobody is."""
        chosen = self._random.choice(among)
        self._dying.clear()
        doomed = self._random.choice(([chosen], among))
        self._left, self._doomed = self._random.randrange(1, _REQUESTS), frozenset(each.name for each in doomed)
        try:
            async with asyncio.timeout(max(self._every, _PATIENCE)):
                await self._dying.wait()
        except TimeoutError:
            self._doomed = frozenset()
            return chosen, False
        return next(each for each in among if each.name == self._struck), True


async def _never() -> None:
    await asyncio.get_running_loop().create_future()


def _is_held() -> bool:
    """Whether something real is under way: what happens then has no order, and nobody dies of it."""
    loop = asyncio.get_running_loop()
    return isinstance(loop, clock.VirtualLoop) and loop.is_held
