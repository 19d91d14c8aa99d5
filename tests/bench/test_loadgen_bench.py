"""The load test benchmark runs end to end and prints its results in the common format. Nothing is timed here."""

from __future__ import annotations

import orjson
from tests.support import bench_script


def test_results_have_the_common_format() -> None:
    done = bench_script.run("loadgen", "--tiny", "--json-only")
    results = orjson.loads(done.stdout)
    reports = ["report", "report_memory", "chunk_report", "chunk_report_memory"]
    unary = ["unary_rate", "unary_delay", "closed_loop", "closed_loop_wrk", "memory", "open_loop"]
    assert list(results) == [*unary, "stream_rate", "stream_delay", *reports]
    ratios = {name: result["ratio"] for name, result in results.items()}
    assert (ratios.pop("closed_loop"), ratios.pop("closed_loop_wrk")) == (None, None)  # peers are skipped
    assert all(ratio >= 0 for ratio in ratios.values())
    assert all(set(result) == {"ratio", "goal"} for result in results.values())
    assert done.stderr == ""
