"""A second server is asked when the first takes long; who answers first is taken, and the other let go."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sliceworks.serving.gateway.http.exchange import Exchange

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sliceworks.serving.gateway.servers import Server

    Entrant = tuple[Server, Exchange]
    Begin = Callable[[Server, Exchange], Awaitable[None]]


class Race:
    """How servers are asked: `begin` returns when one has begun to answer, `pick` finds another, `let_go` ends one."""

    def __init__(self, begin: Begin, pick: Callable[[], Server | None], let_go: Callable[[Server, Exchange], None]) -> None:
        self._begin, self._pick, self._let_go = begin, pick, let_go

    async def run(self, server: Server, exchange: Exchange, after: float) -> Entrant:
        """Who answers. The caller ends that one; and the first, when this raises."""
        first = asyncio.ensure_future(self._begin(server, exchange))
        try:
            await asyncio.wait({first}, timeout=after)
            other = None if first.done() else self._pick()
            if other is not None and (won := await self._two(first, (server, exchange), (other, Exchange()))) is not None:
                return won
            await first
            return server, exchange
        finally:
            first.cancel()
            del first  # Its error knows this frame: the frame must not know it in return.

    async def _two(self, first: asyncio.Future[None], one: Entrant, two: Entrant) -> Entrant | None:
        """Who answers first; nobody where both have failed."""
        two[0].began(two[1])
        second = asyncio.ensure_future(self._begin(*two))
        loser = two
        try:
            waiting = {first, second}
            while waiting:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if first in done and first.exception() is None:
                    return one
                if second in done and second.exception() is None:
                    loser = one
                    return two
            return None
        finally:
            second.cancel()
            self._let_go(*loser)
