"""CPU and memory budgets of work on the event loop: beyond them it raises BudgetExceeded instead of blocking the process."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import coroutine
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator
    from types import FrameType

T = TypeVar("T")
_TICK = 0.05
"""CPU seconds between two checks: code that swallows the first exception gets another one."""
_UNLIMITED = float("inf")


class BudgetExceeded(BaseException):
    """The current piece of work used up its CPU time or memory. Not an Exception: no handler of expected errors may swallow it."""

    def __init__(self, resource: str) -> None:
        super().__init__(resource)
        self.resource = resource


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


def _interrupt(number: int, frame: FrameType | None) -> None:
    if not _budget.is_running:
        return
    _budget.seconds -= _TICK
    if _budget.seconds <= 0:
        raise BudgetExceeded("CPU")
    if _budget.memory < 0:
        _budget.memory = resident_bytes() - _budget.memory
    elif resident_bytes() > _budget.memory:
        raise BudgetExceeded("memory")


def resident_bytes() -> int:
    """The resident memory of this process; 0 if the system does not report it."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
