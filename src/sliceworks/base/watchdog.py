"""A watchdog of the event loop: reports the stack, the request and the object of work that blocks it; restarts the process."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType

log = logging.getLogger("sliceworks.watchdog")
_INTERVAL, _LIMIT = 1.0, 5.0
_MAX_FRAMES = 30
EXIT_STATUS = 75
"""Of a process whose loop stays blocked: EX_TEMPFAIL of sysexits.h, so that its supervisor can tell it from other failures."""


def exit_process() -> None:
    """End this process at once, so that its supervisor restarts it."""
    os._exit(EXIT_STATUS)


def replace_process(command: list[str]) -> None:
    """Run a command instead of this process, with the same process ID."""
    signal.setitimer(signal.ITIMER_VIRTUAL, 0)  # a new program inherits timers
    os.execv(command[0], command)


class Watchdog:
    """Asks the running loop for a sign of life every `interval` seconds, and calls `report` if none comes within `limit`.

    One stall is reported once, and once more when it is over. If it takes `timeout` seconds (0: any time), `restart` is called.
    All are real seconds, whatever the speed of the loop's clock.
    """

    def __init__(
        self,
        *,
        interval: float = _INTERVAL,
        limit: float = _LIMIT,
        timeout: float = 0.0,
        report: Callable[[str], None] = log.error,
        restart: Callable[[], None] = exit_process,
    ) -> None:
        self._interval, self._limit, self._timeout = interval, min(limit, timeout or limit), timeout
        self._report, self._restart = report, restart
        self._stopping, self._alive = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        watched = (asyncio.get_running_loop(), threading.get_ident())
        self._thread = threading.Thread(target=self._watch, args=watched, name="watchdog", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stopping.set()
        self._alive.set()  # the loop's thread waits here, so a sign of life that is under way cannot come
        if self._thread is not None:
            self._thread.join()

    def _watch(self, loop: asyncio.AbstractEventLoop, thread: int) -> None:
        while not self._stopping.wait(self._interval):
            since = time.monotonic()
            self._alive.clear()
            if self._stopping.is_set():
                return
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._alive.set)
                if self._alive.wait(self._limit):
                    continue
                self._report(
                    f"the event loop is blocked since {self._limit:g} s\n{describe_frame(sys._current_frames().get(thread))}"
                )
                if not self._alive.wait(self._timeout - self._limit if self._timeout else None):
                    self._report(f"the event loop is blocked for {self._timeout:g} s: restarting the process")
                    self._restart()
                    self._alive.wait()
                self._report(f"the event loop responds again after {time.monotonic() - since:.1f} s")


def describe_frame(frame: FrameType | None) -> str:
    """The request and the object that a stack works on, and its innermost calls."""
    if frame is None:
        return "the thread of the event loop has ended"
    subjects: list[str] = []
    for current, _ in traceback.walk_stack(frame):
        request, key = current.f_locals.get("request"), current.f_locals.get("key")
        if (method := getattr(request, "method", None)) and (path := getattr(request, "path", None)):
            subjects.append(f"request: {method} {path}")
        if current.f_code.co_name == "sync" and key is not None:
            subjects.append(f"object: {key} ({type(current.f_locals.get('self')).__name__})")
    stack = "".join(traceback.format_stack(frame)[-_MAX_FRAMES:]).rstrip()
    return "\n".join([*dict.fromkeys(subjects), stack])
