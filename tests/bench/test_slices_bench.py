"""The slices benchmark runs end to end and prints its results in the common format. Nothing is timed here."""

from __future__ import annotations

import orjson
from bench.harness.metric import limit
from tests.support import bench_script


def test_results_have_the_common_format() -> None:
    done = bench_script.run("slices", "--tiny", "--json-only")
    results = orjson.loads(done.stdout)
    assert list(results) == ["creates", "lists", "latency", "memory"]
    assert all(result["ratio"] >= 0 and set(result) == {"ratio", "goal"} for result in results.values())
    assert done.stderr == ""


def test_ratio_is_relative_to_the_limit() -> None:
    assert (limit("memory", "MB", 150, 75).ratio, limit("memory", "MB", 150, 75).verdict) == (2.0, "met")
    assert limit("creates", "s", 60, 80, goal=1 / 1.2).verdict == "MISSED"
