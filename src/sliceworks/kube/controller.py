"""A level-triggered reconcile loop: watches enqueue keys, workers reconcile them.

A reconcile has one of three outcomes, by type:

    Done()                           the object is in its desired state
    Pending(message, requeue_after)  not yet; requeued after some seconds, or when a watched object changes
    Failed(message)                  cannot succeed until the object changes; not retried before that

A raised error is temporary (requeued with backoff) unless its type means that the same request will always fail.
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
from sliceworks.kube.workqueue import WorkQueue, run_worker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from sliceworks.base.retry import Backoff
    from sliceworks.kube.informers import Delta, Informer

    Mapper: TypeAlias = Callable[[Delta], Iterable[Key]]
    Reconcile: TypeAlias = Callable[[Key], Awaitable["Outcome"]]

_PERMANENT = (BadRequest, Invalid, InvalidDocument, MethodNotAllowed, RequestEntityTooLarge, UnsupportedMediaType)


@dataclass(frozen=True, slots=True)
class Done:
    """The object is in its desired state."""


@dataclass(frozen=True, slots=True)
class Pending:
    """Not yet. Without `requeue_after`, only a change of a watched object requeues it."""

    message: str = ""
    requeue_after: float | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """Cannot succeed until the object changes."""

    message: str


Outcome: TypeAlias = Done | Pending | Failed


def same_object(delta: Delta) -> Iterable[Key]:
    """The default mapper: a change enqueues the changed object."""
    return (key_of(delta.object),)


class Controller:
    """Workers that reconcile the keys of one queue, each key by one worker at a time."""

    def __init__(self, name: str, reconcile: Reconcile, *, workers: int = 1, backoff: Backoff | None = None) -> None:
        self.name = name
        self.queue: WorkQueue[Key] = WorkQueue(backoff)
        self.outcomes: dict[Key, Outcome] = {}
        self._reconcile = reconcile
        self._workers = workers
        self._informers: list[Informer] = []
        self._log = logging.getLogger(f"{__name__}.{name}")

    def watch(self, informer: Informer, mapper: Mapper = same_object, *, resync: float = 0.0) -> None:
        """Enqueue the keys that `mapper` returns for each change of this informer."""

        def enqueue(delta: Delta) -> None:
            for key in mapper(delta):
                self.queue.add(key)

        informer.add_handler(enqueue, resync=resync)
        self._informers.append(informer)

    async def run(self) -> None:
        """Reconcile until cancelled, starting when all caches are synced.

        It can be run again; keys of changes in between are queued.
        """
        for informer in self._informers:
            await informer.wait_synced()
        async with asyncio.TaskGroup() as group:
            for number in range(self._workers):
                group.create_task(run_worker(self.queue, self._reconcile_key, self._on_error), name=f"{self.name} {number}")

    async def _reconcile_key(self, key: Key) -> None:
        self._record(key, await self._reconcile(key))

    def _record(self, key: Key, outcome: Outcome) -> None:
        if isinstance(outcome, Done):
            self.outcomes.pop(key, None)
            return
        self.outcomes[key] = outcome
        if isinstance(outcome, Pending) and outcome.requeue_after is not None:
            self.queue.add_after(key, outcome.requeue_after)
        elif isinstance(outcome, Failed):
            self._log.warning("%s: %s", key, outcome.message)

    def _on_error(self, key: Key, error: Exception) -> None:
        if isinstance(error, _PERMANENT):
            self.queue.forget(key)
            self._record(key, Failed(str(error)))
            return
        if not isinstance(error, SliceworksError):
            self._log.error("%s: unexpected error; requeuing in %.1f s", key, self.queue.add_rate_limited(key), exc_info=error)
            return
        at_least = (error.retry_after or 0.0) if isinstance(error, ApiError) else 0.0
        seconds = self.queue.add_rate_limited(key, at_least)
        # A conflict only means that another client wrote first; the next reconcile reads the new version.
        level = logging.DEBUG if isinstance(error, Conflict) else logging.WARNING
        self._log.log(level, "%s: %s; requeuing in %.1f s", key, error, seconds)
