"""Work that takes time: what is to be done next, when, and that it goes on after a restart.

A job is a document with a time at which it is due. When the time comes its service does the next part of it and says what follows:
another time, or nothing. What a part does to the world it may be asked to do again, should the twin end in the middle of it.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.kube.backoff import Backoff
from sliceworks.kube.workqueue import WorkQueue, work
from sliceworks.twin.nodes.timers import Timers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from sliceworks.twin.cloud.state import Document, Table

log = logging.getLogger(__name__)

_WORKERS = 16
_KEPT = 2_000
_NEVER = ""
_DUE, _DONE, _WAIT = "due", "done", "wait"


class Operations:
    """The operations of one service. `advance` is called with each that is due; it ends with `later`, `hold` or `finish`."""

    def __init__(self, table: Table, advance: Callable[[Document], Awaitable[None]]) -> None:
        self._table = table
        self._advance = advance
        self._running: dict[str, str] = {}
        self._ended: list[tuple[str, str]] = []
        self._queue: WorkQueue[str] = WorkQueue(Backoff(first=0.1, cap=30.0, jitter=0.0))
        self._timers: Timers[str] = Timers(self._queue.add)
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Go on with everything that is not done."""
        for document in self._table.all():
            if document.inner.get(_DONE):
                self._ended.append((document.parent, document.name))
            else:
                self._running[document.name] = document.parent
                self._set(document)

    async def stop(self) -> None:
        """Leave everything as it is."""
        self._queue.shut_down()
        self._timers.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def running(self) -> Iterator[Document]:
        """Those that are not done, oldest first."""
        for name, parent in self._running.items():
            if (document := self._table.get(parent, name)) is not None:
                yield document

    def begin(self, document: Document, seconds: float | None) -> None:
        """A new operation, whose first part is due in so many seconds; with None it waits to be woken."""
        self._running[document.name] = document.parent
        self._wait(document, seconds)

    def later(self, document: Document, seconds: float) -> None:
        """The next part is due then."""
        self._wait(document, seconds)

    def hold(self, document: Document) -> None:
        """Nothing is due until it is woken."""
        self._wait(document, None)

    def finish(self, document: Document) -> None:
        """It is done; the document says how it went."""
        if document.name not in self._running:
            return
        document.inner[_DUE], document.inner[_DONE] = _NEVER, True
        self._table.put(document)
        self._running.pop(document.name, None)
        self._timers.drop(document.name)
        self._ended.append((document.parent, document.name))
        while len(self._ended) > _KEPT:
            old = self._table.get(*self._ended.pop(0))
            if old is not None:
                self._table.remove(old)

    def wake(self, name: str) -> None:
        """Look at an operation now, whenever it is due."""
        if name in self._running:
            self._timers.drop(name)
            self._queue.add(name)

    def _wait(self, document: Document, seconds: float | None) -> None:
        if document.name not in self._running:
            return  # somebody has ended it while it was worked on
        due = None if seconds is None else clock.now() + timedelta(seconds=seconds)
        document.inner |= {_DUE: _NEVER if due is None else clock.rfc3339_micro(due), _WAIT: seconds}
        self._table.put(document)
        self._set(document)

    def _set(self, document: Document) -> None:
        self._hire()
        due = document.inner[_DUE]
        if due == _NEVER:
            self._timers.drop(document.name)
        else:
            left = (datetime.fromisoformat(due) - clock.now()).total_seconds()
            # A twin whose time ran fast finds itself in its own past after a restart: nobody waits longer than was meant.
            self._timers.set(document.name, min(left, document.inner[_WAIT]))

    def _hire(self) -> None:
        """Have workers as soon as there is work."""
        if not self._tasks:
            working = (work(self._queue, self._act, self._failed) for _ in range(_WORKERS))
            self._tasks = [asyncio.create_task(each, name="cloud: operations") for each in working]

    async def _act(self, name: str) -> None:
        document = self._table.get(self._running[name], name) if name in self._running else None
        if document is not None:
            await self._advance(document)

    def _failed(self, name: str, error: Exception) -> None:
        # The step is tried again: the API may be away for a while.
        log.error("operation %s", name, exc_info=error)
        self._queue.add_rate_limited(name)
