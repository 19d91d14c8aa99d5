"""CPU and memory budgets of work, on the event loop or in a thread: beyond them it raises BudgetExceeded."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import coroutine
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator
    from types import FrameType

T = TypeVar("T")
_TICK = 0.05
"""CPU seconds between two checks: code that swallows the first exception gets another one."""
_SWITCH_SECONDS = 0.001
"""How long the worker delays the event loop each time that the loop has waited: several times in a health check."""
_UNLIMITED = float("inf")


class BudgetExceeded(BaseException):
    """The current piece of work used up its CPU time or memory. Not an Exception: no handler of expected errors may swallow it."""

    def __init__(self, resource: str = "CPU") -> None:
        super().__init__(resource)
        self.resource = resource


class MemoryBudgetExceeded(BudgetExceeded):
    """The current piece of work used up its memory. Without arguments, as an exception that is raised in another thread must be."""

    def __init__(self) -> None:
        super().__init__("memory")


class _Budget:
    is_installed = is_running = False
    seconds = memory = _UNLIMITED
    """What the current piece of work has left of its CPU time, and the resident memory of the process that it may reach."""


_budget = _Budget()


def install() -> None:
    """Enable budgets; call it in the main thread. Without it, work is unlimited."""
    signal.signal(signal.SIGVTALRM, _interrupt)
    _budget.is_installed = True


def uninstall() -> None:
    """Disable budgets."""
    _budget.is_installed = False
    end()
    signal.signal(signal.SIGVTALRM, signal.SIG_DFL)


def end() -> None:
    """End the current budget: call it before a change that must not be left half done."""
    if _budget.is_running:
        _budget.is_running = False
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


@coroutine
def limited(work: Coroutine[Any, Any, T], seconds: float, memory: float = _UNLIMITED) -> Generator[Any, Any, T]:
    """Await `work` with this CPU time and memory for each of its steps between two suspensions.

    `memory` is the number of bytes by which the process may grow (Linux only), counted from the first check.
    """
    if not _budget.is_installed:
        return (yield from work.__await__())
    step: Any = work.send
    argument: Any = None
    while True:
        _budget.is_running, _budget.seconds, _budget.memory = True, seconds, -memory
        signal.setitimer(signal.ITIMER_VIRTUAL, min(_TICK, seconds), _TICK)
        try:
            waiting = step(argument)
        except StopIteration as done:
            value: T = done.value
            return value
        finally:
            end()
        try:
            argument = yield waiting
            step = work.send
        except BaseException as error:
            step, argument = work.throw, error


_worker = ThreadPoolExecutor(1, "sliceworks-worker", initializer=partial(sys.setswitchinterval, _SWITCH_SECONDS))
"""One thread: the event loop gets at least half of a core, however many large requests wait."""


async def run_in_thread(function: Callable[[], T], seconds: float = _UNLIMITED, memory: float = _UNLIMITED) -> T:
    """Call a function that changes nothing others read, with this CPU time and memory; the event loop runs meanwhile.

    Python switches between both every millisecond. On a virtual clock the function runs at once, in the thread of the loop.
    """
    return await asyncio.get_running_loop().run_in_executor(_worker, _call_limited, function, seconds, memory)


LARGE_BYTES = 128 * 1024
BYTES_PER_TURN = 512 * 1024
"""Of objects that are decoded or encoded before the event loop runs."""
_LARGE_SECONDS, _LARGE_MEMORY = 3.0, 1 << 30


async def run_by_size(size: int, function: Callable[[], T]) -> T:
    """Call a function that reads this many bytes and changes nothing others read: in a thread, if they are many."""
    return function() if size < LARGE_BYTES else await run_in_thread(function, _LARGE_SECONDS, _LARGE_MEMORY)


class Steps:
    """Lets the event loop run while many or large objects are inspected."""

    def __init__(self) -> None:
        self._done = 0

    async def take(self, size: int) -> None:
        """Count work; let the event loop run if this turn has done enough."""
        self._done += size
        if self._done > BYTES_PER_TURN:
            self._done = 0
            await asyncio.sleep(0)


def _call_limited(function: Callable[[], T], seconds: float, memory: float) -> T:
    if not _budget.is_installed or threading.current_thread() is threading.main_thread():
        return function()
    limit = _ThreadLimit(seconds, memory)
    limit.start()
    try:
        return function()
    finally:
        limit.end()


class _ThreadLimit(threading.Thread):
    """Raises BudgetExceeded in the thread that created it, if that exceeds its budget before it calls `end`."""

    def __init__(self, seconds: float, memory: float) -> None:
        super().__init__(name="sliceworks-worker-limit", daemon=True)
        self._thread = threading.get_ident()
        self._seconds, self._memory = _cpu_seconds(self._thread) + seconds, resident_bytes() + memory
        self._changing, self._ended = threading.Lock(), threading.Event()

    def run(self) -> None:
        while not self._ended.wait(_TICK):
            if _cpu_seconds(self._thread) > self._seconds:
                self._raise(BudgetExceeded)
            elif resident_bytes() > self._memory:
                self._raise(MemoryBudgetExceeded)

    def _raise(self, error: type[BudgetExceeded]) -> None:
        import ctypes

        with self._changing:
            if not self._ended.is_set():
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), ctypes.py_object(error))

    def end(self) -> None:
        with self._changing:
            self._ended.set()
        for _ in range(2):
            pass  # Python raises a pending exception here at the latest, and none comes after it


def _cpu_seconds(thread: int) -> float:
    """The CPU time of a thread; real time where the system does not report it."""
    if hasattr(time, "pthread_getcpuclockid"):
        return time.clock_gettime(time.pthread_getcpuclockid(thread))
    return time.monotonic()


def _interrupt(number: int, frame: FrameType | None) -> None:
    if not _budget.is_running:
        return
    _budget.seconds -= _TICK
    if _budget.seconds <= 0:
        raise BudgetExceeded
    if _budget.memory < 0:
        _budget.memory = resident_bytes() - _budget.memory
    elif resident_bytes() > _budget.memory:
        raise MemoryBudgetExceeded


def resident_bytes() -> int:
    """The resident memory of this process; 0 if the system does not report it."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
