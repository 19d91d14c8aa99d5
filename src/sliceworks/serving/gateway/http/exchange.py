"""One request to a model's server and its answer, which may go on for long: how far it is, who waits for it, and how it ended."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.serving.gateway.http.upstream import UpstreamConnection


class Broken(Exception):
    """The line ended, or carried no HTTP, before the answer was whole. `clean`: before a single byte, on a line used before."""

    def __init__(self, reason: str, *, clean: bool = False) -> None:
        super().__init__(reason)
        self.clean = clean


class Late(Exception):
    """It took longer than allowed."""


HEAD, FIRST, WHOLE = range(3)
"""How much of an answer is waited for: its head, its first piece, all of it."""


class Exchange:
    """One request and its answer. Pieces gather in `pieces` until `sink` is set; from then on they go there as they come.

    Where `framed` is set, a piece that comes as one chunk goes there as it is, with its length.
    """

    __slots__ = (
        "_loop",
        "_waiter",
        "_wanted",
        "arrived",
        "began",
        "complete",
        "connection",
        "error",
        "framed",
        "headers",
        "last",
        "on_end",
        "pieces",
        "sink",
        "size",
        "status",
        "until_close",
    )

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.pieces: list[bytes] = []
        self.size = 0
        self.complete = self.until_close = False
        self.error: BaseException | None = None
        self.sink: Callable[[bytes], None] | None = None
        self.framed: Callable[[bytes], None] | None = None
        self.on_end: Callable[[], None] | None = None
        self.connection: UpstreamConnection | None = None
        self.began = self.last = self._loop.time()
        self.arrived = 0.0
        """When the head had come, on the clock of efforts."""
        self._waiter: asyncio.Future[None] | None = None
        self._wanted = HEAD

    @property
    def over(self) -> bool:
        return self.complete or self.error is not None

    def header(self, name: bytes) -> bytes:
        """A header of the answer, or nothing."""
        return next((value for key, value in self.headers if key == name), b"")

    def reached(self, stage: int) -> bool:
        """Whether so much of the answer is there, or no more will come."""
        return self.over or (stage < WHOLE and bool(self.status) and (stage == HEAD or self.size > 0))

    async def wait(self, stage: int) -> None:
        """Wait for so much of the answer; raises what went wrong."""
        if not self.reached(stage):
            self._wanted = stage
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if self.error is not None:
            raise self.error

    def wake(self) -> None:
        """Tell who waits, if what it waits for is there."""
        waiter = self._waiter
        if waiter is not None and self.reached(self._wanted) and not waiter.done():
            waiter.set_result(None)

    def fail(self, error: BaseException) -> None:
        """End without an answer, or without the rest of it."""
        if not self.over:
            self.error = error
            if self.connection is not None:
                self.connection.drop()
            self._finish()

    def finished(self) -> None:
        """The answer is whole."""
        self.complete = True
        self._finish()

    def _finish(self) -> None:
        if self.on_end is not None:
            self.on_end()
        self.wake()

    def cancel(self) -> None:
        """Nobody wants the answer any more: the server sees the line drop and stops its work."""
        if not self.over:
            self.error = asyncio.CancelledError()
            self.let_go()
            if self.connection is not None:
                self.connection.drop()

    def let_go(self) -> None:
        """Know nobody any more who takes the answer, and no error that was raised: what raised it knows the exchange."""
        self.sink = self.framed = self.on_end = None
        if self.error is not None:
            self.error = asyncio.CancelledError()

    def pause(self) -> None:
        if self.connection is not None:
            self.connection.pause()

    def resume(self) -> None:
        self.last = self._loop.time()
        if self.connection is not None:
            self.connection.resume()
