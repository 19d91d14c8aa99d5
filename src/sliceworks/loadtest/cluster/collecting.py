"""Follows one pod of a test from outside: its rows are fetched while it sends, and counted on both ends when it has ended."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.loadtest.cluster.news import KINDS, unpacked

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from sliceworks.loadtest.cluster.news import News
    from sliceworks.loadtest.listening import Listener

    Ask = Callable[[str, str], Awaitable[bytes]]
    """Method and path to what a pod answers."""
    Gone = Callable[[], Awaitable[str]]
    """Why a pod will not answer any more; nothing while it may."""

_SILENCE = 60.0


@dataclass(slots=True)
class Collector:
    """Rows of one pod, as files in a folder."""

    index: int
    ask: Ask
    gone: Gone
    folder: Path
    every: float = 1.0
    lost: str = ""
    """Why not everything came; nothing when it did."""
    _sizes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    _lines: int = 0
    _name: str = ""

    async def collect(self, listener: Listener) -> None:
        """Until the sender has ended and everything is here, or until it is known that it will not come."""
        heard = clock.loop_time()
        while True:
            try:
                news = unpacked(await self.ask("GET", self._question()))
            except (SliceworksError, ValueError) as error:
                why = await self.gone()
                if why or clock.loop_time() - heard > _SILENCE:
                    self.lost = why or f"it does not answer: {error}"
                    return
                await clock.sleep(self.every)
                continue
            heard = clock.loop_time()
            try:
                self._take(news)
            except OSError as error:
                self.lost = f"its rows cannot be written here: {error.strerror or error}"
                listener.stop(self.lost)
                return
            for line in news.lines:
                listener.hear(self.index, line)
            if news.ended:
                self.lost = news.problem or self._difference(news.whole)
                return
            if not any(news.parts.values()) or not news.lines:
                await clock.sleep(self.every)

    def _question(self) -> str:
        sizes = "&".join(f"{kind}={self._sizes[kind]}" for kind in KINDS)
        return f"/news?lines={self._lines}&{sizes}"

    def _take(self, news: News) -> None:
        """Append what is new. Pieces go first: a row never speaks of pieces that are not there."""
        self._lines += len(news.lines)
        self._name = news.name or self._name
        for kind in reversed(KINDS):
            if part := news.parts[kind]:
                with (self.folder / f"{self._name}.{kind}").open("ab") as file:
                    file.truncate(self._sizes[kind])  # what a full disk cut off is written again
                    file.write(part)
                self._sizes[kind] += len(part)

    def _difference(self, whole: dict[str, str]) -> str:
        """Whether here is what is there."""
        for kind, digest in whole.items():
            file = self.folder / f"{self._name}.{kind}"
            file.touch()
            with file.open("rb") as source:
                if hashlib.file_digest(source, "sha256").hexdigest() != digest:
                    return f"its {kind} did not come whole"
        return ""
