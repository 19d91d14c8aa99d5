"""The CPU time of the turns of an event loop."""

from __future__ import annotations

import asyncio
import gc
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import orjson
import pytest
from tests.support.embedded_twin import EmbeddedTwin

from sliceworks.base.loops import VirtualLoop

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def measured_turns() -> Iterator[list[float]]:
    """The CPU seconds of each callback of the event loop; requests to an embedded twin are tasks, as those of the HTTP server are.

    What a twin computes in a thread does not count: on the virtual clock it runs inside a callback.
    """
    measured, in_threads = list[float](), [0.0]
    run, ask = asyncio.Handle._run, cast("Any", EmbeddedTwin.ask)
    run_in_executor = cast("Any", VirtualLoop.run_in_executor)

    def measure(handle: asyncio.Handle) -> None:
        in_threads[0], start = 0.0, time.thread_time()
        run(handle)
        measured.append(time.thread_time() - start - in_threads[0])

    def measure_thread(*arguments: Any) -> Any:
        start = time.thread_time()
        try:
            return run_in_executor(*arguments)
        finally:
            in_threads[0] += time.thread_time() - start

    async def ask_in_task(*arguments: Any, **headers: str) -> tuple[int, Any]:
        answer: tuple[int, Any] = await asyncio.create_task(ask(*arguments, **headers))
        return answer

    gc.collect()
    gc.disable()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(asyncio.Handle, "_run", measure)
            patch.setattr(VirtualLoop, "run_in_executor", measure_thread)
            patch.setattr(EmbeddedTwin, "ask", ask_in_task)
            yield measured
    finally:
        gc.enable()


def work_seconds() -> float:
    """The CPU time of work that takes about 10 ms on a current machine."""

    def measure() -> float:
        start = time.thread_time()
        for _ in range(20):
            orjson.loads(orjson.dumps({str(number): [number] * 4 for number in range(1500)}))
        return time.thread_time() - start

    return max(measure() for _ in range(3))
