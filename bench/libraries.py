"""Libraries compared with the code that Sliceworks has, or had, instead: metrics, patterns, SQL of the twin, HTTP clients.

    pip install prometheus-client && python bench/libraries.py [--quick | --large] [--json-only]

Progress goes to stderr. The last line on stdout is JSON: `{"render": {"ratio": 12.0, "goal": 1}, …}`. Without prometheus-client its
metrics are not compared. docs/explanation/libraries.md has the decisions.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.harness.command import Profiles, Script
from bench.harness.metric import Metric

from sliceworks.base import progress
from sliceworks.base.http_transport import HttpTransport
from sliceworks.base.metrics import Registry
from sliceworks.base.transport import Request
from sliceworks.schemas.patterns import compile_pattern
from sliceworks.serving.gateway.http_client import COMPLETE, ConnectionPool, Exchange
from sliceworks.twin.cloud.google.bigquery import sql

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Awaitable, Callable

_NAME = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_BACKTRACKING = "(a+)+$"
_BACKTRACKING_LETTERS = 20
"""`re` needs twice the time for each more letter."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Repetitions, time series, letters of a pattern's input, rows of a table, and streamed responses."""

    runs: int = 5
    series: int = 1_000
    letters: int = 100_000
    rows: int = 100_000
    streams: int = 400


FULL = Sizes()
QUICK = Sizes(runs=3)
TINY = Sizes(1, 10, 100, 100, 4)
LARGE = Sizes(5, 10_000, 1_000_000, 1_000_000, 4_000)


def measure(sizes: Sizes, options: Namespace) -> list[Metric]:
    """Run all benchmarks at this size."""
    return [*_metrics(sizes), *_patterns(sizes), _sql(sizes), *_http_clients(sizes)]


def _metrics(sizes: Sizes) -> list[Metric]:
    labels = [(f"model-{number}", "200") for number in range(sizes.series)]
    registry = Registry()
    counter = registry.counter("requests_total", "Requests.", "model", "code")
    startup = _ms("import", "import, prometheus-client", 1)
    increments = _ms("increment", f"{sizes.series:,} increments, prometheus-client", 1, amount=sizes.series)
    render = _ms("render", f"render {sizes.series:,} series, prometheus-client", 1, amount=sizes.series)
    _import(startup.values, "sliceworks.base.metrics", sizes)
    _time(increments.values, lambda: _for_each(labels, counter.inc), sizes)
    _time(render.values, registry.render, sizes)
    if find_spec("prometheus_client") is None:
        progress.say("prometheus-client is not installed; skipping it")
        return [startup, increments, render]
    import prometheus_client as prometheus  # type: ignore[import-not-found]

    peer_registry = prometheus.CollectorRegistry()
    peer = prometheus.Counter("requests", "Requests.", ["model", "code"], registry=peer_registry)
    _import(startup.baseline, "prometheus_client", sizes)
    _time(increments.baseline, lambda: _for_each(labels, lambda *names: peer.labels(*names).inc()), sizes)
    _time(render.baseline, lambda: prometheus.generate_latest(peer_registry), sizes)
    return [startup, increments, render]


def _for_each(labels: list[tuple[str, str]], increment: Callable[..., None]) -> None:
    for names in labels:
        increment(*names)


def _patterns(sizes: Sizes) -> list[Metric]:
    """google-re2, which we use, compared with `re`: slower for simple patterns, linear for all."""
    search = _ms("search", "1,000 searches of a name, re", 0.01)
    ours, peer = compile_pattern(_NAME), re.compile(_NAME)
    _time(search.values, lambda: [ours.search("my-name-of-a-pool") for _ in range(1000)], sizes)
    _time(search.baseline, lambda: [peer.search("my-name-of-a-pool") for _ in range(1000)], sizes)
    unit = f"{_BACKTRACKING} on {sizes.letters:,} letters, re on {_BACKTRACKING_LETTERS}"
    backtracking = _ms("backtracking", unit, 10, amount=sizes.letters)
    ours, peer = compile_pattern(_BACKTRACKING), re.compile(_BACKTRACKING)
    _time(backtracking.values, lambda: ours.search("a" * sizes.letters + "!"), sizes)
    _time(backtracking.baseline, lambda: peer.search("a" * _BACKTRACKING_LETTERS + "!"), sizes)
    return [search, backtracking]


def _sql(sizes: Sizes) -> Metric:
    columns = [{"name": "model", "type": "STRING"}, {"name": "tokens", "type": "INTEGER"}]
    rows = [[f"model-{number % 10}", number] for number in range(sizes.rows)]
    statement = "SELECT model, COUNT(*) AS n, SUM(tokens) AS total FROM load.rows WHERE tokens > 10 GROUP BY model ORDER BY model"
    query = sql.parse(statement)

    def in_sqlite() -> list[Any]:
        with sqlite3.connect(":memory:") as database:
            database.execute("CREATE TABLE rows (model TEXT, tokens INTEGER)")
            database.executemany("INSERT INTO rows VALUES (?, ?)", rows)
            return [list(row) for row in database.execute(statement.replace("load.rows", "rows"))]

    assert in_sqlite() == sql.execute(query, columns, rows, {})[1]
    metric = _ms("sql", f"group {sizes.rows:,} rows, sqlite3", 0.25, amount=sizes.rows)
    _time(metric.values, lambda: sql.execute(query, columns, rows, {}), sizes)
    _time(metric.baseline, in_sqlite, sizes)
    return metric


