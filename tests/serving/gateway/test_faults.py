"""Faults: a client always gets a valid response in its protocol, nothing hangs and nothing is leaked."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import random
import socket
import time
import tracemalloc
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.real.processes import resident_bytes
from tests.support.gateways import LIMITS, Client, chat, document, gateway, raw_upstream, read_request, until, upstream

from sliceworks.base import clock
from sliceworks.base.http.connection import Connection
from sliceworks.serving.gateway.call import Call

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.support.gateways import Running, Upstream

log = logging.getLogger("tests.soak")

pytestmark = pytest.mark.long(45)
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


async def answer_health_checks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """Answer health checks until another request arrives; returns its head."""
    while True:
        head, _ = await read_request(reader)
        if not head.startswith(b"GET"):
            return head
        writer.write(OK)


def test_backend_crash_in_a_stream_is_an_error_event() -> None:
    async def main() -> None:
        async with upstream(token_time=0.01, tokens=1000) as echo, gateway(document(echo.url)) as gate:
            for path, body in (
                ("/v1/chat/completions", chat(stream=True)),
                ("/v2/models/m/generate_stream", {"text_input": "a b"}),
            ):
                async with await Client.open(gate.port) as client:
                    client.send("POST", path, body)
                    await client.head()
                    first = await client.chunk()
                    assert first.startswith(b"data: {")
                    for connection in list(echo.server.connections):
                        connection.abort()
                    rest = b"".join([piece async for piece in _chunks(client)])
                    error = orjson.loads(rest.strip().split(b"\n\n")[-1].removeprefix(b"data: "))["error"]
                    assert "the backend failed" in (error if path.startswith("/v2") else error["message"])
                    # The connection stays usable: the response ended properly.
                    client.send("GET", "/v1/models")
                    assert (await client.get()).status == 200
            await until(gate.idle)
            assert 'interrupted_streams_total{model="m"} 2' in await gate.metrics()

    clock.run(main())


async def _chunks(client: Client) -> AsyncIterator[bytes]:
    while piece := await client.chunk():
        yield piece


def test_truncated_response_is_retried() -> None:
    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answer_health_checks(reader, writer)
        writer.write(b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{"half":')

    async def main() -> None:
        async with raw_upstream(cut) as bad, upstream() as good:
            async with gateway(document(bad, good.url)) as gate:
                assert {(await gate.request("POST", "/v1/chat/completions", chat())).status for _ in range(4)} == {200}
            async with gateway(document(bad)) as gate:
                response = await gate.request("POST", "/v1/chat/completions", chat())
                assert (response.status, response.json["error"]["code"]) == (502, "backend_failed")

    clock.run(main())


WAYS: list[tuple[str, str, Any, str]] = [
    ("openai", "/v1/chat/completions", chat(), "error"),
    ("triton", "/v1/chat/completions", chat(), "error"),
    ("triton", "/v2/models/m/infer", {"inputs": []}, "error"),
    ("triton", "/v2/models/m/generate", {"text_input": "x"}, "error"),
    ("jetstream", "/v1/completions", {"model": "m", "prompt": "x"}, "error"),
    ("jetstream", "/v1/generate", {"text_content": {"text": "x"}}, "detail"),
]


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 13\r\n\r\n<html></html>", 502),
        (b"HTTP/1.1 502 Bad Gateway\r\ncontent-type: text/html\r\ncontent-length: 13\r\n\r\n<html></html>", 502),
        (b"HTTP/1.1 404 Not Found\r\ncontent-type: text/html\r\ncontent-length: 13\r\n\r\n<html></html>", 404),
        (b"SSH-2.0-OpenSSH_9.2\r\n", 502),
        (b"", 502),
        (b"HTTP/1.1 200 OK\r\nx-long: " + b"x" * 400_000, 502),
    ],
)
def test_invalid_backend_response_is_reported(answer: bytes, status: int) -> None:
    async def odd(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answer_health_checks(reader, writer)
        writer.write(answer)

    async def main() -> None:
        async with raw_upstream(odd) as url:
            for kind, path, body, field in WAYS:
                async with gateway(document(url, kind=kind, retries={"attempts": 0})) as gate:
                    response = await gate.request("POST", path, body)
                    assert (kind, path, response.status) == (kind, path, status)
                    assert response.json[field]
                    await until(gate.idle)

    clock.run(main())


def test_unresolvable_backend_name() -> None:
    async def main() -> None:
        spec = document("http://gone.invalid:8000", timeouts={"connect": "300ms"}, retries={"attempts": 1})
        async with gateway(spec) as gate:
            response = await gate.request("POST", "/v1/chat/completions", chat())
            assert response.status in {502, 503}
            assert response.json["error"]["type"] == "server_error"
            await until(gate.idle)

    clock.run(main())


@pytest.mark.parametrize(
    ("timeouts", "settings", "stream", "status"),
    [
        ({"firstToken": "100ms"}, {"ttft": 10.0}, True, 504),
        ({"total": "200ms"}, {"ttft": 10.0}, False, 504),
        ({"idle": "100ms"}, {"token_time": 10.0}, True, 200),
        ({"total": "700ms"}, {"token_time": 0.05, "tokens": 1000}, True, 200),
    ],
)
def test_timeouts(timeouts: dict[str, str], settings: dict[str, Any], stream: bool, status: int) -> None:
    async def main() -> None:
        async with upstream(**settings) as echo, gateway(document(echo.url, timeouts=timeouts)) as gate:
            response = await gate.request("POST", "/v1/chat/completions", chat(stream=stream))
            assert response.status == status
            last = orjson.loads(response.body.strip().split(b"\n\n")[-1].removeprefix(b"data: "))
            assert last["error"]["code"] == "backend_timeout"
            await until(lambda: echo.engine.in_flight == 0)
            assert gate.idle()

    clock.run(main())


@pytest.mark.parametrize("kind", ["echo", "triton"])
def test_request_timeout_covers_all_attempts(kind: str) -> None:
    attempts = 0

    async def slow_failure(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal attempts
        await answer_health_checks(reader, writer)
        attempts += 1
        await asyncio.sleep(0.4)

    async def main() -> None:
        async with raw_upstream(slow_failure) as url:
            limits = {
                "timeouts": {"total": "600ms"},
                "retries": {"attempts": 10, "minRetriesPerSecond": 100},
                "healthCheck": {"consecutiveFailures": 100},
            }
            async with gateway(document(url, kind=kind, **limits)) as gate:
                response = await gate.request("POST", "/v1/chat/completions", chat())
                assert (response.status, response.json["error"]["code"]) == (504, "backend_timeout")
                assert attempts <= 2  # of eleven: the second one exceeds the timeout
                await until(gate.idle)

    clock.run(main())


@contextlib.contextmanager
def deaf_backend() -> Iterator[str]:
    """The URL of a backend that accepts no connections, because its backlog is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as deaf, contextlib.ExitStack() as filling:
        address = deaf.getsockname()
        for _ in range(4):
            line = filling.enter_context(socket.socket())
            line.setblocking(False)
            line.connect_ex(address)
        yield f"http://127.0.0.1:{address[1]}"


