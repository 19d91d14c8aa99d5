"""What a client streams, given to one server after the other."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.serving.gateway.resending import Messages

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


async def _all(messages: AsyncIterator[bytes]) -> list[bytes]:
    return [each async for each in messages]


def test_a_reader_that_was_given_up_takes_nothing_from_the_next() -> None:
    """The first still waits for the second message when the other begins: both are woken by it, and it counts once."""

    async def main() -> tuple[list[bytes], list[bytes]]:
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()

        async def rest() -> AsyncIterator[bytes]:
            while (found := await queue.get()) is not None:
                yield found

        sent = Messages(b"1", rest(), 100)
        first = asyncio.create_task(_all(sent.sent()))
        await asyncio.sleep(0)
        second = asyncio.create_task(_all(sent.sent()))
        await asyncio.sleep(0)
        for each in (b"2", b"3", None):
            await queue.put(each)
        return await first, await second

    assert clock.run(main(), virtual=True) == ([b"1"], [b"1", b"2", b"3"])


def test_what_is_too_much_to_keep_goes_to_one_alone() -> None:
    async def main() -> tuple[list[bytes], bool]:
        async def rest() -> AsyncIterator[bytes]:
            for each in (b"22", b"333"):
                yield each

        sent = Messages(b"1", rest(), 4)
        return await _all(sent.sent()), sent.repeatable

    assert clock.run(main(), virtual=True) == ([b"1", b"22", b"333"], False)
