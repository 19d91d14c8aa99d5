"""The HTTP client, against small servers on loopback that answer with prepared bytes."""

from __future__ import annotations

import asyncio
import base64
import gzip
import ssl
import zlib
from asyncio import StreamReader, StreamWriter
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import pytest
from tests.support.certificates import self_signed
from tests.support.real_time import RealTime

from sliceworks.base import clock
from sliceworks.base.http.client import Address, ConnectFailed, Disconnected, HttpClient, InvalidRequest, Timeouts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

PATIENCE = Timeouts(60.0, 60.0)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Server:
    """Answers each request with the next of `answers`; an empty or missing one closes the connection."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.heads: list[str] = []
        self.bodies: list[bytes] = []
        self.connections = 0
        self.port = 0

    async def serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        self.connections += 1
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.heads.append(head)
            length = next((int(line[16:]) for line in head.splitlines() if line.startswith("content-length: ")), 0)
            self.bodies.append(await reader.readexactly(length))
            answer = self.answers.pop(0) if self.answers else b""
            writer.write(answer)
            await writer.drain()
            if not answer or b"Connection: close" in answer:
                return


@asynccontextmanager
async def listening(
    serve: Callable[[StreamReader, StreamWriter], Awaitable[None]], tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    """Runs a server; yields its port. At the end it waits until all connections are closed."""
    tasks: set[asyncio.Task[None]] = set()

    async def handle(reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            await serve(reader, writer)
        writer.transport.abort() if tls else writer.close()

    listener = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=tls)
    try:
        yield listener.sockets[0].getsockname()[1]
    finally:
        listener.close()
        await asyncio.gather(*tasks)
        await asyncio.sleep(0)


@asynccontextmanager
async def running(server: Server, tls: ssl.SSLContext | None = None) -> AsyncIterator[Address]:
    async with listening(server.serve, tls) as server.port:
        yield Address("https" if tls else "http", "127.0.0.1", server.port)


async def fetch(client: HttpClient, method: str = "GET", body: bytes = b"") -> tuple[int, bytes]:
    response = await client.send(method, "/", {}, body, PATIENCE)
    return response.status, await response.read()


def run_against(server: Server, *requests: tuple[str, bytes]) -> list[tuple[int, bytes]]:
    async def main() -> list[tuple[int, bytes]]:
        async with running(server) as address:
            client = HttpClient(address, None)
            try:
                return [await fetch(client, *request) for request in requests]
            finally:
                await client.close()

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2;x=y\r\nbc\r\n0\r\nTrailer: 1\r\n\r\n", (200, b"abc")),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end", (200, b"until the end")),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 1\r\n\r\nx", (201, b"x")),
        (b"HTTP/1.1 204 No Content\r\n\r\n", (204, b"")),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", (200, b"")),
    ],
    ids=["chunked", "until-close", "interim", "no-content", "empty"],
)
def test_forms_of_a_response(answer: bytes, expected: tuple[int, bytes]) -> None:
    assert run_against(Server(answer), ("GET", b"")) == [expected]


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_compressed_body_is_decoded(encoding: str) -> None:
    body = (gzip.compress if encoding == "gzip" else zlib.compress)(b"text " * 1000)
    answer = f"HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    assert run_against(Server(answer), ("GET", b"")) == [(200, b"text " * 1000)]


def compressed_answer(body: bytes) -> bytes:
    return f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def test_all_members_of_a_compressed_body_are_decoded() -> None:
    assert run_against(Server(compressed_answer(gzip.compress(b"first ") + gzip.compress(b"second"))), ("GET", b"")) == [
        (200, b"first second")
    ]


def test_compressed_body_that_is_cut_is_an_error() -> None:
    with pytest.raises(Disconnected, match="incomplete"):
        run_against(Server(compressed_answer(gzip.compress(b"text " * 1000)[:-12])), ("GET", b""))


def test_body_that_expands_is_decoded_in_pieces() -> None:
    size = 50 << 20

    async def main() -> list[int]:
        async with running(Server(compressed_answer(gzip.compress(bytes(size))))) as address:
            client = HttpClient(address, None)
            response = await client.send("GET", "/", {}, b"", PATIENCE)
            sizes = [len(chunk) async for chunk in response.chunks()]
            await client.close()
            return sizes

    sizes = asyncio.run(main())
    assert (sum(sizes), max(sizes)) == (size, 1 << 20)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nab",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope",
        b"not HTTP at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 300_000 + b"\r\n\r\n",
        b"",
    ],
    ids=["length", "chunk", "compression", "no-http", "headers", "closed"],
)
def test_broken_response_is_an_error(answer: bytes) -> None:
    with pytest.raises(Disconnected):
        run_against(Server(answer), ("GET", b""))


def test_request_is_written_as_given() -> None:
    server = Server(OK, OK, OK)
    large = b"x" * 200_000
    assert run_against(server, ("GET", b""), ("POST", b""), ("PUT", large)) == [(200, b"ok")] * 3
    assert server.connections == 1
    assert server.heads[0] == f"GET / HTTP/1.1\r\nhost: 127.0.0.1:{server.port}\r\naccept: */*\r\n\r\n"
    assert "content-length: 0\r\n" in server.heads[1]
    assert "content-type: application/octet-stream\r\n" in server.heads[2]
    assert server.bodies[2] == large


def test_head_response_has_no_body() -> None:
    server = Server(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", OK)
    assert run_against(server, ("HEAD", b""), ("GET", b"")) == [(200, b""), (200, b"ok")]


def test_connection_of_a_head_response_is_closed() -> None:
    async def main() -> None:
        async with running(Server(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")) as address:
            client = HttpClient(address, None)
            await fetch(client, "HEAD")
            await asyncio.sleep(0)
            assert not client._all
            await client.close()

    asyncio.run(main())


@pytest.mark.parametrize(("target", "headers"), [("/", {"a": "b\r\nc: d"}), ("/a b", {}), ("/\nX: y", {})])
def test_request_with_another_one_inside_is_rejected(target: str, headers: dict[str, str]) -> None:
    async def main() -> None:
        client = HttpClient(Address("http", "127.0.0.1", 1), None)
        with pytest.raises(InvalidRequest):
            await client.send("GET", target, headers, b"", PATIENCE)

    asyncio.run(main())


@pytest.mark.parametrize("extra", [OK[:-2], b"garbage"], ids=["response", "garbage"])
def test_connection_with_bytes_after_a_response_is_not_reused(extra: bytes) -> None:
    server = Server(OK + extra, OK)
    assert run_against(server, ("GET", b""), ("POST", b"")) == [(200, b"ok")] * 2
    assert server.connections == 2


def test_response_that_a_closing_client_cuts_is_an_error() -> None:
    async def main() -> None:
        async def serve(reader: StreamReader, writer: StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\n\r\nuntil the end")
            await reader.read()

        async with listening(serve) as port:
            client = HttpClient(Address("http", "127.0.0.1", port), None)
            response = await client.send("GET", "/", {}, b"", PATIENCE)
            chunks = response.chunks()
            assert await anext(chunks) == b"until the end"
            await client.close()
            with pytest.raises(Disconnected):
                await anext(chunks)

    asyncio.run(main())


def test_upload_may_take_longer_than_the_read_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    real_time = RealTime(monkeypatch)
    size = 32 << 20

    async def main() -> None:
        async def serve(reader: StreamReader, writer: StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            for _ in range(32):
                await clock.sleep(5)
                await reader.readexactly(1 << 20)
            writer.write(OK)
            await writer.drain()

        async with listening(serve) as port:
            client = HttpClient(Address("http", "127.0.0.1", port), None)
            response = await client.send("PUT", "/", {}, bytes(size), Timeouts(10.0, 30.0))
            assert (response.status, await response.read()) == (200, b"ok")
            await client.close()

    clock.run(main(), speed=2)
    assert real_time.seconds == 5 * 32 / 2


@pytest.mark.parametrize(("method", "retried"), [("GET", True), ("PUT", True), ("POST", False), ("PATCH", False)])
def test_request_on_a_connection_that_the_server_closed(method: str, retried: bool) -> None:
    server = Server(OK, b"", OK)
    if retried:
        assert run_against(server, ("GET", b""), (method, b"")) == [(200, b"ok")] * 2
        assert server.connections == 2
    else:
        with pytest.raises(Disconnected):
            run_against(server, ("GET", b""), (method, b""))


def test_connections_that_stay_idle_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    real_time = RealTime(monkeypatch)

    async def main() -> None:
        server = Server(*[OK] * 4)
        async with running(server) as address:
            client = HttpClient(address, None)
            await asyncio.gather(fetch(client), fetch(client))
            for seconds in (10, 10):  # one of them is used every ten seconds
                await clock.sleep(clock.scale_real_seconds(seconds))
                await fetch(client)
            assert (len(client._all), server.connections) == (1, 2)
            started = real_time.seconds
            while client._all:
                await clock.sleep(clock.scale_real_seconds(1))
            assert real_time.seconds - started == pytest.approx(15, abs=2)
            await client.close()

    clock.run(main(), speed=2)


def test_slow_reader_pauses_the_server() -> None:
    total = 64 << 20
    sent = 0
    received = asyncio.Event()

    async def serve(reader: StreamReader, writer: StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {total}\r\n\r\n".encode())
        while sent < total:
            writer.write(b"x" * (1 << 20))
            sent += 1 << 20
            await writer.drain()
            if sent > 2 << 20:
                received.set()

    async def main() -> None:
        async with listening(serve) as port:
            client = HttpClient(Address("http", "127.0.0.1", port), None)
            response = await client.send("GET", "/", {}, b"", PATIENCE)
            await received.wait()
            assert response._size < 8 << 20
            assert sum([len(chunk) async for chunk in response.chunks()]) == total
            await client.close()

    asyncio.run(main())


def test_http_proxy_gets_the_whole_url() -> None:
    async def main() -> None:
        proxy = Server(OK)
        async with running(proxy):
            through = Address.of(f"http://me:secret@127.0.0.1:{proxy.port}")
            client = HttpClient(Address.of("http://example.test/x"), None, proxy=through)
            assert await fetch(client) == (200, b"ok")
            await client.close()
        credentials = base64.b64encode(b"me:secret").decode()
        assert proxy.heads[0].startswith("GET http://example.test/ HTTP/1.1\r\nhost: example.test\r\n")
        assert f"proxy-authorization: Basic {credentials}\r\n" in proxy.heads[0]

    asyncio.run(main())


def test_https_goes_through_a_tunnel_of_the_proxy(tmp_path: Path) -> None:
    pair = self_signed()
    (tmp_path / "server.pem").write_bytes(pair.certificate + pair.key)
    serving, trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    serving.load_cert_chain(tmp_path / "server.pem")
    trusting.load_verify_locations(cadata=pair.certificate.decode())
    heads: list[bytes] = []

    async def pump(reader: StreamReader, writer: StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def main() -> None:
        server = Server(OK, OK)

        async def tunnel(reader: StreamReader, writer: StreamWriter) -> None:
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer), return_exceptions=True)

        async with running(server, serving) as address, listening(tunnel) as port:
            client = HttpClient(address, trusting, proxy=Address.of(f"http://127.0.0.1:{port}"))
            assert [await fetch(client), await fetch(client)] == [(200, b"ok")] * 2
            await client.close()
        assert [head.splitlines()[0] for head in heads] == [f"CONNECT 127.0.0.1:{server.port} HTTP/1.1".encode()]

    asyncio.run(main())


def test_proxy_that_refuses_is_an_error() -> None:
    async def main() -> None:
        proxy = Server(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        async with running(proxy):
            through = Address.of(f"http://127.0.0.1:{proxy.port}")
            client = HttpClient(Address.of("https://example.test"), ssl.create_default_context(), proxy=through)
            with pytest.raises(ConnectFailed) as error:
                await fetch(client)
            await client.close()
        assert "status 407" in str(error.value.__cause__)

    asyncio.run(main())


def test_failed_tunnel_leaves_no_connection() -> None:
    async def main() -> None:
        async def serve(reader: StreamReader, writer: StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await reader.read(1)
            writer.write(b"not TLS")

        async with listening(serve) as port:
            through = Address.of(f"http://127.0.0.1:{port}")
            client = HttpClient(Address.of("https://example.test"), ssl.create_default_context(), proxy=through)
            with pytest.raises(ConnectFailed):
                await fetch(client)
            assert not client._all
            await client.close()

    asyncio.run(main())


def test_tunnel_that_takes_too_long_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        loop, closed = asyncio.get_running_loop(), asyncio.Event()
        real = loop.time

        async def ignore(reader: StreamReader, writer: StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            monkeypatch.setattr(loop, "time", lambda: real() + 60)
            await reader.read()
            closed.set()

        async with listening(ignore) as port:
            through = Address.of(f"http://127.0.0.1:{port}")
            client = HttpClient(Address.of("https://example.test"), ssl.create_default_context(), proxy=through)
            with pytest.raises(TimeoutError):
                await client.send("GET", "/", {}, b"", Timeouts(59.0, None))
            await closed.wait()

    asyncio.run(main())


def test_invalid_host_name_is_an_error() -> None:
    async def main() -> None:
        client = HttpClient(Address.of("http://a..b"), None)
        with pytest.raises(ConnectFailed) as error:
            await fetch(client)
        assert "'a..b' is not a valid host name" in str(error.value.__cause__)

    asyncio.run(main())


def test_of_several_addresses_one_that_answers_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with running(Server(OK)) as address:
            real = asyncio.get_running_loop().getaddrinfo("127.0.0.1", address.port, type=1)
            infos = await real

            async def resolve(*_: object, **__: object) -> list[object]:
                family, kind, protocol, name, _ = infos[0]
                return [(family, kind, protocol, name, ("127.0.0.1", 1)), infos[0]]

            monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
            client = HttpClient(Address("http", "localhost", address.port), None)
            assert await fetch(client) == (200, b"ok")
            await client.close()

    asyncio.run(main())


def test_addresses() -> None:
    assert Address.of("https://[::1]:6443/prefix") == Address("https", "::1", 6443)
    assert Address.of("https://[::1]:6443").authority == "[::1]:6443"
    assert Address.of("https://example.test").authority == "example.test"
    assert Address.of("http://a%40b:c@proxy:8080") == Address("http", "proxy", 8080, "a@b:c")
