"""The console benchmark runs end to end and prints its results in the common format. Nothing is timed here."""

from __future__ import annotations

import orjson
import pytest
from tests.support import bench_script
from tests.support.browsers import chromium


@pytest.mark.real
def test_results_have_the_common_format() -> None:
    chromium()
    done = bench_script.run("console", "--tiny", "--json-only")
    results = orjson.loads(done.stdout)
    assert list(results) == ["first_page", "navigation", "update", "longest_frame"]
    assert all(result["ratio"] >= 0 and result["goal"] == 1 for result in results.values())
    assert done.stderr == ""
