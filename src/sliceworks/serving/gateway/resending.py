"""Messages of a client's stream, kept so that another server can be asked with the same ones."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Messages:
    """What a client sends. It is read only as fast as a server takes it, and kept up to `most` bytes until an answer begins."""

    def __init__(self, first: bytes, rest: AsyncIterator[bytes], most: int) -> None:
        self._kept, self._rest = [first], aiter(rest)
        self._left = most - len(first)
        self._next: asyncio.Future[bytes | None] | None = None
        self._reader = 0
        self.repeatable = self._left >= 0
        """Whether all that was read is still here."""
        self.fault: Exception | None = None
        """What is wrong with a message: the library ends a call where reading one raises, and does not say why."""

    def settle(self) -> None:
        """An answer has begun: nobody else will be asked."""
        self.repeatable = False

    def sent(self) -> AsyncIterator[bytes]:
        """All messages from the first one on. Who begins anew has given up the reader before, which gets no more."""
        self._reader += 1
        return self._from_the_first(self._reader)

    async def _from_the_first(self, reader: int) -> AsyncIterator[bytes]:
        place = 0
        while reader == self._reader:
            message = self._kept[place] if place < len(self._kept) else await self._more()
            if message is None or reader != self._reader:
                return
            place += 1
            yield message

    async def _more(self) -> bytes | None:
        # A reader may be given up while it waits. What comes then is not lost: the next one waits for the same.
        if self._next is None:
            self._next = asyncio.ensure_future(self._read())
        return await asyncio.shield(self._next)

    async def _read(self) -> bytes | None:
        """One message more. It is kept here, once, however many wait for it."""
        message = await anext(self._rest, None)
        self._next = None
        if message is not None and self.repeatable:
            self._left -= len(message)
            self.repeatable = self._left >= 0
            if self.repeatable:
                self._kept.append(message)
        return message

    def close(self) -> None:
        """Read no more."""
        if self._next is not None:
            self._next.cancel()
