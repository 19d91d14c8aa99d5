"""Memory tuning of a process: Python's garbage collector and the C allocator."""

from __future__ import annotations

import atexit
import contextlib
import gc
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

A = TypeVar("A")
R = TypeVar("R")

_REDUCED_THRESHOLD = (20_000, 50, 100)


@contextmanager
def reduced_gc() -> Iterator[None]:
    """Collect garbage rarely inside the block, and exempt the objects that exist now.

    No effect where collections are rare already: the end of the block would no longer exempt what an outer block exempts.
    """
    threshold = gc.get_threshold()
    if threshold[0] >= _REDUCED_THRESHOLD[0]:
        yield
        return
    gc.freeze()
    gc.set_threshold(*_REDUCED_THRESHOLD)
    try:
        yield
    finally:
        gc.set_threshold(*threshold)
        gc.unfreeze()


def reduce_gc_until_exit() -> None:
    """Like `reduced_gc` for the rest of the process; also skips the collection at interpreter shutdown."""
    gc.freeze()
    gc.set_threshold(*_REDUCED_THRESHOLD)
    atexit.register(_disable_gc)


def call_without_gc(function: Callable[[A], R], argument: A) -> R:
    """Call a function that only creates objects, with automatic garbage collection off meanwhile."""
    if not gc.isenabled():
        return function(argument)
    gc.disable()
    try:
        return function(argument)
    finally:
        gc.enable()


def exact_size(data: bytes) -> bytes:
    """A copy without spare memory, for long-lived results of `orjson.dumps`, each of which occupies at least 4 KB."""
    return bytes(memoryview(data))


def _disable_gc() -> None:
    gc.disable()
    gc.freeze()


_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
_RETAINED_BYTES = 64 * 1024 * 1024
_MMAP_BYTES = 4 * 1024 * 1024
"""Larger blocks are mapped outside the heap and returned to the system when freed."""


def retain_freed_memory() -> bool:
    """Let the C allocator keep freed memory for reuse; False if the C library does not support it."""
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        settings = ((_M_TRIM_THRESHOLD, _RETAINED_BYTES), (_M_MMAP_THRESHOLD, _MMAP_BYTES), (_M_TOP_PAD, 1024 * 1024))
        results = [mallopt(*setting) for setting in settings]
        return all(results)
    return False
