"""A level-triggered reconcile loop: a change says only which object to look at; what to do is decided by what is.

A reconcile ends in one of three ways, by type:

    Done()                  everything is as it should be
    Pending(why, after)     not yet: look again after some seconds, or when something changes
    Failed(why)             it cannot work until the object changes; nobody tries again before that

A raised error is temporary (looked at again, each time later) unless its type says that the same call will always fail.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from sliceworks.base.errors import (
    ApiError,
    BadRequest,
    Conflict,
    Invalid,
    InvalidDocument,
    MethodNotAllowed,
    RequestEntityTooLarge,
    SliceworksError,
    UnsupportedMediaType,
)
from sliceworks.kube.resources import Key, key_of
from sliceworks.kube.workqueue import WorkQueue, work

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from sliceworks.kube.backoff import Backoff
    from sliceworks.kube.informers import Delta, Informer

    Mapper: TypeAlias = Callable[[Delta], Iterable[Key]]

_LASTING = (BadRequest, Invalid, InvalidDocument, MethodNotAllowed, RequestEntityTooLarge, UnsupportedMediaType)


@dataclass(frozen=True, slots=True)
class Done:
    """Everything is as it should be."""


@dataclass(frozen=True, slots=True)
class Pending:
    """Not yet. Without `after`, only a change brings it up again."""

    why: str = ""
    after: float | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """It cannot work until the object changes."""

    why: str


Outcome: TypeAlias = Done | Pending | Failed
if TYPE_CHECKING:
    Reconcile: TypeAlias = Callable[[Key], Awaitable[Outcome]]


def same_object(delta: Delta) -> Iterable[Key]:
    """A change of an object brings up that object."""
    return (key_of(delta.object),)


class Controller:
    """Workers that take keys from one queue and reconcile them, never one key twice at a time."""

    def __init__(self, name: str, reconcile: Reconcile, *, workers: int = 1, backoff: Backoff | None = None) -> None:
        self.name = name
        self.queue: WorkQueue[Key] = WorkQueue(backoff)
        self.outcomes: dict[Key, Outcome] = {}
        self._reconcile = reconcile
        self._workers = workers
        self._informers: list[Informer] = []
        self._log = logging.getLogger(f"{__name__}.{name}")

    def watch(self, informer: Informer, mapper: Mapper = same_object, *, resync: float = 0.0) -> None:
        """Changes that this informer tells of bring up the keys that `mapper` names."""

        def enqueue(delta: Delta) -> None:
            for key in mapper(delta):
                self.queue.add(key)

        informer.add_handler(enqueue, resync=resync)
        self._informers.append(informer)

    async def run(self) -> None:
        """Work until cancelled; nothing is reconciled before every cache is filled.

        It can be run again: what has changed meanwhile waits in the queue.
        """
        for informer in self._informers:
            await informer.wait_synced()
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                group.create_task(work(self.queue, self._look_at, self._failed), name=f"{self.name} {number}")

    async def _look_at(self, key: Key) -> None:
        self._ended(key, await self._reconcile(key))

    def _ended(self, key: Key, outcome: Outcome) -> None:
        if isinstance(outcome, Done):
            self.outcomes.pop(key, None)
            return
        self.outcomes[key] = outcome
        if isinstance(outcome, Pending) and outcome.after is not None:
            self.queue.add_after(key, outcome.after)
        elif isinstance(outcome, Failed):
            self._log.warning("%s: %s", key, outcome.why)

    def _failed(self, key: Key, error: Exception) -> None:
        if isinstance(error, _LASTING):
            self.queue.forget(key)
            self._ended(key, Failed(str(error)))
            return
        if not isinstance(error, SliceworksError):
            self._log.error("%s: a bug; looking again in %.1f s", key, self.queue.add_rate_limited(key), exc_info=error)
            return
        at_least = (error.retry_after or 0.0) if isinstance(error, ApiError) else 0.0
        seconds = self.queue.add_rate_limited(key, at_least)
        # A conflict only says that somebody was faster; looking again settles it.
        level = logging.DEBUG if isinstance(error, Conflict) else logging.WARNING
        self._log.log(level, "%s: %s; looking again in %.1f s", key, error, seconds)