_CHUNKS, _CONCURRENT = 32, 20
_PATH = "/v1/chat/completions"
_REQUEST = f"POST {_PATH} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n".encode()


def _http_clients(sizes: Sizes) -> list[Metric]:
    """CPU time of responses that are streamed in chunks, with each client; the server is another process."""
    command = [sys.executable, "-m", "bench.harness.instant_backend", str(_CHUNKS), "0.002"]
    with subprocess.Popen(command, cwd=Path(__file__).parents[1], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        try:
            unit = f"CPU of {sizes.streams:,} streams of {_CHUNKS} chunks"
            gateway = _ms("gateway-client", f"{unit}, aiohttp", 1, amount=sizes.streams)
            _time(gateway.values, lambda: asyncio.run(_gateway_streams(port, sizes)), sizes, cpu=True)
            _time(gateway.baseline, lambda: asyncio.run(_aiohttp_streams(port, sizes)), sizes, cpu=True)
            loads = _ms("load-client", f"{unit}, geventhttpclient", 1, amount=sizes.streams)
            if find_spec("gevent") is None:
                progress.say("gevent is not installed; skipping it")
                return [gateway]
            _time(loads.values, lambda: _load_streams(port, sizes), sizes, cpu=True)
            _time(loads.baseline, lambda: _gevent_streams(port, sizes), sizes, cpu=True)
            return [gateway, loads]
        finally:
            server.terminate()


async def _concurrently(stream: Callable[[], Awaitable[None]], sizes: Sizes) -> None:
    async def several() -> None:
        for _ in range(max(sizes.streams // _CONCURRENT, 1)):
            await stream()

    await asyncio.gather(*(several() for _ in range(_CONCURRENT)))


async def _gateway_streams(port: int, sizes: Sizes) -> None:
    pool = ConnectionPool("127.0.0.1", port)

    async def stream() -> None:
        exchange = Exchange()
        exchange.sink = exchange.chunks.append
        await pool.start(_REQUEST, b"", exchange, 10)
        await exchange.wait(COMPLETE)
        assert exchange.chunks

    await _concurrently(stream, sizes)
    pool.close()


async def _aiohttp_streams(port: int, sizes: Sizes) -> None:
    transport = HttpTransport(f"http://127.0.0.1:{port}")

    async def stream() -> None:
        response = await transport.send(Request("POST", _PATH), stream=True)
        assert response.stream is not None
        assert [chunk async for chunk in response.stream]

    await _concurrently(stream, sizes)
    await transport.close()


def _load_streams(port: int, sizes: Sizes) -> None:
    """The client of load tests; its callbacks need no greenlets."""
    from gevent.event import Event

    from sliceworks.loadtest.generator.http_client import HttpClient
    from sliceworks.loadtest.generator.response_reader import RawReader
    from sliceworks.loadtest.request_log import RequestRecord
    from sliceworks.specs.load_test import RequestTimeouts

    client, done = HttpClient(f"http://127.0.0.1:{port}", RequestTimeouts(), time.perf_counter_ns), Event()
    left = [sizes.streams, sizes.streams]

    def send(_: object = None) -> None:
        left[0] -= 1
        client.send(_REQUEST, RawReader(RequestRecord(0, 0, 0)), ended)

    def ended(_: object) -> None:
        left[1] -= 1
        if left[0] > 0:
            send()
        if not left[1]:
            done.set()

    for _ in range(min(_CONCURRENT, sizes.streams)):
        send()
    done.wait()
    client.close()


def _gevent_streams(port: int, sizes: Sizes) -> None:
    """The client of Locust's FastHttpUser."""
    import gevent
    from geventhttpclient import HTTPClient

    client = HTTPClient("127.0.0.1", port, concurrency=_CONCURRENT)

    def several() -> None:
        for _ in range(max(sizes.streams // _CONCURRENT, 1)):
            response = client.request("POST", _PATH, b"")
            while response.read(1024):
                pass

    gevent.joinall([gevent.spawn(several) for _ in range(_CONCURRENT)], raise_error=True)
    client.close()


def _ms(name: str, unit: str, goal: float, *, amount: float | None = None) -> Metric:
    return Metric(name, f"ms, {unit}", goal, lower_is_better=True, amount=amount)


def _time(times: list[float], function: Callable[[], object], sizes: Sizes, *, cpu: bool = False) -> None:
    """Append the milliseconds of some calls, or of CPU time."""
    now = time.process_time if cpu else time.perf_counter
    for _ in range(sizes.runs):
        started = now()
        function()
        times.append(1000 * (now() - started))


def _import(times: list[float], module: str, sizes: Sizes) -> None:
    """Append the milliseconds that an import adds to the start of Python."""
    for _ in range(sizes.runs):
        starts: list[float] = []
        for code in ("pass", f"import {module}"):
            _time(starts, lambda code=code: subprocess.run([sys.executable, "-c", code], check=True), Sizes(runs=1))  # type: ignore[misc]
        times.append(max(starts[1] - starts[0], 0.1))


SCRIPT = Script(
    "libraries",
    "Libraries compared with the code that Sliceworks has, or had, instead.",
    Profiles(FULL, QUICK, TINY, LARGE),
    measure,
    ("library", "ours"),
)

if __name__ == "__main__":
    SCRIPT.main()
