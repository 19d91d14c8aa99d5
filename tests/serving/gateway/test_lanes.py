"""Sockets that are read together: each gets its own bytes and its end, and one may leave while another is read."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import pytest
from tests.support.gateways import chat, document, gateway, until, upstream

from sliceworks.base import clock
from sliceworks.serving.gateway.http import lanes

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(not lanes.possible, reason="this system has no epoll")
Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pairs() -> Iterator[list[Pair]]:
    made = [socket.socketpair() for _ in range(3)]
    for ours, _ in made:
        ours.setblocking(False)
    yield made
    for pair in made:
        for end in pair:
            end.close()


def test_each_gets_its_own_bytes_and_its_end(pairs: list[Pair]) -> None:
    came: dict[int, list[bytes]] = {place: [] for place in range(3)}

    async def main() -> None:
        found = lanes.Lanes()
        for place, (ours, theirs) in enumerate(pairs):
            found.add(ours.fileno(), came[place].append)
            theirs.sendall(b"x" * 20_000 if place == 0 else b"token %d" % place)
        await until(lambda: sum(map(len, came[0])) == 20_000 and all(came.values()))
        pairs[1][1].close()
        await until(lambda: came[1][-1] == b"")
        for ours, _ in pairs:
            found.remove(ours.fileno())

    clock.run(main())
    assert b"".join(came[0]) == b"x" * 20_000
    assert came[1][:2] == [b"token 1", b""]
    assert came[2] == [b"token 2"]


def test_one_leaves_while_another_is_read(pairs: list[Pair]) -> None:
    (first, one), (second, two), _ = pairs
    came: list[bytes] = []

    async def main() -> None:
        found = lanes.Lanes()
        numbers = {first.fileno(), second.fileno()}

        def only(number: int, data: bytes) -> None:
            came.append(data)
            for other in numbers - {number}:
                found.remove(other)
            numbers.intersection_update({number})

        one.sendall(b"said")
        two.sendall(b"said")
        found.add(first.fileno(), lambda data: only(first.fileno(), data))
        found.add(second.fileno(), lambda data: only(second.fileno(), data))
        await until(lambda: bool(came))
        await asyncio.sleep(0)
        [left] = numbers
        (one if left == first.fileno() else two).sendall(b"more")
        await until(lambda: len(came) > 1)
        found.remove(left)

    clock.run(main())
    assert came == [b"said", b"more"]


def test_nothing_is_held_while_there_is_no_stream(pairs: list[Pair]) -> None:
    async def main() -> None:
        found = lanes.Lanes()
        for _ in range(2):
            found.add(pairs[0][0].fileno(), lambda _: None)
            assert found._ready is not None
            found.remove(pairs[0][0].fileno())
            assert found._ready is None

    clock.run(main())


def test_a_line_is_used_again_after_a_stream_and_its_end_is_seen() -> None:
    async def main() -> None:
        async with upstream(tokens=5, token_time=0.001) as echo, gateway(document(echo.url)) as gate:
            [server] = gate.program.application.state.servers
            lines = set()
            for _ in range(3):
                got = await gate.ask("POST", "/v1/chat/completions", chat(stream=True))
                assert got.body.count(b"one") + got.body.count(b"two") + got.body.count(b"three") == 5
                assert got.body.rstrip().endswith(b"data: [DONE]")
                await until(gate.idle)
                await until(lambda: bool(server.pool._idle))
                lines.add(server.pool._idle[-1])
            assert len(lines) == 1
            await echo.kill()
            await until(lambda: server.pool.open == 0)

    clock.run(main())
