"""Python's collector of garbage, for programs that make much and leave little of it.

What a request makes is almost always gone by its end without the collector; looking for the rest after every few hundred objects
is a seventh of what a busy twin does.
"""

from __future__ import annotations

import atexit
import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_SELDOM = (20_000, 50, 100)


@contextmanager
def rested() -> Iterator[None]:
    """Look for garbage seldom, and never again among what is there already."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*_SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def rest_until_the_end() -> None:
    """The same for a process that does nothing else: at its end nothing is looked through either, it all goes together."""
    spare_what_is_there()
    gc.set_threshold(*_SELDOM)
    atexit.register(_leave)


def spare_what_is_there() -> None:
    """Never look again among what there is now: a process has read much that it will keep."""
    gc.freeze()


def look_now() -> None:
    """Look for garbage once, except among what is spared: a process that rests and lives long does so when it can afford it."""
    gc.collect()


def _leave() -> None:
    gc.disable()
    gc.freeze()
