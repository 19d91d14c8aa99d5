"""Direct socket writes arrive complete and in order, also when the socket buffer is full."""

from __future__ import annotations

import asyncio
import socket

import pytest
import uvloop

from sliceworks.base import sockets


async def _receive(reader: socket.socket, size: int) -> bytes:
    loop = asyncio.get_running_loop()
    received = bytearray()
    while len(received) < size:
        received += await loop.sock_recv(reader, 1 << 16)
    return bytes(received)


@pytest.mark.parametrize("loops", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_writes_arrive_in_order(loops: object) -> None:
    async def main() -> None:
        local, remote = socket.socketpair()
        remote.setblocking(False)
        transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=local)
        fileno = sockets.find_fileno(transport)
        assert fileno >= 0
        chunks = [b"%d " % index for index in range(50)]
        large = bytes(range(256)) * 20_000  # larger than the socket buffer
        for chunk in chunks:
            sockets.write_now(transport, fileno, chunk)
        sockets.write_pair_now(transport, fileno, b"head", large)
        sockets.write_pair_now(transport, fileno, b"again", b"short")
        sockets.write_now(transport, fileno, b"last")
        expected = b"".join(chunks) + b"head" + large + b"again" + b"short" + b"last"
        assert await _receive(remote, len(expected)) == expected
        sockets.write_pair_now(transport, fileno, b"both", b"at once")
        assert await _receive(remote, 11) == b"bothat once"
        transport.close()
        sockets.write_now(transport, fileno, b"never")
        sockets.write_pair_now(transport, fileno, b"never", b"again")
        assert await asyncio.get_running_loop().sock_recv(remote, 10) == b""
        remote.close()

    with asyncio.Runner(loop_factory=loops) as runner:  # type: ignore[arg-type]
        runner.run(main())


def test_write_after_a_disconnect_is_reported_by_the_transport() -> None:
    async def main() -> None:
        lost = asyncio.Event()

        class Waiting(asyncio.Protocol):
            def connection_lost(self, exc: Exception | None) -> None:
                lost.set()

        local, remote = socket.socketpair()
        transport, _ = await asyncio.get_running_loop().create_connection(Waiting, sock=local)
        remote.close()
        sockets.write_now(transport, sockets.find_fileno(transport), b"hello")
        async with asyncio.timeout(60):
            await lost.wait()

    asyncio.run(main())
