"""The twin's HTTP server on loopback, in its own thread, and a raw TLS client."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypeVar

import orjson

from sliceworks.base import clock
from sliceworks.base.transport import Response
from sliceworks.twin.apiserver.auth import certificates
from sliceworks.twin.apiserver.http_server import Limits, Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterator

    from sliceworks.base.transport import Request
    from sliceworks.twin.apiserver.auth.authentication import User
    from sliceworks.twin.apiserver.http_server import Admit, Handler

T = TypeVar("T")
_PATIENCE = 60.0
"""Timeout in seconds for operations that hang, generous because the machine may be busy."""


@dataclass
class Answer:
    """A response."""

    status: int
    headers: dict[str, str]
    body: bytes

    @cached_property
    def json(self) -> Any:
        return orjson.loads(self.body)


class Client:
    """A TLS connection; a read waits for a minute at most."""

    def __init__(self, port: int, pki: certificates.Certificates, certificate: str | None = None) -> None:
        context = ssl.create_default_context(cadata=pki.authority())
        if certificate:
            context.load_cert_chain(certificate)
        plain = socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE)
        self.socket = context.wrap_socket(plain, server_hostname="localhost")
        self._buffer = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, *parts: bytes) -> Self:
        self.socket.sendall(b"".join(parts))
        return self

    def get(self, path: str, *headers: str, version: str = "1.1", method: str = "GET") -> Self:
        lines = [f"{method} {path} HTTP/{version}", "Host: localhost", *headers, "", ""]
        return self.send("\r\n".join(lines).encode())

    def post(self, path: str, body: bytes, *headers: str) -> Self:
        return self.get(path, *headers, f"Content-Length: {len(body)}", method="POST").send(body)

    def hang_up(self) -> None:
        """Close this side of the connection without a TLS close_notify; the server may still send."""
        socket.socket.shutdown(self.socket, socket.SHUT_WR)

    def line(self) -> bytes:
        """Everything up to the next line feed, or to the end."""
        while b"\n" not in self._buffer and self._more():
            pass
        return self._cut(self._buffer.find(b"\n") + 1 or len(self._buffer))

    def take(self, size: int) -> bytes:
        while len(self._buffer) < size and self._more():
            pass
        return self._cut(size)

    def rest(self) -> bytes:
        """Everything until the server closes the connection."""
        while self._more():
            pass
        return self._cut(len(self._buffer))

    def _cut(self, size: int) -> bytes:
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def _more(self) -> bool:
        try:
            data = self.socket.recv(65536)
        except (ConnectionResetError, ssl.SSLEOFError):
            return False
        self._buffer += data
        return bool(data)

    def head(self) -> Answer:
        """Status and headers of the next response."""
        version, status, *_ = self.line().split(b" ")
        assert version == b"HTTP/1.1"
        headers: dict[str, str] = {}
        while line := self.line().strip().decode():
            name, _, value = line.partition(": ")
            headers[name] = f"{headers[name]}\n{value}" if name in headers else value
        return Answer(int(status), headers, b"")

    def answer(self, *, body: bool = True) -> Answer:
        """The next response; `body` is False where none follows, whatever the headers say."""
        answer = self.head()
        if body and "content-length" in answer.headers:
            answer.body = self.take(int(answer.headers["content-length"]))
        elif body and answer.headers.get("transfer-encoding") == "chunked":
            answer.body = b"".join(iter(self.chunk, b""))
        elif body and answer.headers.get("connection") == "close":
            answer.body = self.rest()
        return answer

    def chunk(self) -> bytes:
        """The next chunk of a body, empty at its end."""
        size = int(self.line(), 16)
        data = self.take(size)
        assert self.take(2) == b"\r\n"
        return data

    def gone(self) -> bool:
        """Whether the server closes the connection without sending more."""
        return self.rest() == b""


class Running:
    """A running server."""

    def __init__(self, server: Server, port: int, pki: certificates.Certificates) -> None:
        self.server = server
        self.port = port
        self.made = pki
        self.loop = asyncio.get_running_loop()
        self.ending = asyncio.Event()

    def connect(self, certificate: str | None = None) -> Client:
        return Client(self.port, self.made, certificate)

    def plain(self) -> socket.socket:
        """Open a connection without TLS."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=_PATIENCE)

    def inside(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the server's loop."""
        return asyncio.run_coroutine_threadsafe(main, self.loop).result(_PATIENCE)

    def wait(self, true: Any, seconds: float = _PATIENCE) -> None:
        """Wait until a condition holds."""
        assert clock.wait_until(true, seconds, interval=0.005), "it did not happen"


@contextmanager
def serving(
    handler: Handler, pki: certificates.Certificates, limits: Limits | None = None, admit: Admit | None = None
) -> Iterator[Running]:
    """Run a server with this handler, on uvloop as the twin does."""
    started: Future[Running] = Future()

    async def main() -> None:
        server = Server(handler, limits, admit=admit)
        try:
            port = await server.start("127.0.0.1", 0, certificates.server_context(pki))
        except BaseException as error:
            started.set_exception(error)
            raise
        running = Running(server, port, pki)
        started.set_result(running)
        await running.ending.wait()
        await server.stop()

    thread = threading.Thread(target=lambda: clock.run(main()), name="server")
    thread.start()
    running = started.result(_PATIENCE)
    try:
        yield running
    finally:
        with suppress(RuntimeError):
            running.loop.call_soon_threadsafe(running.ending.set)
        thread.join(120)
        assert not thread.is_alive()


async def echo(request: Request, user: User | None) -> Response:
    """Echo the request; `/sleep/N` takes N milliseconds, `/bytes/N` returns N bytes, `/stream/N` returns N chunks."""
    _, kind, number, *_ = f"{request.path}//".split("/")
    if kind == "sleep":
        await asyncio.sleep(int(number) / 1000)
    if kind == "bytes":
        return Response(200, {}, b"x" * int(number))
    if kind == "stream":
        return Response(200, {}, stream=_chunks(int(number)))
    if kind == "header":
        return Response(200, {"warning": '299 - "one"\r\n299 - "two\rx-evil: 1"'}, b"")
    if kind == "status":
        return Response(int(number), {}, b"")
    seen = {
        "method": request.method,
        "path": request.path,
        "query": request.query,
        "headers": request.headers,
        "body": len(request.body),
        "user": [user.name, *user.groups] if user else None,
    }
    return Response(200, {"content-type": "application/json"}, orjson.dumps(seen))


async def _chunks(number: int) -> AsyncIterator[bytes]:
    for index in range(number):
        yield b"%d\n" % index


def refused(answer: Answer, code: int, reason: str) -> None:
    """Check that the response is a valid Status and the last one on its connection."""
    assert (answer.status, answer.headers["connection"]) == (code, "close")
    status = answer.json
    assert (status["kind"], status["apiVersion"], status["status"], status["code"]) == ("Status", "v1", "Failure", code)
    assert status["reason"] == reason
