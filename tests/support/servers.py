"""The twin's HTTP server on loopback, in a thread of its own, and a client that speaks TLS and bytes and nothing more."""

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
from sliceworks.kube.transport import Response
from sliceworks.twin.api.server import Limits, Server
from sliceworks.twin.auth import certificates

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Iterator

    from sliceworks.kube.transport import Request
    from sliceworks.twin.api.server import Handler
    from sliceworks.twin.auth.identity import User

T = TypeVar("T")
_PATIENCE = 60.0
"""Seconds until something that hangs is given up: how long a thing takes says how busy the machine is, and nothing else."""


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @cached_property
    def json(self) -> Any:
        return orjson.loads(self.body)


class Client:
    """One TLS connection. Reading waits for a minute at most."""

    def __init__(self, port: int, made: certificates.Certificates, certificate: str | None = None) -> None:
        context = ssl.create_default_context(cadata=made.authority())
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
        """End this side of the line without a word of TLS; the other may go on."""
        socket.socket.shutdown(self.socket, socket.SHUT_WR)

    def line(self) -> bytes:
        """All up to the next line feed, or to the end."""
        while b"\n" not in self._buffer and self._more():
            pass
        return self._cut(self._buffer.find(b"\n") + 1 or len(self._buffer))

    def take(self, size: int) -> bytes:
        while len(self._buffer) < size and self._more():
            pass
        return self._cut(size)

    def rest(self) -> bytes:
        """Everything until the server hangs up."""
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
        """Status and headers of the next answer."""
        version, status, *_ = self.line().split(b" ")
        assert version == b"HTTP/1.1"
        headers: dict[str, str] = {}
        while line := self.line().strip().decode():
            name, _, value = line.partition(": ")
            headers[name] = f"{headers[name]}\n{value}" if name in headers else value
        return Answer(int(status), headers, b"")

    def answer(self, *, body: bool = True) -> Answer:
        """The next answer; `body` is False where none follows, whatever the head says."""
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
        """Whether the server hangs up without another word."""
        return self.rest() == b""


class Running:
    """A server that runs."""

    def __init__(self, server: Server, port: int, made: certificates.Certificates) -> None:
        self.server = server
        self.port = port
        self.made = made
        self.loop = asyncio.get_running_loop()
        self.ending = asyncio.Event()

    def connect(self, certificate: str | None = None) -> Client:
        return Client(self.port, self.made, certificate)

    def plain(self) -> socket.socket:
        """A connection without TLS."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=_PATIENCE)

    def inside(self, main: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the server's loop."""
        return asyncio.run_coroutine_threadsafe(main, self.loop).result(_PATIENCE)

    def wait(self, true: Any, seconds: float = _PATIENCE) -> None:
        """Wait until something holds."""
        assert clock.wait_until(true, seconds, every=0.005), "it did not happen"


@contextmanager
def serving(handler: Handler, made: certificates.Certificates, limits: Limits | None = None) -> Iterator[Running]:
    """A server with this handler, on uvloop as the twin has it."""
    started: Future[Running] = Future()

    async def main() -> None:
        server = Server(handler, limits)
        try:
            port = await server.start("127.0.0.1", 0, certificates.server_context(made))
        except BaseException as error:
            started.set_exception(error)
            raise
        running = Running(server, port, made)
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
        thread.join(20)
        assert not thread.is_alive()


async def echo(request: Request, user: User | None) -> Response:
    """Says what it was asked; `/sleep/N` takes N milliseconds, `/bytes/N` is that long, `/stream/N` has N chunks."""
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
    """It is a proper Status, and the last word on its connection."""
    assert (answer.status, answer.headers["connection"]) == (code, "close")
    status = answer.json
    assert (status["kind"], status["apiVersion"], status["status"], status["code"]) == ("Status", "v1", "Failure", code)
    assert status["reason"] == reason
