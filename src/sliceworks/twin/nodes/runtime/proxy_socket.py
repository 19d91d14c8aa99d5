"""A listening socket of a TCP port of a Service that forwards connections to its endpoints in turn.

Both directions have backpressure and are closed separately. A connection that fails on one side is reset on the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from typing import TYPE_CHECKING, cast

from sliceworks.base import clock

if TYPE_CHECKING:
    from collections.abc import Callable

Target = tuple[str, int]
_LINGER_RESET = struct.pack("ii", 1, 0)  # close with RST
_BACKLOG = 1024


class EndpointChooser:
    """The endpoints of a Service port at an address, and the choice of one for a client."""

    def __init__(self, address: str, port: int) -> None:
        self.listen_address = (address, port)
        self.targets: tuple[Target, ...] = ()
        self.affinity = 0.0
        """Seconds after its last connection for which a client keeps its endpoint."""
        self.has_room: Callable[[], bool] = lambda: True
        """Whether a further client is accepted; others are reset or ignored."""
        self._next = 0
        self._client_targets: dict[str, tuple[Target, float]] = {}

    def choose(self, client: str) -> Target | None:
        """The endpoint for the next connection of a client: round robin, or the previous one with affinity."""
        if not self.targets:
            return None
        now = clock.loop_time()
        target, until = self._client_targets.get(client, (None, 0.0))
        if not self.affinity or target not in self.targets or now > until:
            target = self.targets[self._next % len(self.targets)]
            self._next += 1
        if self.affinity:
            self._client_targets[client] = target, now + self.affinity
        return target


class ProxySocket(EndpointChooser):
    """Accepts connections at an address and port while it is open; existing connections outlive `close`."""

    def __init__(self, address: str, port: int) -> None:
        super().__init__(address, port)
        self._server: asyncio.Server | None = None
        self._connecting: set[asyncio.Task[None]] = set()
        self._connections: set[_ProxyConnection] = set()

    @property
    def is_open(self) -> bool:
        """Whether it accepts connections."""
        return self._server is not None

    @property
    def is_busy(self) -> bool:
        """Whether it has connections."""
        return bool(self._connections or self._connecting)

    @property
    def clients(self) -> int:
        """The number of connections, to clients and endpoints."""
        return len(self._connections)

    async def open(self) -> None:
        """Start to listen; raises OSError."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _ProxyConnection(self._connections, self._accept), *self.listen_address, backlog=_BACKLOG
        )

    def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def abort(self) -> None:
        """Stop listening and reset all connections."""
        self.close()
        for task in self._connecting:
            task.cancel()
        for connection in tuple(self._connections):
            connection.reset()

    def _accept(self, client: _ProxyConnection) -> None:
        client.peer = backend = _ProxyConnection(self._connections)
        backend.peer = client
        if not self.has_room():
            client.reset()
            return
        task = asyncio.create_task(self._connect(client, backend))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self, client: _ProxyConnection, backend: _ProxyConnection) -> None:
        target = self.choose(client.address)
        try:
            if target is None:
                raise ConnectionRefusedError
            await asyncio.get_running_loop().create_connection(lambda: backend, *target)
        except OSError:
            client.reset()
        else:
            client.on_backend_connected()


class _ProxyConnection(asyncio.Protocol):
    """One side of a proxied connection. The client side is paused until the backend is connected."""

    peer: _ProxyConnection
    address = ""

    def __init__(self, connections: set[_ProxyConnection], on_accept: Callable[[_ProxyConnection], None] | None = None) -> None:
        self._connections = connections
        self._on_accept = on_accept
        self._transport: asyncio.Transport | None = None
        self._has_eof = False
        self._buffer: list[bytes] = []
        """Data that arrived before the connection; not every event loop can pause a connection from the start."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._connections.add(self)
        self._transport.writelines(self._buffer)
        self._buffer.clear()
        if self._on_accept is not None:
            self._transport.pause_reading()
            self.address = str(transport.get_extra_info("peername")[0])
            self._on_accept(self)

    def data_received(self, data: bytes) -> None:
        self.peer._write(data)

    def eof_received(self) -> bool:
        self._has_eof = True
        if self.peer._has_eof:
            self._close()
            self.peer._close()
        else:
            self.peer._write_eof()
        return True  # keep the connection open for the other direction

    def connection_lost(self, error: Exception | None) -> None:
        self._connections.discard(self)
        if error is None:
            self.peer._close()
        else:
            self.peer.reset()

    def pause_writing(self) -> None:
        if self.peer._transport is not None and not self.peer._has_eof:
            self.peer._transport.pause_reading()

    def resume_writing(self) -> None:
        self.peer.resume()

    def on_backend_connected(self) -> None:
        """Forward data that the client sent before the backend was connected."""
        if self._has_eof:
            self.peer._write_eof()
        self.resume()

    def resume(self) -> None:
        """Resume reading."""
        if self._transport is not None and not self._has_eof:
            self._transport.resume_reading()

    def reset(self) -> None:
        """Close the connection with RST."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
            self._transport.abort()

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)
        else:
            self._buffer.append(data)
            self.pause_writing()

    def _write_eof(self) -> None:
        if self._transport is not None:
            with contextlib.suppress(OSError):  # closed already; connection_lost follows
                self._transport.write_eof()

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()
