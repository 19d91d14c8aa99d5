"""A work queue: each key at most once at a time, delayed adds, rate-limited retries, deterministic order."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Hashable
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from sliceworks.base.retry import Backoff

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

K = TypeVar("K", bound=Hashable)
log = logging.getLogger(__name__)
_WORKER_PAUSE = 1.0  # seconds


class ShutDown(Exception):
    """The queue has been shut down and is empty."""


class QueueStatus(NamedTuple):
    """The number of waiting keys, and the key that has been processed longest with its seconds."""

    depth: int = 0
    longest_running: float = 0.0
    key: str = ""


class WorkQueue(Generic[K]):
    """Keys in the order they were added. A key that is added while it is processed is processed once more afterwards."""

    def __init__(self, backoff: Backoff | None = None) -> None:
        self._backoff = backoff or Backoff(first=0.05, cap=300.0, jitter=0.0)
        self._queue: deque[K] = deque()
        self._dirty: set[K] = set()
        self._processing: dict[K, float] = {}
        """The time at which each key was taken, the earliest first."""
        self._failures: dict[K, int] = {}
        self._timers: dict[K, tuple[float, asyncio.Handle]] = {}
        """Due time and handle of each delayed key; handles of uvloop do not always have `when`."""
        self._getters: deque[asyncio.Future[None]] = deque()
        self._shut_down = False

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def idle(self) -> bool:
        """Whether no key is queued, processed or delayed."""
        return not (self._queue or self._processing or self._timers)

    def status(self) -> QueueStatus:
        """What metrics and health probes report."""
        for key, started in self._processing.items():
            return QueueStatus(len(self._queue), asyncio.get_running_loop().time() - started, str(key))
        return QueueStatus(len(self._queue))

    def add(self, key: K) -> None:
        """Process this key as soon as a worker is free."""
        if self._shut_down or key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._processing:
            self._queue.append(key)
            self._wake_worker()

    def add_after(self, key: K, seconds: float) -> None:
        """Add the key after a delay; of several delays the earliest counts."""
        if self._shut_down:
            return
        if seconds <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        if key in self._timers:
            current_due, timer = self._timers[key]
            if current_due <= due:
                return
            timer.cancel()
        self._timers[key] = due, loop.call_at(due, self._on_due, key)

    def add_rate_limited(self, key: K, at_least: float = 0.0) -> float:
        """Add the key again after a failure, with a delay that grows with each failure in a row; returns the delay in seconds."""
        self._failures[key] = failures = self._failures.get(key, 0) + 1
        seconds = max(at_least, self._backoff.delay(failures))
        self.add_after(key, seconds)
        return seconds

    def forget(self, key: K) -> None:
        """Reset the failures of a key."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """The next key; call `done` when it is processed. Raises ShutDown when the queue is shut down and empty."""
        while not self._queue:
            if self._shut_down:
                raise ShutDown
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if getter.done() and not getter.cancelled():
                    self._wake_worker()  # pass the wake-up on, as this worker is cancelled
                raise
            finally:
                if getter in self._getters:
                    self._getters.remove(getter)
        key = self._queue.popleft()
        self._processing[key] = asyncio.get_running_loop().time()
        self._dirty.discard(key)
        return key

    def done(self, key: K) -> None:
        """Mark a key as processed, successfully or not."""
        self._processing.pop(key, None)
        if key in self._dirty:
            self._queue.append(key)
            self._wake_worker()

    def shut_down(self) -> None:
        """Accept no more keys. Queued keys are still returned, delayed ones are dropped."""
        self._shut_down = True
        for _, timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for getter in self._getters:
            if not getter.done():
                getter.set_result(None)

    def _on_due(self, key: K) -> None:
        del self._timers[key]
        self.add(key)

    def _wake_worker(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return


async def run_worker(
    queue: WorkQueue[K], process: Callable[[K], Awaitable[object]], on_error: Callable[[K, Exception], None]
) -> None:
    """Process keys until the queue is shut down. Errors of `process` are passed to `on_error`. If that raises too, the key is added
    again and the worker pauses."""
    while True:
        try:
            key = await queue.get()
        except ShutDown:
            return
        try:
            await _process(queue, key, process, on_error)
        except Exception:
            log.exception("error handler failed for %s; requeuing in %g s", key, _WORKER_PAUSE)
            queue.add(key)
            await asyncio.sleep(_WORKER_PAUSE)
        finally:
            queue.done(key)


async def _process(
    queue: WorkQueue[K], key: K, process: Callable[[K], Awaitable[object]], on_error: Callable[[K, Exception], None]
) -> None:
    try:
        await process(key)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            queue.add(key)  # partly processed: the next worker starts over
            raise
        # Not this worker but a task that it awaited was cancelled: keep the worker running.
        on_error(key, RuntimeError("a task it was waiting for was cancelled"))
    except Exception as error:
        on_error(key, error)
    else:
        queue.forget(key)
