"""port-forward: connections to ports of a pod, over SPDY (also inside WebSocket messages) or over WebSocket channels."""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import BadRequest
from sliceworks.base.transport import Response
from sliceworks.twin.apiserver.streaming.remote_command import check_spdy_request, spdy_headers
from sliceworks.twin.apiserver.streaming.spdy import SpdyConnection, SpdyError, SpdyStream
from sliceworks.twin.apiserver.streaming.websocket import WebSocket, handshake_headers, is_websocket_request, negotiate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping

    from sliceworks.base.http.upgrade import ByteStream

    FindAddress = Callable[[int], Awaitable[tuple[str, int]]]
    """Where a port of the pod accepts connections; raises OSError."""

_PROTOCOL = "portforward.k8s.io"
_TUNNEL, _CHANNELS = f"SPDY/3.1+{_PROTOCOL}", "v4.channel.k8s.io"
_READ_BYTES = 64 * 1024
_MAX_PORTS = 50
_MAX_INCOMPLETE = 500
_PAIRING_SECONDS = 30.0
"""How long the second stream of a pair may take."""


def respond(method: str, headers: Mapping[str, str], ports: Iterable[str], find_address: FindAddress) -> Response:
    """The response that upgrades the connection and then forwards; raises BadRequest."""
    if not is_websocket_request(headers):
        check_spdy_request(method, headers)

        async def serve_spdy(connection: ByteStream) -> None:
            await _Forwarder(find_address).serve(connection)

        return Response(101, spdy_headers(_PROTOCOL), upgrade=serve_spdy)
    protocol = negotiate(headers, (_TUNNEL, _CHANNELS))
    numbers = [] if protocol == _TUNNEL else _parse_ports(ports)

    async def serve_websocket(connection: ByteStream) -> None:
        socket = WebSocket(connection)
        if protocol == _TUNNEL:
            await _Forwarder(find_address).serve(socket)
        else:
            await _serve_channels(socket, numbers, find_address)
        await socket.close()

    return Response(101, handshake_headers(headers, protocol), upgrade=serve_websocket)


def _parse_ports(values: Iterable[str]) -> list[int]:
    names = [name for value in values for name in value.split(",")]
    if not names or len(names) > _MAX_PORTS:
        raise BadRequest(f'query parameter "ports" requires 1 to {_MAX_PORTS} ports, got {len(names)}')
    return [_parse_port(name) for name in names]


def _parse_port(name: str) -> int:
    if not (name.isascii() and name.isdigit() and 0 < int(name[:6]) < 1 << 16):
        raise BadRequest(f"unable to parse {name[:20]!r} as a port: must be 1 to 65535")
    return int(name)


class _Forwarder:
    """Forwards the stream pairs of one SPDY connection: for each forwarded connection one for data and one for an error."""

    def __init__(self, find_address: FindAddress) -> None:
        self._find_address = find_address
        self._incomplete: dict[str, tuple[str, SpdyStream, asyncio.TimerHandle]] = {}
        """First streams of pairs by request, with their type."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, connection: ByteStream) -> None:
        """Forward until the client closes the connection."""
        try:
            async for stream in SpdyConnection(connection).streams():
                await self._add(stream)
        except SpdyError:
            pass
        finally:
            for _, _, timer in self._incomplete.values():
                timer.cancel()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _add(self, stream: SpdyStream) -> None:
        kind, request = stream.headers.get("streamtype", ""), stream.headers.get("requestid", "")
        try:
            port = _parse_port(stream.headers.get("port", ""))
        except BadRequest:
            port = 0
        other = self._incomplete.get(request)
        is_refused = len(self._incomplete) >= _MAX_INCOMPLETE if other is None else other[0] == kind
        if kind not in {"error", "data"} or not port or is_refused:
            await stream.reset()
        elif other is None:
            timer = asyncio.get_running_loop().call_later(clock.scale_real_seconds(_PAIRING_SECONDS), self._expire, request)
            self._incomplete[request] = kind, stream, timer
        else:
            other[2].cancel()
            del self._incomplete[request]
            data, error = (stream, other[1]) if kind == "data" else (other[1], stream)
            self._run(self._forward(port, data, error))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _expire(self, request: str) -> None:
        _, stream, _ = self._incomplete.pop(request)
        self._run(stream.reset())

    async def _forward(self, port: int, data: SpdyStream, error: SpdyStream) -> None:
        try:
            await _pipe(await self._find_address(port), data.read, data.write)
        except OSError as problem:
            await error.write(_describe(port, problem))
        await data.close()
        await error.close()


async def _pipe(address: tuple[str, int], read: Callable[[], Awaitable[bytes]], write: Callable[[bytes], Awaitable[None]]) -> None:
    """Connect, and copy in both directions until the pod closes its side; raises OSError."""
    reader, writer = await asyncio.open_connection(*address)

    async def send() -> None:
        while received := await read():
            writer.write(received)
            await writer.drain()
        with suppress(OSError):
            writer.write_eof()

    sending = asyncio.create_task(send())
    try:
        while data := await reader.read(_READ_BYTES):
            await write(data)
    finally:
        writer.close()
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def _serve_channels(socket: WebSocket, ports: list[int], find_address: FindAddress) -> None:
    """Two channels per port, for data and an error; the first message on each is the port."""
    queues: list[asyncio.Queue[bytes]] = [asyncio.Queue(maxsize=16) for _ in ports]

    async def forward(index: int, port: int) -> None:
        async def write(data: bytes) -> None:
            await socket.write(bytes((2 * index,)) + data)

        try:
            await _pipe(await find_address(port), queues[index].get, write)
        except OSError as problem:
            await socket.write(bytes((2 * index + 1,)) + _describe(port, problem))

    for index, port in enumerate(ports):
        for channel in (2 * index, 2 * index + 1):
            await socket.write(bytes((channel,)) + struct.pack("<H", port))
    receiving: asyncio.Future[Any] = asyncio.create_task(_receive_channels(socket, queues))
    forwarding: asyncio.Future[Any] = asyncio.gather(*(forward(index, port) for index, port in enumerate(ports)))
    try:
        await asyncio.wait({receiving, forwarding}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        receiving.cancel()
        forwarding.cancel()
        await asyncio.gather(receiving, forwarding, return_exceptions=True)


async def _receive_channels(socket: WebSocket, queues: list[asyncio.Queue[bytes]]) -> None:
    while (message := await socket.receive()) is not None:
        if len(message) > 1 and message[0] % 2 == 0 and message[0] // 2 < len(queues):
            await queues[message[0] // 2].put(message[1:])


def _describe(port: int, error: OSError) -> bytes:
    return f"error forwarding port {port} to pod: {error.strerror or error}".encode()
