"""Libraries compared with the code that Sliceworks has, or had, instead: metrics, regular expressions, SQL of the twin's BigQuery.

    pip install prometheus-client && python bench/libraries.py [--quick | --large] [--json-only]

Progress goes to stderr. The last line on stdout is JSON: `{"render": {"ratio": 12.0, "goal": 1}, …}`. Without prometheus-client its
metrics are not compared. docs/explanation/libraries.md has the decisions.
"""

from __future__ import annotations

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
from sliceworks.base.metrics import Registry
from sliceworks.schemas.patterns import compile_pattern
from sliceworks.twin.cloud.google.bigquery import sql

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable

_NAME = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
_BACKTRACKING = "(a+)+$"
_BACKTRACKING_LETTERS = 20
"""`re` needs twice the time for each more letter."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Repetitions, time series, letters of a pattern's input, and rows of a table."""

    runs: int = 5
    series: int = 1_000
    letters: int = 100_000
    rows: int = 100_000


FULL = Sizes()
QUICK = Sizes(runs=3)
TINY = Sizes(1, 10, 100, 100)
LARGE = Sizes(5, 10_000, 1_000_000, 1_000_000)


def measure(sizes: Sizes, options: Namespace) -> list[Metric]:
    """Run all benchmarks at this size."""
    return [*_metrics(sizes), *_patterns(sizes), _sql(sizes)]


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


def _ms(name: str, unit: str, goal: float, *, amount: float | None = None) -> Metric:
    return Metric(name, f"ms, {unit}", goal, lower_is_better=True, amount=amount)


def _time(times: list[float], function: Callable[[], object], sizes: Sizes) -> None:
    """Append the milliseconds of some calls."""
    for _ in range(sizes.runs):
        started = time.perf_counter()
        function()
        times.append(1000 * (time.perf_counter() - started))


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