def test_wait_for_connection_is_bounded_by_request_timeout() -> None:
    async def main() -> None:
        with deaf_backend() as url:
            async with gateway(document(url, timeouts={"connect": "200s", "total": "300ms"})) as gate:
                started = clock.real_perf_counter()
                response = await gate.request("POST", "/v1/chat/completions", chat())
                assert response.status in {502, 504}
                assert clock.real_perf_counter() - started < 100

    clock.run(main())


@pytest.mark.parametrize("hedging", [{}, {"load_balancing": {"hedgingDelay": "1ms"}}])
def test_request_without_connection_is_freed(hedging: dict[str, Any]) -> None:
    """Without the garbage collector, which is disabled in a gateway."""

    def kept() -> int:
        return sum(isinstance(obj, Call) for obj in gc.get_objects())

    async def main() -> None:
        with deaf_backend() as url:
            times, health = {"connect": "50ms"}, {"consecutiveFailures": 100}
            async with gateway(document(url, url, timeouts=times, retries={"attempts": 1}, health_check=health, **hedging)) as gate:
                gc.collect()
                gc.disable()
                try:
                    before = kept()
                    for _ in range(3):
                        assert (await gate.request("POST", "/v1/chat/completions", chat())).status == 502
                    await until(gate.idle)
                    await until(lambda: kept() <= before, 10)
                finally:
                    gc.enable()

    clock.run(main())


