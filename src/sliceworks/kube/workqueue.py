"""A queue of things to look at: each at most once at a time, later if asked, slower after failures. The same order every time."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Hashable
from typing import TYPE_CHECKING, Generic, TypeVar

from sliceworks.kube.backoff import Backoff

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

K = TypeVar("K", bound=Hashable)
log = logging.getLogger(__name__)
_REST = 1.0  # seconds


class ShutDown(Exception):
    """The queue has been shut down and is empty."""


class WorkQueue(Generic[K]):
    """Keys wait in the order they came. One that is added while it is worked on comes again afterwards, once."""

    def __init__(self, backoff: Backoff | None = None) -> None:
        self._backoff = backoff or Backoff(first=0.05, cap=300.0, jitter=0.0)
        self._waiting: deque[K] = deque()
        self._dirty: set[K] = set()
        self._working: set[K] = set()
        self._failures: dict[K, int] = {}
        self._timers: dict[K, tuple[float, asyncio.Handle]] = {}
        """When each is due, and what ends its waiting: uvloop's handles do not always say when."""
        self._getters: deque[asyncio.Future[None]] = deque()
        self._down = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def idle(self) -> bool:
        """Whether nothing waits now, is worked on, or is due later."""
        return not (self._waiting or self._working or self._timers)

    def add(self, key: K) -> None:
        """Look at this as soon as a worker is free."""
        if self._down or key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._working:
            self._waiting.append(key)
            self._wake()

    def add_after(self, key: K, seconds: float) -> None:
        """Look at this after a while; the earliest time asked for counts."""
        if self._down:
            return
        if seconds <= 0:
            self.add(key)
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        if key in self._timers:
            before, timer = self._timers[key]
            if before <= due:
                return
            timer.cancel()
        self._timers[key] = due, loop.call_at(due, self._due, key)

    def add_rate_limited(self, key: K, at_least: float = 0.0) -> float:
        """Look at this again after a failure: each in a row waits longer. Returns the seconds."""
        self._failures[key] = failures = self._failures.get(key, 0) + 1
        seconds = max(at_least, self._backoff.delay(failures))
        self.add_after(key, seconds)
        return seconds

    def forget(self, key: K) -> None:
        """It went well: the next failure is the first again."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """How often it failed in a row."""
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """The next key, which `done` gives back; raises ShutDown when there will be none."""
        while not self._waiting:
            if self._down:
                raise ShutDown
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if getter.done() and not getter.cancelled():
                    self._wake()  # this worker will not take what it was woken for
                raise
            finally:
                if getter in self._getters:
                    self._getters.remove(getter)
        key = self._waiting.popleft()
        self._working.add(key)
        self._dirty.discard(key)
        return key

    def done(self, key: K) -> None:
        """The work on a key has ended, well or not."""
        self._working.discard(key)
        if key in self._dirty:
            self._waiting.append(key)
            self._wake()

    def shut_down(self) -> None:
        """Take nothing more; what waits is still handed out, what is due later is dropped."""
        self._down = True
        for _, timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for getter in self._getters:
            if not getter.done():
                getter.set_result(None)

    def _due(self, key: K) -> None:
        del self._timers[key]
        self.add(key)

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return


async def work(queue: WorkQueue[K], act: Callable[[K], Awaitable[object]], failed: Callable[[K, Exception], None]) -> None:
    """One worker: acts on key after key until the queue is shut down. What `act` raises goes to `failed`, and work goes on: also
    where `failed` raises itself. Then the worker rests, as one would that is started anew, and the key comes again."""
    while True:
        try:
            key = await queue.get()
        except ShutDown:
            return
        try:
            await _attempt(queue, key, act, failed)
        except Exception:
            log.exception("the failure of %s could not be dealt with; looking again in %g s", key, _REST)
            queue.add(key)
            await asyncio.sleep(_REST)
        finally:
            queue.done(key)


async def _attempt(
    queue: WorkQueue[K], key: K, act: Callable[[K], Awaitable[object]], failed: Callable[[K, Exception], None]
) -> None:
    try:
        await act(key)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            queue.add(key)  # half done: whoever works on this queue next looks at it again
            raise
        # Not this worker was cancelled but something that it waited for: others must not be left without a worker.
        failed(key, RuntimeError("what it waited for was cancelled"))
    except Exception as error:
        failed(key, error)
    else:
        queue.forget(key)
