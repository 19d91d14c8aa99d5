"""The programs that a cluster's controllers run in: each is started, ended and, in a drill, killed and started anew, as a whole.

What the controllers of one program share, such as an index, is part of its memory: it is gone when the program is.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from sliceworks.twin.controllers.world import tell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sliceworks.twin.controllers.loop import Change, Controller
    from sliceworks.twin.controllers.world import Index, World

    Make = Callable[[World], tuple[Controller[Any], ...]]

log = logging.getLogger(__name__)
acting: ContextVar[str] = ContextVar("acting", default="")
"""The program that a task belongs to."""


@contextmanager
def acting_as(name: str) -> Iterator[None]:
    """Tasks that are made meanwhile belong to a program."""
    before = acting.set(name)
    try:
        yield
    finally:
        acting.reset(before)


class Program:
    """Some controllers, by the name of the program that they run in on a real cluster."""

    def __init__(self, name: str, world: World, make: Make) -> None:
        self.name = name
        self._world, self._make = world, make
        self._tasks: list[asyncio.Task[None]] = []
        self._indexes: tuple[type[Index], ...] = ()
        self.controllers: tuple[Controller[Any], ...] = ()
        self.renew()

    def renew(self) -> None:
        """Controllers and indexes that know nothing yet."""
        self._world.forget(self._indexes)
        before = self._world.indexes
        self.controllers = self._make(self._world)
        self._indexes = tuple(kind for kind in self._world.indexes if kind not in before)

    def observe(self, change: Change) -> None:
        """Hear of a change alone, without the other programs."""
        for kind in self._indexes:
            index = self._world.shared(kind)
            if change.resource in index.watches:
                tell(index, change)
        for each in self.controllers:
            if each.watches is None or change.resource in each.watches:
                tell(each, change)

    def start(self) -> None:
        """Work in tasks of the running loop."""
        with acting_as(self.name):
            self._tasks = [asyncio.create_task(each.run(), name=type(each).__name__) for each in self.controllers]
        for task in self._tasks:
            task.add_done_callback(_tell_end)

    async def kill(self) -> None:
        """End the work, wherever it has come to; what was left undone shows when it is started again."""
        for each in self.controllers:
            each.queue.shut_down()
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _tell_end(task: asyncio.Task[None]) -> None:
    """A controller ends when it is told to; one that ends by itself must not do so in silence."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("the controller %s has ended", task.get_name(), exc_info=error)
