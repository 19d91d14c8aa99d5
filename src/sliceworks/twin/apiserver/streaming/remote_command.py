"""exec and attach: the streams of a client, connected to a process in a container."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from sliceworks.base import clock
from sliceworks.base.errors import BadRequest
from sliceworks.base.transport import Response
from sliceworks.twin.apiserver.streaming.spdy import SpdyConnection, SpdyError, SpdyStream
from sliceworks.twin.apiserver.streaming.websocket import WebSocket, handshake_headers, is_websocket_request, negotiate

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from sliceworks.base.http.upgrade import ByteStream

    OpenSession = Callable[[], Awaitable["ContainerSession"]]
    """Opens a session; raises OSError."""

STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
_CLOSE_CHANNEL = 255
_FIRST_PROTOCOL = "channel.k8s.io"
"""Sends only failures on the error channel, as text."""
_WEBSOCKET_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io", _FIRST_PROTOCOL)
_SPDY_PROTOCOL, _STREAM_PROTOCOL = "SPDY/3.1", "v4.channel.k8s.io"
_STREAM_TYPES = {"stdin": STDIN, "stdout": STDOUT, "stderr": STDERR, "error": ERROR, "resize": RESIZE}
_OPENING_SECONDS = 30.0
SUCCESS: dict[str, Any] = {"metadata": {}, "status": "Success"}


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Which streams a client requests."""

    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False

    @property
    def channels(self) -> set[int]:
        """The numbers of the requested streams, with that of the exit status."""
        requested = {STDIN: self.stdin, STDOUT: self.stdout, STDERR: self.stderr and not self.tty, RESIZE: self.tty}
        return {ERROR, *(number for number, is_requested in requested.items() if is_requested)}


