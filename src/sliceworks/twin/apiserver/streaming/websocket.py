"""WebSocket connections: the handshake, and binary messages in both directions."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from websockets.exceptions import ProtocolError
from websockets.frames import CloseCode, Opcode
from websockets.protocol import CLOSED, OPEN, SERVER, Protocol
from websockets.utils import accept_key

from sliceworks.base.errors import BadRequest
from sliceworks.base.transport import Response

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sliceworks.base.http.upgrade import ByteStream

_PROTOCOLS = "sec-websocket-protocol"
_BINARY_PROTOCOL = "binary.k8s.io"
_MAX_MESSAGE_BYTES = 4 << 20


def is_websocket_request(headers: Mapping[str, str]) -> bool:
    """Whether a request asks for a WebSocket."""
    connection = {option.strip().lower() for option in headers.get("connection", "").split(",")}
    return "upgrade" in connection and headers.get("upgrade", "").lower() == "websocket"


def requested_protocols(headers: Mapping[str, str]) -> list[str]:
    """The subprotocols that a client accepts, in its order."""
    return [name.strip() for name in headers.get(_PROTOCOLS, "").split(",") if name.strip()]


def negotiate(headers: Mapping[str, str], supported: Collection[str]) -> str:
    """The first subprotocol that both sides support; raises BadRequest."""
    requested = requested_protocols(headers)
    chosen = next((name for name in requested if name in supported), "")
    if not chosen:
        raise BadRequest(f"unable to upgrade: unsupported WebSocket subprotocol {requested}, expected one of {sorted(supported)}")
    return chosen


def handshake_headers(headers: Mapping[str, str], protocol: str) -> dict[str, str]:
    """The headers of the 101 response; raises BadRequest."""
    if headers.get("sec-websocket-version") != "13" or "sec-websocket-key" not in headers:
        raise BadRequest("unable to upgrade: not a WebSocket handshake of version 13")
    return {
        "upgrade": "websocket",
        "connection": "Upgrade",
        "sec-websocket-accept": accept_key(headers["sec-websocket-key"]),
        _PROTOCOLS: protocol,
    }


class WebSocket:
    """An open WebSocket. It is also a ByteStream of what its messages contain, for protocols that are tunneled through it."""

    def __init__(self, connection: ByteStream) -> None:
        self._connection = connection
        self._protocol = Protocol(SERVER, state=OPEN, max_size=_MAX_MESSAGE_BYTES)
        self._parts: list[bytes] = []
        self._messages: list[bytes] = []
        self._sending = asyncio.Lock()

    async def receive(self) -> bytes | None:
        """The next message; None when the client has closed the connection."""
        while not self._messages:
            if self._protocol.state is CLOSED:
                return None
            data = await self._connection.read()
            if data:
                self._protocol.receive_data(data)
            else:
                self._protocol.receive_eof()
            self._take_frames()
            await self._flush()
            if not data or self._protocol.close_expected():
                return self._messages.pop(0) if self._messages else None
        return self._messages.pop(0)

    def _take_frames(self) -> None:
        for frame in self._protocol.events_received():
            if frame.opcode not in (Opcode.BINARY, Opcode.TEXT, Opcode.CONT):  # type: ignore[union-attr] # never an HTTP message
                continue
            if frame.data:  # type: ignore[union-attr]
                self._parts.append(bytes(frame.data))  # type: ignore[union-attr]
            if frame.fin:  # type: ignore[union-attr]
                self._messages.append(b"".join(self._parts))
                self._parts.clear()

    async def read(self) -> bytes:
        """The content of the next message that is not empty; empty at the end."""
        while (message := await self.receive()) is not None:
            if message:
                return message
        return b""

    async def write(self, data: bytes) -> None:
        """Send a binary message."""
        if self._protocol.state is OPEN:
            self._protocol.send_binary(data)
            await self._flush()

    async def close(self) -> None:
        """Send a close frame."""
        if self._protocol.state is OPEN:
            with suppress(ProtocolError):
                self._protocol.send_close(CloseCode.NORMAL_CLOSURE)
            await self._flush()

    async def _flush(self) -> None:
        # One writer at a time: what a client must get in order is sent in order.
        async with self._sending:
            for data in self._protocol.data_to_send():
                if data:
                    await self._connection.write(data)


def stream_over_websocket(headers: Mapping[str, str], response: Response) -> Response:
    """The response for a WebSocket client: the body as binary messages; raises BadRequest."""
    protocol = negotiate(headers, (_BINARY_PROTOCOL,))

    async def serve(connection: ByteStream) -> None:
        socket = WebSocket(connection)
        client = asyncio.create_task(_receive_all(socket))
        sending = asyncio.create_task(_send_body(socket, response))
        try:
            await asyncio.wait({client, sending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (client, sending):
                task.cancel()
            await asyncio.gather(client, sending, return_exceptions=True)

    return Response(101, handshake_headers(headers, protocol), upgrade=serve)


async def _receive_all(socket: WebSocket) -> None:
    while await socket.receive() is not None:
        pass


async def _send_body(socket: WebSocket, response: Response) -> None:
    if response.body:
        await socket.write(response.body)
    if response.stream is not None:
        async for chunk in response.stream:
            await socket.write(chunk)
    await socket.close()
