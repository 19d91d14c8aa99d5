"""A socket of a UDP port of a Service that forwards the datagrams of each client to one of its endpoints."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from sliceworks.base import clock
from sliceworks.twin.nodes.runtime.proxy_socket import EndpointChooser

if TYPE_CHECKING:
    from sliceworks.twin.nodes.runtime.proxy_socket import Target

_IDLE_SECONDS = 30.0
"""A client without datagrams for this long is forgotten, as by the kernel's connection tracking."""
_MAX_CLIENTS = 1000


class ProxyDatagrams(EndpointChooser):
    """Receives datagrams at an address and port while it is open; responses go back from there."""

    def __init__(self, address: str, port: int) -> None:
        super().__init__(address, port)
        self.transport: asyncio.DatagramTransport | None = None
        self._backends: dict[Target, _Backend] = {}

    @property
    def is_open(self) -> bool:
        """Whether it receives datagrams."""
        return self.transport is not None

    @property
    def is_busy(self) -> bool:
        """Whether it has clients; they end with the socket."""
        return False

    @property
    def clients(self) -> int:
        """The number of clients; each has a socket."""
        return len(self._backends)

    async def open(self) -> None:
        """Start to receive; raises OSError."""
        loop = asyncio.get_running_loop()
        self.transport, _ = await loop.create_datagram_endpoint(lambda: _Clients(self), local_addr=self.listen_address)

    def close(self) -> None:
        """Stop receiving and forget all clients."""
        if self.transport is not None:
            self.transport.close()
            self.transport = None
        for backend in tuple(self._backends.values()):
            backend.close()

    def abort(self) -> None:
        """Stop receiving and forget all clients."""
        self.close()

    def forward(self, data: bytes, client: Target) -> None:
        """Send a datagram of a client to its endpoint."""
        backend = self._backends.pop(client, None)
        if backend is None or backend.target not in self.targets:
            target = self.choose(client[0])
            if backend is not None:
                backend.close()
            if target is None or not self._make_room():
                return
            backend = _Backend(self, client, target)
            backend.connect()
        self._backends[client] = backend  # the last one: they are in the order in which they were active
        backend.send(data)

    def _make_room(self) -> bool:
        """Forget the client that has been idle for longest if there are too many; returns whether there is room for another one."""
        if len(self._backends) < _MAX_CLIENTS and self.has_room():
            return True
        if not self._backends:
            return False
        next(iter(self._backends.values())).close()
        return True

    def forget(self, backend: _Backend) -> None:
        """Drop the socket of a client."""
        if self._backends.get(backend.client) is backend:
            del self._backends[backend.client]


class _Clients(asyncio.DatagramProtocol):
    def __init__(self, proxy: ProxyDatagrams) -> None:
        self._proxy = proxy

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._proxy.forward(data, addr)


class _Backend(asyncio.DatagramProtocol):
    """The socket that stands for one client at an endpoint."""

    def __init__(self, proxy: ProxyDatagrams, client: Target, target: Target) -> None:
        self.client, self.target = client, target
        self._proxy = proxy
        self._transport: asyncio.DatagramTransport | None = None
        self._waiting: list[bytes] = []
        self._expiry: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    def connect(self) -> None:
        """Open the socket in the background; datagrams wait for it."""
        self._task = asyncio.create_task(self._connect())

    async def _connect(self) -> None:
        try:
            await asyncio.get_running_loop().create_datagram_endpoint(lambda: self, remote_addr=self.target)
        except OSError:
            self.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)
        if self._is_closed:
            self._transport.close()
        for data in self._waiting:
            self._transport.sendto(data)
        self._waiting.clear()

    def send(self, data: bytes) -> None:
        """Send a datagram to the endpoint."""
        self._restart_timer()
        if self._transport is not None:
            self._transport.sendto(data)
        else:
            self._waiting.append(data)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._restart_timer()
        if self._proxy.transport is not None:
            self._proxy.transport.sendto(data, self.client)

    def error_received(self, exc: Exception) -> None:
        self.close()  # no program listens at the endpoint

    def close(self) -> None:
        """Close the socket."""
        self._is_closed = True
        self._proxy.forget(self)
        if self._expiry is not None:
            self._expiry.cancel()
        if self._transport is not None:
            self._transport.close()

    def _restart_timer(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
        seconds = clock.scale_real_seconds(_IDLE_SECONDS)
        self._expiry = asyncio.get_running_loop().call_later(seconds, self.close)
