"""Sockets of Service ports: forwarding, choice of endpoints, close and reset."""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import TYPE_CHECKING, cast

import pytest

from sliceworks.base import clock
from sliceworks.twin.nodes.runtime import proxy_datagrams
from sliceworks.twin.nodes.runtime.proxy_datagrams import ProxyDatagrams
from sliceworks.twin.nodes.runtime.proxy_socket import ProxySocket

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address")
NEAR, FAR = "127.254.0.1", "127.254.0.2"


def free() -> int:
    with socket.create_server(("", 0)) as held:
        return int(held.getsockname()[1])


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Coroutine[None, None, None]], None]:
    if request.param == "asyncio":
        return asyncio.run
    pytest.importorskip("uvloop")
    return clock.run


async def opened(
    answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> tuple[ProxySocket, asyncio.Server]:
    server = await asyncio.start_server(answer, FAR, 0)
    line = ProxySocket(NEAR, free())
    line.targets = (server.sockets[0].getsockname()[:2],)
    await line.open()
    return line, server


async def idle(line: ProxySocket) -> None:
    async with asyncio.timeout(60):
        while line.is_busy:
            await asyncio.sleep(0.005)


def test_each_direction_closes_separately(run: Callable[[Coroutine[None, None, None]], None]) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read()).upper())  # to the end: it comes only if that is passed on
        writer.close()

    async def main() -> None:
        line, server = await opened(answer)
        reader, writer = await asyncio.open_connection(*line.listen_address)
        writer.write(b"abc")
        writer.write_eof()
        assert await reader.read() == b"ABC"
        writer.close()
        await idle(line)
        line.abort()
        server.close()

    run(main())


def test_slow_reader_applies_backpressure(run: Callable[[Coroutine[None, None, None]], None]) -> None:
    whole, sent = 64 << 20, list[int]()

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        piece = bytes(1 << 20)
        for _number in range(whole // len(piece)):
            writer.write(piece)
            await writer.drain()
            sent.append(len(piece))
        writer.close()

    async def main() -> None:
        line, server = await opened(answer)
        reader, writer = await asyncio.open_connection(*line.listen_address)
        before = -1
        while before != len(sent):  # until nothing moves any more
            before = len(sent)
            await asyncio.sleep(0.1)
        assert sum(sent) < whole
        assert len(await reader.read()) == whole
        writer.close()
        await idle(line)
        line.abort()
        server.close()

    run(main())


def test_reset_is_forwarded_and_missing_backend_resets(run: Callable[[Coroutine[None, None, None]], None]) -> None:
    broken = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"here")
        try:
            await reader.read()
        except ConnectionResetError:
            broken.set()
        writer.close()

    async def main() -> None:
        line, server = await opened(answer)
        reader, writer = await asyncio.open_connection(*line.listen_address)
        assert await reader.read(4) == b"here"
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        writer.transport.abort()
        async with asyncio.timeout(60):
            await broken.wait()
        await idle(line)
        server.close()
        await server.wait_closed()
        reader, writer = await asyncio.open_connection(*line.listen_address)
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()
        await idle(line)
        line.abort()

    run(main())


def test_closed_socket_refuses_and_keeps_connections(run: Callable[[Coroutine[None, None, None]], None]) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(10):
            writer.write(data)
        writer.close()

    async def main() -> None:
        line, server = await opened(answer)
        reader, writer = await asyncio.open_connection(*line.listen_address)
        writer.write(b"a")
        assert await reader.read(1) == b"a"
        line.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*line.listen_address)
        writer.write(b"b")
        assert await reader.read(1) == b"b"
        await line.open()
        line.abort()
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()
        await idle(line)
        server.close()

    run(main())


def test_round_robin_and_session_affinity() -> None:
    async def main() -> None:
        line = ProxySocket(NEAR, 80)
        assert line.choose("a") is None
        line.targets = (FAR, 1), (FAR, 2)
        assert [line.choose("a") for _ in range(3)] == [(FAR, 1), (FAR, 2), (FAR, 1)]
        line.affinity = 60
        assert [line.choose(client) for client in "aabba"] == [(FAR, 2), (FAR, 2), (FAR, 1), (FAR, 1), (FAR, 2)]
        line.targets = ((FAR, 1),)
        assert line.choose("a") == (FAR, 1)
        line.targets = (FAR, 2), (FAR, 1)
        await clock.sleep(50)
        assert line.choose("a") == (FAR, 1)
        await clock.sleep(61)
        assert [line.choose("a"), line.choose("b")] == [(FAR, 2), (FAR, 1)]

    clock.run(main(), virtual=True)


def test_new_client_of_a_udp_port_replaces_the_one_that_was_idle_for_longest(
    run: Callable[[Coroutine[None, None, None]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy_datagrams, "_MAX_CLIENTS", 2)

    class Echo(asyncio.DatagramProtocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self.transport = cast("asyncio.DatagramTransport", transport)

        def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
            self.transport.sendto(data + str(addr[1]).encode(), addr)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        server, _ = await loop.create_datagram_endpoint(Echo, local_addr=("127.0.0.1", 0))
        proxy = ProxyDatagrams("127.0.0.1", 0)
        await proxy.open()
        assert proxy.transport is not None
        proxy.targets = (server.get_extra_info("sockname"),)
        clients = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(3)]
        backends = []
        for number in (0, 1, 0, 2, 0):
            client = clients[number]
            client.setblocking(False)
            await loop.sock_connect(client, proxy.transport.get_extra_info("sockname"))
            await loop.sock_sendall(client, b"from ")
            async with asyncio.timeout(60):
                backends.append(await loop.sock_recv(client, 100))
        assert backends[0] == backends[2] == backends[4]
        assert len(set(backends)) == 3
        for client in clients:
            client.close()
        proxy.close()
        server.close()
        await asyncio.sleep(0)

    run(main())
