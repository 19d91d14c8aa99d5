"""The libraries benchmark runs end to end and prints its results in the common format. Nothing is timed here."""

from __future__ import annotations

import orjson
from tests.support import bench_script


def test_results_have_the_common_format() -> None:
    done = bench_script.run("libraries", "--tiny", "--json-only")
    results = orjson.loads(done.stdout)
    assert list(results) == ["import", "increment", "render", "search", "backtracking", "sql", "gateway-client", "load-client"]
    assert all(set(result) == {"ratio", "goal"} for result in results.values())
    assert results["sql"]["ratio"] > 0
    assert done.stderr == ""
