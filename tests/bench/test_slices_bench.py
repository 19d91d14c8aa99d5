"""The benchmark of slices runs from start to end and says what it found in the agreed form. Nothing is timed here."""

from __future__ import annotations

import orjson
from bench.measure.results import bounded
from tests.support import benches


def test_it_runs_and_says_what_it_found() -> None:
    done = benches.run("slices", "--tiny", "--json-only")
    found = orjson.loads(done.stdout)
    assert list(found) == ["creates", "lists", "latency", "memory"]
    assert all(each["ratio"] >= 0 and set(each) == {"ratio", "goal"} for each in found.values())
    assert done.stderr == ""


def test_a_ratio_says_how_far_inside_its_bound_something_is() -> None:
    assert (bounded("memory", "MB", 150, 75, 1).ratio, bounded("memory", "MB", 150, 75, 1).verdict) == (2.0, "met")
    assert bounded("creates", "s", 60, 80, 1 / 1.2).verdict == "MISSED"
