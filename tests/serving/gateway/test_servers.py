"""Which server gets a request, and what happens when one fails."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ssl
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from tests.support.certificates import renew
from tests.support.gateways import chat, document, gateway, raw_upstream, read_request, until, upstream

from sliceworks.base import clock
from sliceworks.serving.gateway.health import check
from sliceworks.serving.gateway.http.exchange import WHOLE, Exchange, Late
from sliceworks.serving.gateway.http.pool import Pool
from sliceworks.serving.gateway.http.upstream import UpstreamConnection
from sliceworks.serving.gateway.servers import Group, Server
from sliceworks.specs.gateway import Backend, Balancing, Health

if TYPE_CHECKING:
    from pathlib import Path


def server(name: str, *, slow_start: float = 0.0, weight: float = 1.0, **health: object) -> Server:
    backend = Backend.model_validate({"kind": "echo", "url": f"http://{name}", "weight": weight})
    return Server(backend, Health.model_validate(health), slow_start)


def test_the_one_with_the_fewest_requests_is_picked() -> None:
    async def main() -> None:
        a, b, c = (server(name) for name in "abc")
        group = Group("m", [a, b, c], Balancing())
        for _ in range(9):
            picked = group.pick()
            assert picked is not None
            picked.began("one")
        assert [each.outstanding for each in (a, b, c)] == [3, 3, 3]
        b.ended("one", failed=False)
        assert group.pick() is b

    clock.run(main(), virtual=True)


def test_a_heavier_one_gets_more() -> None:
    async def main() -> None:
        a, b = server("a", weight=3.0), server("b")
        group = Group("m", [a, b], Balancing())
        for _ in range(40):
            picked = group.pick()
            assert picked is not None
            picked.began("one")
        assert (a.outstanding, b.outstanding) == (30, 10)

    clock.run(main(), virtual=True)


def test_a_fresh_one_starts_slowly() -> None:
    async def main() -> None:
        a, b = server("a", slow_start=10.0), server("b", slow_start=10.0)
        group = Group("m", [a, b], Balancing())
        b.seen(good=False)
        assert group.pick() is a
        b.seen(good=True)
        early = Counter(_filled(group, 11))
        await clock.sleep(10)
        late = Counter(_filled(group, 20))
        assert early[a] == 10
        assert early[b] == 1
        assert late == {a: 10, b: 10}

    clock.run(main(), virtual=True)


def _filled(group: Group, count: int) -> list[Server]:
    found = []
    for _ in range(count):
        picked = group.pick()
        assert picked is not None
        picked.began("one")
        found.append(picked)
    for each in found:
        each.ended("one", failed=False)
    return found


def test_a_circuit_opens_after_failures_and_lets_one_try_through() -> None:
    async def main() -> None:
        a = server("a", failures=3, open="10s")
        group = Group("m", [a], Balancing())
        for _ in range(3):
            assert group.pick() is a
            a.began("one")
            a.ended("one", failed=True)
        assert group.pick() is None
        await clock.sleep(10)
        assert group.pick() is a
        a.began("one")
        assert group.pick() is None
        a.ended("one", failed=True)
        assert group.pick() is None
        await clock.sleep(10)
        a.began("one")
        a.ended("one", failed=False)
        assert [group.pick(), group.pick()] == [a, a]

    clock.run(main(), virtual=True)


def test_one_try_alone_goes_through_also_when_an_older_request_ends() -> None:
    async def main() -> None:
        a = server("a", failures=1, open="10s")
        group = Group("m", [a], Balancing())
        for each in ("old", "older", "wrong"):
            a.began(each)
        a.ended("wrong", failed=True)
        await clock.sleep(10)
        assert group.pick() is a
        a.began("try")
        a.ended("old", failed=False, judged=False)
        assert group.pick() is None
        a.ended("try", failed=False, judged=False)
        assert group.pick() is a
        a.began("next")
        a.ended("next", failed=False)
        assert group.pick() is a

    clock.run(main(), virtual=True)


def test_a_good_look_lets_one_try_through_before_its_time() -> None:
    async def main() -> None:
        a = server("a", failures=1, open="1h")
        group = Group("m", [a], Balancing())
        a.began("one")
        a.ended("one", failed=True)
        assert a.failing.is_set()
        assert group.pick() is None
        a.seen(good=True)
        assert group.pick() is a
        a.began("one")
        assert group.pick() is None
        a.ended("one", failed=False)
        assert group.pick() is a
        assert not a.failing.is_set()

    clock.run(main(), virtual=True)


def test_a_server_that_was_away_for_a_moment_is_used_again_at_once() -> None:
    """It is looked at soon when its circuit opens, however seldom it is else, and however long a circuit stays open."""

    async def main() -> None:
        async with upstream() as one:
            health = {"every": "1h", "open": "1h", "failures": 2}
            spec = document(one.url, health=health, timeouts={"connect": "5s"}, retries={"attempts": 0})
            async with gateway(spec) as gate:
                await until(lambda: gate.program.application.state.servers[0].checked)
                await one.kill()
                for _ in range(2):
                    assert (await gate.ask("POST", "/v1/chat/completions", chat())).status == 502
                await one.revive()
                assert (await gate.ask("POST", "/v1/chat/completions", chat())).status == 200

    clock.run(main())


def test_a_dead_server_costs_nobody_an_answer() -> None:
    async def main() -> None:
        async with upstream() as one, upstream() as two, gateway(document(one.url, two.url)) as gate:
            await one.kill()
            got = await asyncio.gather(*(gate.ask("POST", "/v1/chat/completions", chat()) for _ in range(40)))
            assert {each.status for each in got} == {200}
            assert two.engine.received == 40
            await until(lambda: not gate.program.application.state.servers[0].well)

    clock.run(main())


def test_a_server_that_comes_back_is_used_again() -> None:
    async def main() -> None:
        health = {"every": "50ms", "timeout": "200ms"}
        async with upstream() as one:
            port = one.port
            await one.kill()
            spec = document(one.url, health=health, timeouts={"connect": "3s"})
            async with gateway(spec) as gate:
                await until(lambda: not gate.program.application.state.servers[0].well)
                waiting = asyncio.ensure_future(gate.ask("POST", "/v1/chat/completions", chat()))
                await until(lambda: gate.program.application.state.models["m"].group.waiting == 1)
                async with upstream(port=port):
                    assert (await waiting).status == 200
                    assert (await gate.ask("POST", "/v1/chat/completions", chat())).status == 200

    clock.run(main())


def test_nobody_waits_for_ever_for_a_server() -> None:
    async def main() -> None:
        async with upstream() as one:
            await one.kill()
            async with gateway(document(one.url, timeouts={"connect": "200ms"})) as gate:
                await until(lambda: not gate.program.application.state.servers[0].well)
                got = await gate.ask("POST", "/v1/chat/completions", chat())
                assert (got.status, got.json["error"]["code"]) == (503, "no_backend")
                assert got.headers["retry-after"] == "5"
                assert gate.idle()

    clock.run(main())


def test_an_unavailable_server_is_replaced_by_another_and_a_broken_request_is_not() -> None:
    async def main() -> None:
        for status, seen in ((503, {200: 6}), (500, {200: 3, 500: 3})):
            async with upstream(error_rate=1.0, error_status=status) as bad, upstream() as good:
                spec = document(bad.url, good.url, health={"failures": 100})
                async with gateway(spec) as gate:
                    got = [await gate.ask("POST", "/v1/chat/completions", chat()) for _ in range(6)]
                    assert Counter(each.status for each in got) == seen
                    assert ('retries_total{model="m",reason="503"}' in await gate.numbers()) == (status == 503)

    clock.run(main())


def test_a_plain_500_counts_neither_way() -> None:
    async def main() -> None:
        unhurried = {"every": "1h"}
        async with upstream(error_rate=1.0, error_status=500) as bad, gateway(document(bad.url, health=unhurried)) as gate:
            [failing] = gate.program.application.state.servers
            for _ in range(4):
                failing.began("one")
                failing.ended("one", failed=True)
            for _ in range(6):
                assert (await gate.ask("POST", "/v1/chat/completions", chat())).status == 500
                assert not failing.circuit_open
            failing.began("one")
            failing.ended("one", failed=True)
            assert failing.circuit_open

    clock.run(main())


def test_a_route_that_a_server_does_not_have_shuts_nobody_out() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, _ = await read_request(reader)
            if b"embeddings" in head:
                writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-type: text/plain\r\ncontent-length: 9\r\n\r\nnot found")
            else:
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}")

    async def main() -> None:
        async with raw_upstream(answer) as url, gateway(document(url, kind="openai", health={"failures": 2})) as gate:
            for _ in range(4):
                assert (await gate.ask("POST", "/v1/embeddings", {"model": "m", "input": "x"})).status == 404
            assert not gate.program.application.state.servers[0].circuit_open

    clock.run(main())


def test_tries_have_a_budget() -> None:
    async def main() -> None:
        async with upstream(error_rate=1.0, error_status=503) as bad:
            spec = document(bad.url, retries={"attempts": 1, "budget": 0.0, "minimum": 0}, health={"failures": 1000})
            async with gateway(spec) as gate:
                for _ in range(15):
                    assert (await gate.ask("POST", "/v1/chat/completions", chat())).status == 503
                assert bad.engine.received == 15 + 10
                assert "sliceworks_gateway_retry_budget_exhausted_total 5\n" in await gate.numbers()

    clock.run(main())


def test_a_line_that_the_server_has_just_closed_is_no_failure() -> None:
    asked: list[int] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head, _ = await read_request(reader)
            if head.startswith(b"POST") and len(asked) == 1:
                asked.append(1)
                return  # It takes the second request and hangs up, as a server does whose patience with idle lines is over.
            asked.extend([1] if head.startswith(b"POST") else [])
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}")

    async def main() -> None:
        retries = {"attempts": 0}
        async with raw_upstream(answer) as url, gateway(document(url, retries=retries, health={"every": "1h"})) as gate:
            await until(lambda: gate.program.application.state.servers[0].checked)
            got = [await gate.ask("POST", "/v1/chat/completions", chat()) for _ in range(2)]
            assert [each.status for each in got] == [200, 200]
            assert len(asked) == 3

    clock.run(main())


def test_a_look_on_a_line_that_the_server_has_just_closed_tells_nothing_of_it() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        await read_request(reader)

    async def main() -> None:
        async with raw_upstream(answer) as url:
            looked_at = server(url.removeprefix("http://"))
            assert [await check(looked_at) for _ in range(4)] == [True] * 4
            looked_at.close()

    clock.run(main())


def test_a_server_that_is_reached_too_late_is_not_asked() -> None:
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            asked.append((await read_request(reader))[0])
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")

    async def main() -> None:
        async with raw_upstream(answer) as url:
            pool = Pool("127.0.0.1", int(url.rpartition(":")[2]))
            late, soon = Exchange(), Exchange()
            connecting = asyncio.ensure_future(pool.begin(b"GET /late HTTP/1.1\r\n\r\n", b"", late, 5))
            await asyncio.sleep(0)
            late.fail(Late("its time is up"))
            await connecting
            with pytest.raises(Late):
                await late.wait(WHOLE)
            # The line is there for the next one.
            await pool.begin(b"GET /soon HTTP/1.1\r\n\r\n", b"", soon, 5)
            await soon.wait(WHOLE)
            assert (asked, pool.open) == ([b"GET /soon HTTP/1.1\r\n\r\n"], 1)
            pool.close()

    clock.run(main())


def test_a_line_that_is_given_up_while_it_is_made_is_not_kept(tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await reader.read()
        writer.close()

    async def give_up(pool: Pool, steps: int) -> None:
        exchange = Exchange()
        making = asyncio.ensure_future(pool.begin(b"GET / HTTP/1.1\r\n\r\n", b"", exchange, 0.5))
        for _ in range(steps):
            await asyncio.sleep(0)
        making.cancel()
        await asyncio.gather(making, return_exceptions=True)
        exchange.cancel()

    def kept(pool: Pool) -> int:
        gc.collect()
        return sum(isinstance(each, UpstreamConnection) and each._pool is pool for each in gc.get_objects())

    async def main() -> None:
        trusted, shown = ssl.create_default_context(cadata=renew(tmp_path).decode()), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        shown.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
        async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=shown) as listening:
            pool = Pool("127.0.0.1", listening.sockets[0].getsockname()[1], trusted)
            for steps in range(12):
                await give_up(pool, steps)
            await until(lambda: not kept(pool), 5)

    clock.run(main())


def test_streams_that_never_begin_are_given_to_another_server() -> None:
    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head, _ = await read_request(reader)
        if head.startswith(b"GET"):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")

    async def main() -> None:
        async with raw_upstream(half) as bad, upstream() as good, gateway(document(bad, good.url)) as gate:
            for _ in range(4):
                got = await gate.ask("POST", "/v1/chat/completions", chat(stream=True))
                assert got.body.endswith(b"data: [DONE]\n\n")

    clock.run(main())


def test_a_second_server_is_asked_when_the_first_takes_long_and_that_is_wanted() -> None:
    async def main() -> None:
        async with upstream(ttft=5.0) as slow, upstream() as quick:
            for hedge in ("20ms", None):
                spec = document(slow.url, quick.url, balancing={"hedgeAfter": hedge}, timeouts={"total": "600ms"})
                async with gateway(spec) as gate:
                    got = [await gate.ask("POST", "/v1/chat/completions", chat(stream=number % 2 == 0)) for number in range(4)]
                    statuses = Counter(each.status for each in got)
                    assert statuses == ({200: 4} if hedge else {200: 2, 504: 2})
                    assert ('reason="hedge"' in await gate.numbers()) == bool(hedge)
                    await until(lambda: slow.engine.under_way == 0)
                    assert gate.idle()

    clock.run(main())


def test_a_second_server_that_fails_changes_nothing() -> None:
    async def main() -> None:
        async with upstream(ttft=0.1) as slow, raw_upstream(_hang_up) as broken:
            spec = document(slow.url, broken, balancing={"hedgeAfter": "10ms"}, health={"every": "1h", "failures": 100})
            async with gateway(spec) as gate:
                await until(lambda: all(each.checked for each in gate.program.application.state.servers))
                for each in gate.program.application.state.servers:
                    each.well = True
                got = [await gate.ask("POST", "/v1/chat/completions", chat()) for _ in range(4)]
                assert {each.status for each in got} == {200}
                assert gate.idle()

    clock.run(main())


async def _hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
