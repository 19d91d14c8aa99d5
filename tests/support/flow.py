"""Which modules a flow crosses."""

from __future__ import annotations

import gc
import inspect
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

_AWAITING = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_MODULE_BODY = "<module>"


@contextmanager
def traced_modules(*, awaiting: bool = False) -> Iterator[set[str]]:
    """The modules of sliceworks whose functions run in the block, without the package's name.

    With `awaiting`, only those whose coroutines run: the steps that do I/O, without the pure functions that they call.

    The result does not depend on what ran earlier in the process: what an import runs (class bodies, decorators, comprehensions)
    does not count, and generators that an earlier test left are closed before the block.
    """
    modules: set[str] = set()
    imports = 0

    def profile(frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal imports
        code = frame.f_code
        if code.co_name == _MODULE_BODY:
            imports += {"call": 1, "return": -1}.get(event, 0)
        if event != "call" or imports or not code.co_flags & inspect.CO_OPTIMIZED:
            return  # bodies of classes are not optimized
        name = frame.f_globals.get("__name__", "")
        if name.startswith("sliceworks.") and (not awaiting or code.co_flags & _AWAITING):
            modules.add(name.removeprefix("sliceworks."))

    gc.collect()
    gc.disable()
    sys.setprofile(profile)
    try:
        yield modules
    finally:
        sys.setprofile(None)
        gc.enable()
