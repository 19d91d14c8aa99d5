"""The API benchmark runs end to end and prints its results in the common format. Nothing is timed here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
import pytest
from bench.harness.metric import Metric, as_json, as_table, growth, limit
from tests.support import bench_script
from tests.support.clusters import real_enabled

if TYPE_CHECKING:
    import subprocess

NAMES = ["start", "start_workloads", "memory_workloads", "memory", "creates", "webhooks", "gets", "protobuf", "protobuf_json"]
NAMES += ["patches", "list", "watch", "memory_100k"]


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return bench_script.run("api", "--tiny", *options)


def test_twin_only() -> None:
    done = run("--twin-only")
    lines = done.stdout.splitlines()
    results = orjson.loads(lines[-1])
    assert list(results) == NAMES
    assert all(set(result) == {"ratio", "goal"} for result in results.values())
    assert "not compared" in done.stdout
    assert "creates" in done.stderr


@pytest.mark.real
@pytest.mark.skipif(not real_enabled(), reason="needs programs built from their Go modules: SLICEWORKS_REAL=1")
def test_twin_and_real() -> None:
    results = orjson.loads(run().stdout.splitlines()[-1])
    assert all(results[name]["ratio"] >= 0 for name in NAMES)


def test_ratio_compares_medians_with_the_baseline() -> None:
    rate = Metric("gets", "per second", 2, baseline=[100, 120, 80], values=[300, 290, 310])
    seconds = Metric("list", "seconds", 2, lower_is_better=True, baseline=[3.0], values=[2.0])
    alone = Metric("size", "MB", 1, values=[5])
    assert (rate.ratio, seconds.ratio, alone.ratio) == (3.0, 1.5, None)
    assert (rate.verdict, seconds.verdict, alone.verdict) == ("met", "MISSED", "not compared")
    assert "Goals missed: list." in as_table([rate, seconds, alone], ("real", "twin"))
    assert as_json([rate, seconds]) == '{"gets":{"ratio":3.0,"goal":2},"list":{"ratio":1.5,"goal":2}}'


def test_growth_compares_costs_per_unit() -> None:
    def metrics(rate: float, seconds: float, count: int) -> list[Metric]:
        return [
            Metric("gets", "per second", 2, values=[rate], amount=1),
            limit("list", "seconds", 1, seconds, amount=count),
            limit("start", "seconds", 1, 5),
        ]

    gets, listed = growth(metrics(2000, 0.5, 5_000), metrics(1000, 6, 50_000))
    assert (gets.name, gets.values, gets.verdict) == ("gets", [2.0], "MISSED")
    assert (listed.name, listed.verdict) == ("list", "met")
    assert listed.values == pytest.approx([1.2])
