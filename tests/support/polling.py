"""Polls for a condition until a deadline; never waits for a fixed time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
PATIENCE = 90.0
"""Timeout in seconds, generous because the machine may be busy."""


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
        time.sleep(pause)
        pause = min(pause * 1.5, 0.2)
