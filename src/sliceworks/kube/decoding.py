"""JSON into objects, fast.

Python's collector looks for garbage whenever many objects were made, and a decoded list is nothing but new objects: with it at work
a list of 5,000 pods takes two and a half times as long. Nothing is garbage while a document is decoded, so it rests meanwhile.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Callable

_WORTH_A_PAUSE = 1 << 15  # bytes


def loads(body: bytes) -> Any:
    """Decode one document."""
    if len(body) < _WORTH_A_PAUSE:
        return orjson.loads(body)
    return without_collector(orjson.loads, body)


def without_collector(call: Callable[[Any], Any], argument: Any) -> Any:
    """Call something that only makes objects, with the collector at rest."""
    if not gc.isenabled():
        return call(argument)
    gc.disable()
    try:
        return call(argument)
    finally:
        gc.enable()
