"""A gateway and its backends on one event loop, over real sockets, and a client that exposes every chunk of a response."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import orjson
from pydantic.alias_generators import to_camel

from sliceworks.base.http.server import Limits
from sliceworks.serving.gateway.echo import server as echo_server
from sliceworks.serving.gateway.echo.engine import Settings
from sliceworks.serving.gateway.program import Program
from sliceworks.specs.gateway import GatewaySpec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from sliceworks.base.http.server import Server
    from sliceworks.serving.gateway.echo.engine import Engine

LIMITS = Limits(request=1.0, upload=3.0, idle=3.0, stalled=1.0, quiet=0.02, sweep=0.05)


@dataclass
class Response:
    """A response with its chunks as they were sent."""

    status: int
    headers: dict[str, str]
    body: bytes = b""
    chunks: list[bytes] = field(default_factory=list)

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)


class Client:
    """A client connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, port: int, **given: Any) -> Self:
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 20, **given))

    @classmethod
    async def open_narrow(cls, port: int) -> Self:
        """Open a client with a small receive buffer."""
        narrow = socket.socket()
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
        narrow.setblocking(False)
        await asyncio.get_running_loop().sock_connect(narrow, ("127.0.0.1", port))
        return cls(*await asyncio.open_connection(sock=narrow, limit=1 << 16))

    def send(self, method: str, path: str, body: bytes | Any = b"", *headers: str, key: str = "") -> None:
        data = body if isinstance(body, bytes) else orjson.dumps(body)
        lines = [f"{method} {path} HTTP/1.1", "host: test", *headers]
        lines += [f"authorization: Bearer {key}"] if key else []
        lines += [f"content-length: {len(data)}", "content-type: application/json"] if data or method == "POST" else []
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + data)

    async def head(self) -> Response:
        _, status, *_ = (await self.reader.readline()).split(b" ")
        headers: dict[str, str] = {}
        while line := (await self.reader.readline()).decode().strip():
            name, _, value = line.partition(": ")
            headers[name] = value
        return Response(int(status), headers)

    async def chunk(self) -> bytes:
        """The next chunk, empty at the end; IncompleteReadError if the connection dropped."""
        line = await self.reader.readuntil(b"\r\n")
        data = await self.reader.readexactly(int(line, 16))
        await self.reader.readexactly(2)
        return data

    async def get(self) -> Response:
        """The next complete response."""
        response = await self.head()
        if "content-length" in response.headers:
            response.body = await self.reader.readexactly(int(response.headers["content-length"]))
        elif response.headers.get("transfer-encoding") == "chunked":
            while piece := await self.chunk():
                response.chunks.append(piece)
            response.body = b"".join(response.chunks)
        return response

    async def gone(self) -> bool:
        """Whether the server closes the connection without sending more."""
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True

    async def close(self) -> None:
        self.writer.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.transport.abort()


async def send_request(port: int, method: str, path: str, body: Any = b"", *headers: str, key: str = "") -> Response:
    """Send one request on a new connection."""
    async with await Client.open(port) as client:
        client.send(method, path, body, *headers, key=key)
        return await client.get()


def chat(text: str = "one two three", model: str = "m", **more: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": text}], **more}


@dataclass
class Upstream:
    """A running echo server."""

    server: Server
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def engine(self) -> Engine:
        result: Engine = self.server.application.engine  # type: ignore[attr-defined]
        return result

    async def kill(self) -> None:
        """Stop at once and abort all connections."""
        await self.server.stop(0)

    async def revive(self) -> None:
        """Start again at the same address, with no state."""
        self.server, _ = await echo_server.start(self.engine.settings, port=self.port)


@asynccontextmanager
async def upstream(port: int = 0, **settings: Any) -> AsyncIterator[Upstream]:
    result = Upstream(*await echo_server.start(Settings(**{"models": ("m",), **settings}), port=port))
    try:
        yield result
    finally:
        await result.kill()


@asynccontextmanager
async def raw_upstream(answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]) -> AsyncIterator[str]:
    """A server that runs `answer` for each connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def read_request(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Head and body of the next request."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
    return head, await reader.readexactly(length)


def document(*urls: str, kind: str = "echo", **more: Any) -> GatewaySpec:
    """A gateway configuration with one model on these backends; requests need no key unless keys are given."""
    models = [{"name": "m", "backends": [{"kind": kind, "url": url} for url in urls]}]
    times = {"connect": "1s", "firstToken": "5s", "idle": "5s", "total": "20s"}
    data: dict[str, Any] = {
        "listen": {"port": 0},
        "models": models,
        "timeouts": times,
        "anonymous": "keys" not in more,
        "drainTimeout": "500ms",
    }
    data |= {to_camel(name): value for name, value in more.items()}
    return GatewaySpec.model_validate(data)


@dataclass
class Running:
    """A running gateway."""

    program: Program
    port: int
    admin: int | None
    grpc: int | None = None

    async def request(self, method: str, path: str, body: Any = b"", *headers: str, key: str = "") -> Response:
        return await send_request(self.port, method, path, body, *headers, key=key)

    async def metrics(self) -> str:
        return self.program.router.metrics.registry.render()

    def idle(self) -> bool:
        """Whether no request is active and no buffer is held."""
        state = self.program.router.state
        return (
            not self.program.router.in_flight
            and not any(server.outstanding for server in state.upstreams)
            and not any(served.rate_limit.in_flight for served in state.models.values())
        )


@asynccontextmanager
async def gateway(spec: GatewaySpec, file: Path | None = None, limits: Limits | None = None) -> AsyncIterator[Running]:
    program = Program(spec, file, limits or Limits(sweep=0.05, quiet=0.02))
    ports = await program.start()
    try:
        yield Running(program, ports.main, ports.admin, ports.grpc)
    finally:
        await program.stop(0.2)


async def until(true: Callable[[], bool], seconds: float = 90.0) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.005)
