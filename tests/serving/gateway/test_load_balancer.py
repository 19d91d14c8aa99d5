"""Load balancing, circuit breaking, health checks, retries and hedging of backends."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ssl
import weakref
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from tests.support.certificates import renew
from tests.support.gateways import chat, document, gateway, raw_upstream, read_request, until, upstream

from sliceworks.base import clock
from sliceworks.serving.gateway import http_client
from sliceworks.serving.gateway.health_check import check_health
from sliceworks.serving.gateway.http_client import COMPLETE, ConnectionPool, DeadlineExceeded, Exchange, UpstreamConnection
from sliceworks.serving.gateway.load_balancer import LoadBalancer, Upstream
from sliceworks.specs.gateway import Backend, HealthCheck, LoadBalancing

if TYPE_CHECKING:
    from pathlib import Path


def server(name: str, *, slow_start: float = 0.0, weight: float = 1.0, **health: object) -> Upstream:
    backend = Backend.model_validate({"kind": "echo", "url": f"http://{name}", "weight": weight})
    return Upstream(backend, HealthCheck.model_validate(health), slow_start)


def test_least_loaded_backend_is_picked() -> None:
    async def main() -> None:
        a, b, c = (server(name) for name in "abc")
        group = LoadBalancer("m", [a, b, c], LoadBalancing())
        for _ in range(9):
            picked = group.pick()
            assert picked is not None
            picked.request_started("one")
        assert [item.outstanding for item in (a, b, c)] == [3, 3, 3]
        b.request_finished("one", failed=False)
        assert group.pick() is b

    clock.run(main(), virtual=True)


def test_weights() -> None:
    async def main() -> None:
        a, b = server("a", weight=3.0), server("b")
        group = LoadBalancer("m", [a, b], LoadBalancing())
        for _ in range(40):
            picked = group.pick()
            assert picked is not None
            picked.request_started("one")
        assert (a.outstanding, b.outstanding) == (30, 10)

    clock.run(main(), virtual=True)


def test_slow_start() -> None:
    async def main() -> None:
        a, b = server("a", slow_start=10.0), server("b", slow_start=10.0)
        group = LoadBalancer("m", [a, b], LoadBalancing())
        b.record_health_check(passed=False)
        assert group.pick() is a
        b.record_health_check(passed=True)
        early = Counter(_filled(group, 11))
        await clock.sleep(10)
        late = Counter(_filled(group, 20))
        assert early[a] == 10
        assert early[b] == 1
        assert late == {a: 10, b: 10}

    clock.run(main(), virtual=True)


def _filled(group: LoadBalancer, count: int) -> list[Upstream]:
    result = []
    for _ in range(count):
        picked = group.pick()
        assert picked is not None
        picked.request_started("one")
        result.append(picked)
    for item in result:
        item.request_finished("one", failed=False)
    return result


def test_circuit_opens_and_half_opens() -> None:
    async def main() -> None:
        a = server("a", consecutiveFailures=3, ejectionTime="10s")
        group = LoadBalancer("m", [a], LoadBalancing())
        for _ in range(3):
            assert group.pick() is a
            a.request_started("one")
            a.request_finished("one", failed=True)
        assert group.pick() is None
        await clock.sleep(10)
        assert group.pick() is a
        a.request_started("one")
        assert group.pick() is None
        a.request_finished("one", failed=True)
        assert group.pick() is None
        await clock.sleep(10)
        a.request_started("one")
        a.request_finished("one", failed=False)
        assert [group.pick(), group.pick()] == [a, a]

    clock.run(main(), virtual=True)


def test_half_open_circuit_allows_one_request() -> None:
    async def main() -> None:
        a = server("a", consecutiveFailures=1, ejectionTime="10s")
        group = LoadBalancer("m", [a], LoadBalancing())
        for item in ("old", "older", "wrong"):
            a.request_started(item)
        a.request_finished("wrong", failed=True)
        await clock.sleep(10)
        assert group.pick() is a
        a.request_started("try")
        a.request_finished("old", failed=False, counts=False)
        assert group.pick() is None
        a.request_finished("try", failed=False, counts=False)
        assert group.pick() is a
        a.request_started("next")
        a.request_finished("next", failed=False)
        assert group.pick() is a

    clock.run(main(), virtual=True)


def test_healthy_check_half_opens_early() -> None:
    async def main() -> None:
        a = server("a", consecutiveFailures=1, ejectionTime="1h")
        group = LoadBalancer("m", [a], LoadBalancing())
        a.request_started("one")
        a.request_finished("one", failed=True)
        assert a.circuit_opened.is_set()
        assert group.pick() is None
        a.record_health_check(passed=True)
        assert group.pick() is a
        a.request_started("one")
        assert group.pick() is None
        a.request_finished("one", failed=False)
        assert group.pick() is a
        assert not a.circuit_opened.is_set()

    clock.run(main(), virtual=True)


def test_recovered_backend_is_used_at_once() -> None:
    """A backend is checked soon after its circuit opens, whatever its check interval and the open time of a circuit."""

    async def main() -> None:
        async with upstream() as one:
            health = {"interval": "1h", "ejectionTime": "1h", "consecutiveFailures": 2}
            spec = document(one.url, health_check=health, timeouts={"connect": "5s"}, retries={"attempts": 0})
            async with gateway(spec) as gate:
                await until(lambda: gate.program.router.state.upstreams[0].checked)
                await one.kill()
                for _ in range(2):
                    assert (await gate.request("POST", "/v1/chat/completions", chat())).status == 502
                await one.revive()
                assert (await gate.request("POST", "/v1/chat/completions", chat())).status == 200

    clock.run(main())


def test_dead_backend_loses_no_request() -> None:
    async def main() -> None:
        async with upstream() as one, upstream() as two, gateway(document(one.url, two.url)) as gate:
            await one.kill()
            responses = await asyncio.gather(*(gate.request("POST", "/v1/chat/completions", chat()) for _ in range(40)))
            assert {response.status for response in responses} == {200}
            assert two.engine.received == 40
            await until(lambda: not gate.program.router.state.upstreams[0].healthy)

    clock.run(main())


def test_restarted_backend_is_used_again() -> None:
    async def main() -> None:
        health = {"interval": "50ms", "timeout": "200ms"}
        async with upstream() as one:
            port = one.port
            await one.kill()
            spec = document(one.url, health_check=health, timeouts={"connect": "3s"})
            async with gateway(spec) as gate:
                await until(lambda: not gate.program.router.state.upstreams[0].healthy)
                waiting = asyncio.ensure_future(gate.request("POST", "/v1/chat/completions", chat()))
                await until(lambda: gate.program.router.state.models["m"].balancer.waiting == 1)
                async with upstream(port=port):
                    assert (await waiting).status == 200
                    assert (await gate.request("POST", "/v1/chat/completions", chat())).status == 200

    clock.run(main())


def test_wait_for_a_backend_times_out() -> None:
    async def main() -> None:
        async with upstream() as one:
            await one.kill()
            async with gateway(document(one.url, timeouts={"connect": "200ms"})) as gate:
                await until(lambda: not gate.program.router.state.upstreams[0].healthy)
                response = await gate.request("POST", "/v1/chat/completions", chat())
                assert (response.status, response.json["error"]["code"]) == (503, "no_backend")
                assert response.headers["retry-after"] == "5"
                assert gate.idle()

    clock.run(main())


def test_503_is_retried_and_400_is_not() -> None:
    async def main() -> None:
        for status, seen in ((503, {200: 6}), (500, {200: 3, 500: 3})):
            async with upstream(error_rate=1.0, error_status=status) as bad, upstream() as good:
                spec = document(bad.url, good.url, health_check={"consecutiveFailures": 100})
                async with gateway(spec) as gate:
                    responses = [await gate.request("POST", "/v1/chat/completions", chat()) for _ in range(6)]
                    assert Counter(response.status for response in responses) == seen
                    assert ('retries_total{model="m",reason="503"}' in await gate.metrics()) == (status == 503)

    clock.run(main())


def test_500_does_not_affect_the_circuit() -> None:
    async def main() -> None:
        unhurried = {"interval": "1h"}
        async with upstream(error_rate=1.0, error_status=500) as bad, gateway(document(bad.url, health_check=unhurried)) as gate:
            [failing] = gate.program.router.state.upstreams
            for _ in range(4):
                failing.request_started("one")
                failing.request_finished("one", failed=True)
            for _ in range(6):
                assert (await gate.request("POST", "/v1/chat/completions", chat())).status == 500
                assert not failing.circuit_open
            failing.request_started("one")
            failing.request_finished("one", failed=True)
            assert failing.circuit_open

    clock.run(main())


def test_404_does_not_open_the_circuit() -> None:
    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, _ = await read_request(reader)
            if b"embeddings" in head:
                writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-type: text/plain\r\ncontent-length: 9\r\n\r\nnot found")
            else:
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}")

    async def main() -> None:
        async with (
            raw_upstream(respond) as url,
            gateway(document(url, kind="openai", health_check={"consecutiveFailures": 2})) as gate,
        ):
            for _ in range(4):
                assert (await gate.request("POST", "/v1/embeddings", {"model": "m", "input": "x"})).status == 404
            assert not gate.program.router.state.upstreams[0].circuit_open

    clock.run(main())


@pytest.mark.parametrize(("kind", "status"), [("echo", 503), ("triton", 502)], ids=["passed through", "translated"])
def test_retries_are_limited_by_the_budget(kind: str, status: int) -> None:
    async def main() -> None:
        async with upstream(error_rate=1.0, error_status=503) as bad:
            spec = document(
                bad.url,
                kind=kind,
                retries={"attempts": 1, "retryRatio": 0.0, "minRetriesPerSecond": 0},
                health_check={"consecutiveFailures": 1000},
            )
            async with gateway(spec) as gate:
                for _ in range(15):
                    assert (await gate.request("POST", "/v1/chat/completions", chat())).status == status
                assert bad.engine.received == 15 + 10
                assert "sliceworks_gateway_retry_budget_exhausted_total 5\n" in await gate.metrics()

    clock.run(main())


def test_closed_idle_connection_is_retried() -> None:
    requests: list[int] = []

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, _ = await read_request(reader)
            if head.startswith(b"POST") and len(requests) == 1:
                requests.append(1)
                return  # It receives the second request and closes the connection, as a server does with idle connections.
            requests.extend([1] if head.startswith(b"POST") else [])
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}")

    async def main() -> None:
        retries = {"attempts": 0}
        async with raw_upstream(respond) as url, gateway(document(url, retries=retries, health_check={"interval": "1h"})) as gate:
            await until(lambda: gate.program.router.state.upstreams[0].checked)
            responses = [await gate.request("POST", "/v1/chat/completions", chat()) for _ in range(2)]
            assert [response.status for response in responses] == [200, 200]
            assert len(requests) == 3

    clock.run(main())


def test_health_check_on_closed_connection_is_repeated() -> None:
    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        await read_request(reader)

    async def main() -> None:
        async with raw_upstream(respond) as url:
            looked_at = server(url.removeprefix("http://"))
            assert [await check_health(looked_at) for _ in range(4)] == [True] * 4
            looked_at.close()

    clock.run(main())


def test_late_connection_is_not_used() -> None:
    requests: list[bytes] = []

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            requests.append((await read_request(reader))[0])
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

    async def main() -> None:
        async with raw_upstream(respond) as url:
            pool = ConnectionPool("127.0.0.1", int(url.rpartition(":")[2]))
            late, soon = Exchange(), Exchange()
            connecting = asyncio.ensure_future(pool.start(b"GET /late HTTP/1.1\r\n\r\n", b"", late, 5))
            await asyncio.sleep(0)
            late.fail(DeadlineExceeded("its time is up"))
            await connecting
            with pytest.raises(DeadlineExceeded):
                await late.wait(COMPLETE)
            # The connection stays available for the next request.
            await pool.start(b"GET /soon HTTP/1.1\r\n\r\n", b"", soon, 5)
            await soon.wait(COMPLETE)
            assert (requests, pool.open_connections) == ([b"GET /soon HTTP/1.1\r\n\r\n"], 1)
            pool.close()

    clock.run(main())


def test_many_connects_are_spread_over_turns_of_the_loop() -> None:
    turn, started, all_started = 0, Counter[int](), asyncio.Event()

    class CountingPool(ConnectionPool):
        async def _connect(self, timeout: float) -> UpstreamConnection:
            started[turn] += 1
            return await super()._connect(timeout)

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        await all_started.wait()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        await reader.read()

    async def main() -> None:
        async with raw_upstream(respond) as url:
            pools = [CountingPool("127.0.0.1", int(url.rpartition(":")[2])) for _ in range(2)]
            exchanges = [Exchange() for _ in range(60)]
            counting = asyncio.ensure_future(count_turns())
            starts = [pools[number % 2].start(b"GET / HTTP/1.1\r\n\r\n", b"", item, 5) for number, item in enumerate(exchanges)]
            starting = asyncio.gather(*starts)
            cancelled = asyncio.ensure_future(pools[0].start(b"GET / HTTP/1.1\r\n\r\n", b"", Exchange(), 5))
            await asyncio.sleep(0)
            cancelled.cancel()
            await starting
            all_started.set()
            for exchange in exchanges:
                await exchange.wait(COMPLETE)
            counting.cancel()
            assert started.total() == 60
            assert max(started.values()) <= 16, started  # eight per turn; a count may cover parts of two turns
            for pool in pools:
                pool.close()

    clock.run(main())


def test_cancelled_connect_is_not_pooled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await reader.read()
        writer.close()

    async def give_up(pool: ConnectionPool, steps: int) -> None:
        exchange = Exchange()
        making = asyncio.ensure_future(pool.start(b"GET / HTTP/1.1\r\n\r\n", b"", exchange, 0.5))
        for _ in range(steps):
            await asyncio.sleep(0)
        making.cancel()
        await asyncio.gather(making, return_exceptions=True)
        exchange.cancel()

    kept: weakref.WeakSet[UpstreamConnection] = weakref.WeakSet()

    created = 0

    class Counted(UpstreamConnection):
        def __init__(self, pool: ConnectionPool) -> None:
            nonlocal created
            super().__init__(pool)
            created += 1
            kept.add(self)

    def are_freed() -> bool:
        gc.collect()
        return not kept

    async def main() -> None:
        monkeypatch.setattr(http_client, "UpstreamConnection", Counted)
        trusted, shown = ssl.create_default_context(cadata=renew(tmp_path).decode()), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        shown.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
        async with await asyncio.start_server(respond, "127.0.0.1", 0, ssl=shown) as listening:
            pool = ConnectionPool("127.0.0.1", listening.sockets[0].getsockname()[1], trusted)
            for steps in range(12):
                await give_up(pool, steps)
            assert created
            await until(are_freed)

    clock.run(main())


def test_stream_without_first_chunk_is_retried() -> None:
    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, _ = await read_request(reader)
        if head.startswith(b"GET"):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")

    async def main() -> None:
        async with raw_upstream(half) as bad, upstream() as good, gateway(document(bad, good.url)) as gate:
            for _ in range(4):
                response = await gate.request("POST", "/v1/chat/completions", chat(stream=True))
                assert response.body.endswith(b"data: [DONE]\n\n")

    clock.run(main())


def test_hedged_request() -> None:
    async def main() -> None:
        async with upstream(ttft=5.0) as slow, upstream() as quick:
            for hedge in ("20ms", None):
                spec = document(slow.url, quick.url, load_balancing={"hedgingDelay": hedge}, timeouts={"total": "600ms"})
                async with gateway(spec) as gate:
                    responses = [
                        await gate.request("POST", "/v1/chat/completions", chat(stream=number % 2 == 0)) for number in range(4)
                    ]
                    statuses = Counter(response.status for response in responses)
                    assert statuses == ({200: 4} if hedge else {200: 2, 504: 2})
                    assert ('reason="hedge"' in await gate.metrics()) == bool(hedge)
                    await until(lambda: slow.engine.in_flight == 0)
                    assert gate.idle()

    clock.run(main())


def test_failed_hedge_is_ignored() -> None:
    async def main() -> None:
        async with upstream(ttft=0.1) as slow, raw_upstream(_hang_up) as broken:
            spec = document(
                slow.url,
                broken,
                load_balancing={"hedgingDelay": "10ms"},
                health_check={"interval": "1h", "consecutiveFailures": 100},
            )
            async with gateway(spec) as gate:
                await until(lambda: all(upstream.checked for upstream in gate.program.router.state.upstreams))
                for item in gate.program.router.state.upstreams:
                    item.healthy = True
                responses = [await gate.request("POST", "/v1/chat/completions", chat()) for _ in range(4)]
                assert {response.status for response in responses} == {200}
                assert gate.idle()

    clock.run(main())


async def _hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
