"""Streamed client messages, replayed to another backend."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.serving.gateway.grpc_message import ReplayableMessages

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


async def _all(messages: AsyncIterator[bytes]) -> list[bytes]:
    return [message async for message in messages]


def test_abandoned_reader_takes_no_message() -> None:
    """The first reader still waits for the second message when the other begins: both wake up, and the message counts once."""

    async def main() -> tuple[list[bytes], list[bytes]]:
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()

        async def rest() -> AsyncIterator[bytes]:
            while (result := await queue.get()) is not None:
                yield result

        sent = ReplayableMessages(b"1", rest(), 100)
        first = asyncio.create_task(_all(sent.replay()))
        await asyncio.sleep(0)
        second = asyncio.create_task(_all(sent.replay()))
        await asyncio.sleep(0)
        for item in (b"2", b"3", None):
            await queue.put(item)
        return await first, await second

    assert clock.run(main(), virtual=True) == ([b"1"], [b"1", b"2", b"3"])


def test_too_large_stream_is_not_replayable() -> None:
    async def main() -> tuple[list[bytes], bool]:
        async def rest() -> AsyncIterator[bytes]:
            for item in (b"22", b"333"):
                yield item

        sent = ReplayableMessages(b"1", rest(), 4)
        return await _all(sent.replay()), sent.replayable

    assert clock.run(main(), virtual=True) == ([b"1", b"22", b"333"], False)
