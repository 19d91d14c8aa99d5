"""Polls for a condition until a deadline; never waits for a fixed time."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")
PATIENCE = 90.0
"""Timeout in seconds, generous because the machine may be busy."""

_pauses: list[Callable[[float], None]] = [time.sleep]


@contextmanager
def on_clock(pause: Callable[[float], None]) -> Iterator[None]:
    """Call `pause` instead of sleeping between polls: it lets that many seconds pass on the clock of the polled cluster."""
    _pauses.append(pause)
    try:
        yield
    finally:
        _pauses.pop()


def pass_time(seconds: float) -> None:
    """Let this much time pass on the clock of the polled cluster."""
    _pauses[-1](seconds)


def passes_quickly() -> bool:
    """Whether `pass_time` takes less time than it lets pass."""
    return _pauses[-1] is not time.sleep


def eventually(look: Callable[[], T | None], seconds: float = PATIENCE, what: str = "") -> T:
    """The first truthy value that `look` returns; an AssertionError inside it counts as "not yet"."""
    deadline, pause = time.monotonic() + seconds, 0.005
    last: AssertionError | None = None
    while True:
        try:
            if value := look():
                return value
        except AssertionError as error:
            last = error
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:.0f} s: {what or look.__doc__ or look}") from last
        pass_time(pause)
        pause = min(pause * 1.5, 0.2)