class ContainerSession(Protocol):
    """A process in a container, or the output of one that already runs."""

    async def write_input(self, data: bytes) -> None:
        """Write to stdin; no data closes it."""
        ...

    async def read_output(self, channel: int) -> bytes:
        """The next output of stdout or stderr; empty at the end."""
        ...

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of the terminal."""
        ...

    async def wait(self) -> int:
        """Wait for the process; its exit code."""
        ...

    async def close(self) -> None:
        """End the session."""
        ...


class _Client(Protocol):
    """The streams of a client."""

    async def receive(self) -> tuple[int, bytes] | None:
        """The next input: its channel and bytes (none if the client closed the channel); None at the end."""
        ...

    async def send(self, channel: int, data: bytes) -> None: ...

    async def close(self) -> None: ...


class _WebSocketClient:
    """Streams as channels: the first byte of each message is the channel."""

    def __init__(self, socket: WebSocket, protocol: str) -> None:
        self._socket = socket
        self._protocol = protocol

    async def receive(self) -> tuple[int, bytes] | None:
        while (message := await self._socket.receive()) is not None:
            if message[:1] == bytes((_CLOSE_CHANNEL,)):
                return (message[1], b"") if len(message) == 2 else (ERROR, b"")
            if len(message) > 1:
                return message[0], message[1:]
        return None

    async def send(self, channel: int, data: bytes) -> None:
        if channel == ERROR and data and self._protocol == _FIRST_PROTOCOL:
            status = orjson.loads(data)
            if status["status"] == SUCCESS["status"]:
                return
            data = status["message"].encode()
        await self._socket.write(bytes((channel,)) + data)

    async def close(self) -> None:
        await self._socket.close()


class _SpdyClient:
    """One SPDY stream per channel."""

    def __init__(self, connection: SpdyConnection) -> None:
        self._connection = connection
        self._streams: dict[int, SpdyStream] = {}
        self._input: asyncio.Queue[tuple[int, bytes] | None] = asyncio.Queue(maxsize=1)
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, channels: set[int]) -> bool:
        """Wait until the client has opened its streams; False if it does not in time."""
        self._run(self._accept())
        try:
            async with asyncio.timeout(clock.scale_real_seconds(_OPENING_SECONDS)):
                while not channels <= self._streams.keys():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def _run(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self) -> None:
        try:
            async for stream in self._connection.streams():
                channel = _STREAM_TYPES.get(stream.headers.get("streamtype", ""))
                if channel is None or channel in self._streams:
                    await stream.reset()
                    continue
                self._streams[channel] = stream
                self._changed.set()
                if channel in (STDIN, RESIZE):
                    self._run(self._forward(channel, stream))
        except SpdyError:
            pass
        await self._input.put(None)

    async def _forward(self, channel: int, stream: SpdyStream) -> None:
        while data := await stream.read():
            await self._input.put((channel, data))
        await self._input.put((channel, b""))

    async def receive(self) -> tuple[int, bytes] | None:
        return await self._input.get()

    async def send(self, channel: int, data: bytes) -> None:
        stream = self._streams.get(channel)
        if stream is not None:
            await stream.write(data)

    async def close(self) -> None:
        for channel, stream in self._streams.items():
            if channel not in (STDIN, RESIZE):
                await stream.close()
        await self._connection.close()

    def stop(self) -> None:
        """Stop to read the streams."""
        for task in self._tasks:
            task.cancel()


def respond(method: str, headers: Mapping[str, str], options: StreamOptions, open_session: OpenSession) -> Response:
    """The response that upgrades the connection and then runs the session; raises BadRequest."""
    if is_websocket_request(headers):
        protocol = negotiate(headers, _WEBSOCKET_PROTOCOLS)

        async def serve_websocket(connection: ByteStream) -> None:
            client = _WebSocketClient(WebSocket(connection), protocol)
            first = STDOUT if options.stdout else STDERR if options.stderr else ERROR
            await client.send(first, b"")  # tells the client that the session is established
            await _serve(client, open_session, options)

        return Response(101, handshake_headers(headers, protocol), upgrade=serve_websocket)
    check_spdy_request(method, headers)
    if _STREAM_PROTOCOL not in headers.get("x-stream-protocol-version", ""):
        raise BadRequest(f"unable to upgrade: unsupported stream protocol, expected {_STREAM_PROTOCOL}")

    async def serve_spdy(connection: ByteStream) -> None:
        client = _SpdyClient(SpdyConnection(connection))
        try:
            if await client.open(options.channels):
                await _serve(client, open_session, options)
            else:
                await client.close()
        finally:
            client.stop()

    return Response(101, spdy_headers(_STREAM_PROTOCOL), upgrade=serve_spdy)


def check_spdy_request(method: str, headers: Mapping[str, str]) -> None:
    """Raise BadRequest unless the request asks for SPDY."""
    if method not in {"GET", "POST"} or headers.get("upgrade", "").lower() != _SPDY_PROTOCOL.lower():
        raise BadRequest("Upgrade request required")


def spdy_headers(protocol: str) -> dict[str, str]:
    """The headers of a response that upgrades the connection to SPDY."""
    return {"connection": "Upgrade", "upgrade": _SPDY_PROTOCOL, "x-stream-protocol-version": protocol}


async def _serve(client: _Client, open_session: OpenSession, options: StreamOptions) -> None:
    """Run a session and report its exit status."""
    try:
        session = await open_session()
    except OSError as error:
        status = _failure("InternalError", f"error executing command in container: {error.strerror or error}")
        await client.send(ERROR, orjson.dumps(status))
        await client.close()
        return
    receiving = asyncio.create_task(_receive(client, session))
    channels = [channel for channel in (STDOUT, STDERR) if channel in options.channels]
    sending = [asyncio.create_task(_send(client, session, channel)) for channel in channels]
    waiting = asyncio.ensure_future(session.wait())
    try:
        await asyncio.wait({receiving, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            await asyncio.gather(*sending)
            code = waiting.result()
            await client.send(ERROR, orjson.dumps(_exit_status(code)))
            await client.close()
    finally:
        tasks = (receiving, *sending, waiting)
        for task in tasks:
            task.cancel()
        await session.close()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)


async def _receive(client: _Client, session: ContainerSession) -> None:
    """Pass input on until the client disconnects."""
    while (item := await client.receive()) is not None:
        channel, data = item
        if channel == STDIN:
            await session.write_input(data)
        elif channel == RESIZE and data:
            _resize(session, data)


def _resize(session: ContainerSession, data: bytes) -> None:
    with suppress(ValueError, KeyError, TypeError):
        size = orjson.loads(data)
        session.resize(min(int(size["Width"]), 0xFFFF), min(int(size["Height"]), 0xFFFF))


async def _send(client: _Client, session: ContainerSession, channel: int) -> None:
    while data := await session.read_output(channel):
        await client.send(channel, data)


def _exit_status(code: int) -> dict[str, Any]:
    if code == 0:
        return SUCCESS
    status = _failure("NonZeroExitCode", f"command terminated with non-zero exit code: exit status {code}")
    return {**status, "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]}}


def _failure(reason: str, message: str) -> dict[str, Any]:
    return {"metadata": {}, "status": "Failure", "message": message, "reason": reason}
