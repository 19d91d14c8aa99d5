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
        self.repeatable = self._left >= 0
        """Whether all that was read is still here."""

    def settle(self) -> None:
        """An answer has begun: nobody else will be asked."""
        self.repeatable = False

    async def sent(self) -> AsyncIterator[bytes]:
        """All messages from the first one on. One reader at a time: who begins anew has given up the one before."""
        place = 0
        while True:
            message = self._kept[place] if place < len(self._kept) else await self._more()
            if message is None:
                return
            place += 1
            yield message

    async def _more(self) -> bytes | None:
        # A reader may be cancelled while it waits. What comes then is not lost: the next one waits for the same.
        if self._next is None:
            self._next = asyncio.ensure_future(anext(self._rest, None))
        message = await asyncio.shield(self._next)
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
