"""The small pages of controllers, and what is counted there."""

from __future__ import annotations

import asyncio

import pytest

from sliceworks.base import clock
from sliceworks.base.errors import UsageError
from sliceworks.base.metrics import Registry
from sliceworks.controllers.serving import PageServer, health, numbers, parse_address


async def ask(port: int, line: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{line}\r\nhost: x\r\n\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    return answer


def test_probes_tell_life_and_readiness_apart() -> None:
    async def main() -> None:
        ready = False
        async with PageServer("127.0.0.1:0", health(lambda: ready)) as server:
            assert (await ask(server.port, "GET /healthz HTTP/1.1")).startswith("HTTP/1.1 200 OK")
            assert (await ask(server.port, "GET /readyz HTTP/1.1")).startswith("HTTP/1.1 500")
            ready = True
            assert (await ask(server.port, "GET /readyz?verbose HTTP/1.1")).startswith("HTTP/1.1 200 OK")
            assert (await ask(server.port, "GET /elsewhere HTTP/1.1")).startswith("HTTP/1.1 404")
            assert (await ask(server.port, "POST /healthz HTTP/1.1")).startswith("HTTP/1.1 405")
            assert (await ask(server.port, "nonsense")).startswith("HTTP/1.1 405")

    asyncio.run(main())


def test_numbers_are_served_as_prometheus_reads_them() -> None:
    registry = Registry()
    looks = registry.counter("looks_total", "Looks.", "kind")
    looks.add('a"b\\')
    looks.add("c", by=2)
    seconds = registry.histogram("seconds", "How long.", buckets=(0.1, 1.0))
    for value in (0.05, 0.5, 5.0):
        seconds.observe(value)
    registry.gauge("waiting", "How many wait.", lambda: 3)
    assert (
        registry.text()
        == """\
# HELP looks_total Looks.
# TYPE looks_total counter
looks_total{kind="a\\"b\\\\"} 1
looks_total{kind="c"} 2
# HELP seconds How long.
# TYPE seconds histogram
seconds_bucket{le="0.1"} 1
seconds_bucket{le="1"} 2
seconds_bucket{le="+Inf"} 3
seconds_sum 5.55
seconds_count 3
# HELP waiting How many wait.
# TYPE waiting gauge
waiting 3
"""
    )

    async def main() -> None:
        async with PageServer("127.0.0.1:0", numbers(registry.text)) as server:
            answer = await ask(server.port, "GET /metrics HTTP/1.1")
            assert "version=0.0.4" in answer
            assert answer.endswith("waiting 3\n")

    asyncio.run(main())


@pytest.mark.parametrize(
    ("text", "expected"),
    [("127.0.0.1:80", ("127.0.0.1", 80)), (":8078", (None, 8078)), ("[::1]:9", ("::1", 9)), ("host:0", ("host", 0))],
)
def test_an_address_is_a_host_and_a_port(text: str, expected: tuple[str | None, int]) -> None:
    assert parse_address(text) == expected


@pytest.mark.parametrize("text", ["8078", "host:", "host:99999", "host:x"])
def test_addresses_that_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="is no address"):
        parse_address(text)


def test_limit_on_requests() -> None:
    from sliceworks.controllers.limits import Limited
    from sliceworks.kube.transport import Request, Response

    class Instant:
        async def send(self, request: Request, *, stream: bool = False) -> Response:
            return Response(200)

        async def close(self) -> None:
            """Nothing to let go of."""

    async def main() -> None:
        limited = Limited(Instant(), qps=10, burst=5)
        began = clock.loop_time()
        await asyncio.gather(*(limited.send(Request("GET", "/")) for _ in range(25)))
        assert clock.loop_time() - began == pytest.approx(2.0)
        await asyncio.gather(*(limited.send(Request("GET", "/"), stream=True) for _ in range(25)))
        assert clock.loop_time() - began == pytest.approx(2.0)

    clock.run(main(), virtual=True)
