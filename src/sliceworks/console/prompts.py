"""A prompt that a person tries on a page, and the answer while it comes. Neither is written down anywhere."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypedDict

from nicegui import context

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.loadtest.report.words import time

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

LENGTHS = (32, 128, 512, 2048)
_REDRAW_EVERY = 0.1  # seconds, while an answer comes
_LONGEST_ANSWER = 200_000


class Wishes(TypedDict):
    """How the answer should be, and the key that it is asked for with."""

    longest: int
    key: str


class Prompt:
    """One box: what is in it, and what was answered so far."""

    def __init__(self) -> None:
        self.prompt = self.key = self.model = self.answer = self.told = ""
        self.longest = str(LENGTHS[1])
        self.begun = False
        self._task: asyncio.Task[None] | None = None
        self._showing: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done()

    def hear(self, field: str, value: str) -> None:
        """What was typed or chosen."""
        if field in ("prompt", "key", "model", "longest"):
            setattr(self, field, value)

    def wishes(self) -> Wishes:
        """What is asked for beside the prompt."""
        return {"longest": int(self.longest) if self.longest.isdigit() else LENGTHS[1], "key": self.key}

    def stop(self) -> None:
        """Enough."""
        if self._task is not None:
            self._task.cancel()

    def start(self, ask: Callable[[], AsyncIterator[str]], show: Callable[[], None]) -> None:
        """Send it; `show` is called while the answer grows."""
        self.answer, self.told, self.begun = "", "waiting for the first piece …", True
        self._task = asyncio.create_task(self._run(ask))
        client = context.client

        async def keep_showing() -> None:
            with client:
                while self.running:
                    show()
                    await clock.sleep(_REDRAW_EVERY)
                show()

        self._showing = asyncio.create_task(keep_showing())

    async def _run(self, ask: Callable[[], AsyncIterator[str]]) -> None:
        began, first, pieces = clock.loop_time(), 0.0, 0
        try:
            async for piece in ask():
                first = first or clock.loop_time() - began
                pieces += 1
                self.answer = (self.answer + piece)[:_LONGEST_ANSWER]
                self.told = f"first piece after {time(first)}, {pieces} pieces"
            self.told = f"done: first piece after {time(first)}, {pieces} pieces in {time(clock.loop_time() - began)}"
        except SliceworksError as error:
            self.told = f"{error.message}{f': {error.hint}' if error.hint else ''}"
        except asyncio.CancelledError:
            self.told = f"stopped after {pieces} pieces"
