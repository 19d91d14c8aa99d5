"""What is put on a line arrives whole and in order, whether the socket takes it at once or not."""

from __future__ import annotations

import asyncio
import socket

import pytest
import uvloop

from sliceworks.base import sockets


async def _received(reading: socket.socket, size: int) -> bytes:
    loop = asyncio.get_running_loop()
    got = bytearray()
    while len(got) < size:
        got += await loop.sock_recv(reading, 1 << 16)
    return bytes(got)


@pytest.mark.parametrize("loops", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_all_arrives_in_order(loops: object) -> None:
    async def main() -> None:
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=ours)
        number = sockets.number_of(transport)
        assert number >= 0
        pieces = [b"%d " % each for each in range(50)]
        large = bytes(range(256)) * 20_000  # more than a socket holds
        for piece in pieces:
            sockets.put(transport, number, piece)
        sockets.put_both(transport, number, b"head", large)
        sockets.put_both(transport, number, b"again", b"short")
        sockets.put(transport, number, b"last")
        wanted = b"".join(pieces) + b"head" + large + b"again" + b"short" + b"last"
        assert await _received(theirs, len(wanted)) == wanted
        sockets.put_both(transport, number, b"both", b"at once")
        assert await _received(theirs, 11) == b"bothat once"
        transport.close()
        sockets.put(transport, number, b"never")
        sockets.put_both(transport, number, b"never", b"again")
        assert await asyncio.get_running_loop().sock_recv(theirs, 10) == b""
        theirs.close()

    with asyncio.Runner(loop_factory=loops) as runner:  # type: ignore[arg-type]
        runner.run(main())


def test_who_has_left_is_found_out_by_the_transport() -> None:
    async def main() -> None:
        lost = asyncio.Event()

        class Waiting(asyncio.Protocol):
            def connection_lost(self, exc: Exception | None) -> None:
                lost.set()

        ours, theirs = socket.socketpair()
        transport, _ = await asyncio.get_running_loop().create_connection(Waiting, sock=ours)
        theirs.close()
        sockets.put(transport, sockets.number_of(transport), b"hello")
        async with asyncio.timeout(5):
            await lost.wait()

    asyncio.run(main())
