"""The benchmark of load tests runs from start to end and says what it found in the agreed form. Nothing is timed here."""

from __future__ import annotations

import orjson
from tests.support import benches


def test_it_runs_and_says_what_it_found() -> None:
    done = benches.run("loadgen", "--tiny", "--json-only")
    found = orjson.loads(done.stdout)
    reports = ["report", "report: memory", "report of pieces", "report of pieces: memory"]
    assert list(found) == ["unary", "unary delay", "closed", "memory", "streams", "streams delay", *reports]
    compared = {name: each["ratio"] for name, each in found.items()}
    assert compared.pop("closed") is None  # the others are left out
    assert all(ratio >= 0 for ratio in compared.values())
    assert all(set(each) == {"ratio", "goal"} for each in found.values())
    assert done.stderr == ""
