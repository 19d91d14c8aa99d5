"""Which modules a flow crosses."""

from __future__ import annotations

import inspect
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_AWAITING = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


@contextmanager
def traced_modules(*, awaiting: bool = False) -> Iterator[set[str]]:
    """The modules of sliceworks whose functions run in the block, without the package's name.

    With `awaiting`, only those whose coroutines run: the steps that do I/O, without the pure functions that they call.
    """
    modules: set[str] = set()

    def profile(frame: FrameType, event: str, _argument: Any) -> None:
        name, code = frame.f_globals.get("__name__", ""), frame.f_code
        if event != "call" or not name.startswith("sliceworks.") or not code.co_flags & inspect.CO_OPTIMIZED:
            return  # bodies of modules and classes, which run when a module is imported, are not optimized
        if not awaiting or code.co_flags & _AWAITING:
            modules.add(name.removeprefix("sliceworks."))

    sys.setprofile(profile)
    try:
        yield modules
    finally:
        sys.setprofile(None)