def test_unstreamed_response_has_no_first_token_timeout() -> None:
    async def main() -> None:
        async with upstream(ttft=0.8) as echo, gateway(document(echo.url, timeouts={"firstToken": "100ms"})) as gate:
            assert (await gate.request("POST", "/v1/chat/completions", chat())).status == 200
            assert (await gate.request("POST", "/v1/chat/completions", chat(stream=True))).status == 504

    clock.run(main())


def test_blocked_gateway_does_not_time_out_backends() -> None:
    async def main() -> None:
        timeouts = {"firstToken": "300ms"}
        async with upstream(ttft=0.05) as echo, gateway(document(echo.url, timeouts=timeouts)) as gate:
            request = asyncio.ensure_future(gate.request("POST", "/v1/chat/completions", chat(stream=True)))
            await until(lambda: echo.engine.received == 1)
            time.sleep(1.5)  # blocks the loop, as on a machine without CPU time
            assert (await request).status == 200

    clock.run(main())


HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00", 400),
        (b"GET / HTTP/9.9\r\n\r\n", 400),
        (b"POST /v1/chat/completions HTTP/1.1\r\n\r\n", 400),
        (HEAD + b"content-length: 99999999999\r\n\r\n", 413),
        (HEAD + b"content-length: 1\r\ncontent-length: 2\r\n\r\n", 400),
        (HEAD + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\n", 400),
        (HEAD + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
        (HEAD + b"transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 501),
        (HEAD + b"transfer-encoding: gzip\r\n\r\n", 501),
        (HEAD + b"host: x\r\n\r\n", 400),
        (HEAD + b"host: y\r\n\r\n", 400),
        (b"GET /v1/models HTTP/1.1\r\nhost: x y\r\n\r\n", 400),
        (b"GET /v1/models HTTP/1.1\r\nhost: me@x/y\r\n\r\n", 400),
        (b"GET /v1/models HTTP/1.0\r\nhost: x\r\nhost: y\r\n\r\n", 400),
        (b"GET /nothing /v1/models HTTP/1.1\r\nhost: x\r\n\r\n", 400),
        (b"GET /v1/models\tHTTP/1.1\r\nhost: x\r\n\r\n", 400),
        (b"GET /v1/models HTTP/1.1 x\r\nhost: x\r\n\r\n", 400),
        (b"GET /v1/models HTTP/2.0\r\nhost: x\r\n\r\n", 505),
        (b"GET /v1/models HTTP/0.9\r\nhost: x\r\n\r\n", 505),
        (HEAD + b"x: " + b"y" * 100_000 + b"\r\n\r\n", 431),
        (HEAD + b"content-length: 4\r\n\r\n\xff\xfe{}", 400),
        (HEAD + b"content-length: 9\r\n\r\n{'no': 1}", 400),
        (HEAD + b"content-length: 15\r\n\r\n" + b'{"model": null}', 400),
        (HEAD + b"content-length: 14\r\n\r\n" + b'{"model": "n"}', 404),
        (HEAD + b"transfer-encoding: chunked\r\n\r\n" + b"fffff\r\n" + b"x" * 0xFFFFF, 413),
        (b"DELETE /v1/chat/completions HTTP/1.1\r\nhost: x\r\n\r\n", 405),
        (b"GET /nothing HTTP/1.1\r\nhost: x\r\n\r\n", 404),
        (b"GET /v2/models/m/../../etc/passwd HTTP/1.1\r\nhost: x\r\n\r\n", 404),
        (b"GET /v2/models/m%2f..%2fx HTTP/1.1\r\nhost: x\r\n\r\n", 404),
    ],
)
def test_bad_requests_do_not_reach_a_backend(sent: bytes, status: int) -> None:
    async def main() -> None:
        async with upstream() as echo, gateway(document(echo.url), limits=replace(LIMITS, body=100_000)) as gate:
            async with await Client.open(gate.port) as client:
                client.writer.write(sent)
                response = await client.get()
                assert response.status == status
                assert response.json["error"]
            assert echo.engine.received == 0
            await until(gate.idle)

    clock.run(main())


def test_slow_request_is_disconnected() -> None:
    async def main() -> None:
        async with upstream() as echo, gateway(document(echo.url), limits=LIMITS) as gate:
            starts = (b"", b"POST /v1/cha", HEAD, HEAD + b"content-length: 100\r\n\r\n{")
            clients = [await Client.open(gate.port) for _ in starts]
            for client, start in zip(clients, starts, strict=True):
                client.writer.write(start)
            await asyncio.sleep(0.1)
            assert (await gate.request("POST", "/v1/chat/completions", chat())).status == 200
            answers = [await client.reader.read() for client in clients]
            assert answers[0] == b""
            assert all(answer.startswith(b"HTTP/1.1 408 ") for answer in answers[1:])
            await until(lambda: not gate.program.server.connections)
            for client in clients:
                client.writer.transport.abort()

    clock.run(main())


def test_client_that_does_not_read_is_disconnected() -> None:
    async def main() -> None:
        async with upstream(tokens=60_000) as echo, gateway(document(echo.url), limits=LIMITS) as gate:
            async with await Client.open_narrow(gate.port) as client:
                client.writer.transport.pause_reading()  # type: ignore[attr-defined]
                client.send("POST", "/v1/chat/completions", chat("word" * 20, stream=True))
                await until(lambda: echo.engine.received == 1)
                await until(lambda: not gate.program.server.connections, 40)
            await until(gate.idle)

    clock.run(main())


def test_half_closed_connection() -> None:
    async def main() -> None:
        async with upstream(ttft=10.0) as echo, gateway(document(echo.url)) as gate:
            async with await Client.open(gate.port) as client:
                client.send("POST", "/v1/chat/completions", chat())
                await until(lambda: echo.engine.in_flight == 1)
                client.writer.write_eof()
                await until(lambda: echo.engine.in_flight == 0)
                assert await client.gone()
            await until(gate.idle)

    clock.run(main())


def test_incomplete_request_is_freed() -> None:
    async def main() -> None:
        async with upstream() as echo, gateway(document(echo.url)) as gate:
            for size in (1000, 1_000_000):
                async with await Client.open(gate.port) as client:
                    client.writer.write(HEAD + b"content-length: %d\r\n\r\n" % (2 * size) + b"x" * size)
                    await until(lambda size=size: any(item._body_size >= size for item in gate.program.server.connections))  # type: ignore[misc]
                    [line] = gate.program.server.connections
                await until(lambda: not gate.program.server.connections)
                assert (line._large, line._body, line._body_size) == (None, b"", 0)

    clock.run(main())


def test_small_chunks_take_no_more_memory_than_their_body() -> None:
    """Two bytes in each chunk: kept one by one, they would take thirty times as much."""

    async def main() -> None:
        async with upstream() as echo, gateway(document(echo.url)) as gate, await Client.open(gate.port) as client:
            tracemalloc.start()
            before = tracemalloc.get_traced_memory()[0]
            client.writer.write(HEAD + b"transfer-encoding: chunked\r\n\r\n")
            for _ in range(20):
                client.writer.write(b"2\r\nxx\r\n" * 10_000)
                await client.writer.drain()
            await until(lambda: any(item._body_size == 400_000 for item in gate.program.server.connections))
            grown = tracemalloc.get_traced_memory()[0] - before
            tracemalloc.stop()
            assert grown < 3_000_000

    clock.run(main())


async def _stall(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await answer_health_checks(reader, writer)
    await asyncio.sleep(10)


async def _disconnect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await answer_health_checks(reader, writer)


async def _not_found(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await answer_health_checks(reader, writer)
    writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-type: text/html\r\ncontent-length: 2\r\n\r\nno")


async def _truncate(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await answer_health_checks(reader, writer)
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + _OBJECT)
    await asyncio.sleep(0.01)
    writer.transport.abort()


async def _fail_in_stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await answer_health_checks(reader, writer)
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + _OBJECT)
    await asyncio.sleep(0.01)
    writer.write(b'{"error": "out of memory"}')
    await asyncio.sleep(10)


_OBJECT = b'{"streamContent": {"samples": [{"text": "hi"}]}}'


@pytest.mark.parametrize("serve", [_stall, _disconnect, _not_found, _truncate, _fail_in_stream])
@pytest.mark.parametrize("kind", ["openai", "jetstream"])
def test_failed_request_is_freed(kind: str, serve: Any) -> None:
    """Python's garbage collector is disabled in a gateway and a request may be large: it is freed at once, and so is the
    backend's work on it.
    """

    def kept() -> int:
        return sum(isinstance(obj, Connection) for obj in gc.get_objects())

    async def main() -> None:
        times = {"firstToken": "200ms", "idle": "300ms", "total": "500ms"}
        async with raw_upstream(serve) as url:
            spec = document(url, kind=kind, timeouts=times, retries={"attempts": 1}, health_check={"consecutiveFailures": 100})
            async with gateway(spec) as gate:
                assert (await gate.request("POST", "/v1/chat/completions", chat(stream=True))).status
                await until(lambda: not gate.program.server.connections)
                gc.collect()
                gc.disable()
                try:
                    before = kept()
                    for _ in range(5):
                        async with await Client.open(gate.port) as client:
                            client.send("POST", "/v1/chat/completions", chat(stream=True))
                            await client.head()
                            await until(gate.idle)
                    await until(lambda: not gate.program.server.connections)
                    assert kept() - before <= 1  # that the last sweep has checked
                finally:
                    gc.enable()

    clock.run(main())


def test_random_backend_crashes_lose_no_response(soak_seconds: float) -> None:
    """Four backends are killed and restarted continuously; no response may fail before its first chunk. Truncated streams end
    with an error.
    """

    async def main() -> None:
        chance = random.Random(7)
        settings: Any = {"ttft": 0.003, "token_time": 0.001}
        health = {"interval": "30ms", "timeout": "200ms", "ejectionTime": "50ms"}
        async with upstream(**settings) as a, upstream(**settings) as b, upstream(**settings) as c, upstream(**settings) as d:
            servers = [a, b, c, d]
            retries = {"attempts": 8, "retryRatio": 1.0, "minRetriesPerSecond": 100}
            async with gateway(document(*(server.url for server in servers), health_check=health, retries=retries)) as gate:
                ending = asyncio.get_running_loop().time() + soak_seconds
                killer = asyncio.ensure_future(_kill(servers, chance))
                done = await asyncio.gather(*(_send_requests(gate, number, ending) for number in range(16)))
                assert not killer.done()
                killer.cancel()
                answered, cut = (sum(item[place] for item in done) for place in range(2))
                assert answered > 10 * soak_seconds
                assert cut < answered
                await until(gate.idle)
                retried = sum(float(line.split()[-1]) for line in (await gate.metrics()).splitlines() if "_retries_total{" in line)
                held = resident_bytes(os.getpid()) / 1e6
                log.info("%d answered, %d streams cut, %d tries more, %.0f MB", answered, cut, retried, held)

    clock.run(main())


async def _kill(servers: list[Upstream], chance: random.Random) -> None:
    """Kill one backend after the other and restart it shortly later; sometimes only drop connections."""
    while True:
        await asyncio.sleep(chance.uniform(0.005, 0.03))
        victim = chance.choice(servers)
        if chance.random() < 0.5:
            for connection in list(victim.server.connections):
                connection.abort()
            continue
        await victim.kill()
        await asyncio.sleep(chance.uniform(0.0, 0.05))
        await victim.revive()


async def _send_requests(gate: Running, number: int, ending: float) -> tuple[int, int]:
    answered = cut = 0
    while asyncio.get_running_loop().time() < ending:
        stream = (number + answered) % 2 == 0
        response = await gate.request("POST", "/v1/chat/completions", chat(stream=stream))
        assert response.status == 200, response.body
        if stream and not response.body.endswith(b"data: [DONE]\n\n"):
            assert b"the backend failed" in response.body
            cut += 1
        answered += 1
    return answered, cut
