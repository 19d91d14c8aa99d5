"""A TCP proxy whose connections can be cut: forwards bytes between clients and an address."""

from __future__ import annotations

import contextlib
import socket
import threading
from urllib.parse import urlsplit


class TcpProxy:
    """Listens on loopback; while it is cut, open connections are closed and new ones are refused."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self._target = (parts.hostname or "127.0.0.1", parts.port or 80)
        self._open: list[socket.socket] = []
        self._listener = self._listen(0)
        self._port = self._listener.getsockname()[1]

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def cut(self) -> None:
        """Close all connections and refuse new ones."""
        for item in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                item.shutdown(socket.SHUT_RDWR)
            item.close()
        self._open.clear()

    def restore(self) -> None:
        """Accept connections again."""
        self._listener = self._listen(self._port)

    def _listen(self, port: int) -> socket.socket:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(64)
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        return listener

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.create_connection(self._target)
                self._open += [client, server]
                for one, other in ((client, server), (server, client)):
                    threading.Thread(target=_pass, args=(one, other), daemon=True).start()


def _pass(one: socket.socket, other: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := one.recv(65536):
            other.sendall(data)
    for item in (one, other):
        with contextlib.suppress(OSError):
            item.shutdown(socket.SHUT_RDWR)
