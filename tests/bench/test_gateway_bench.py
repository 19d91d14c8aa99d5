"""The benchmark of the gateway runs from start to end and says what it found in the agreed form. Nothing is timed here."""

from __future__ import annotations

import orjson
from tests.support import benches

NAMES = ["unary_litellm", "unary_nginx", "added_p50", "added_p99", "stream_p99", "stream_apart", "long_prompt", "memory"]


def test_ours_alone() -> None:
    done = benches.run("gateway", "--tiny", "--ours-only")
    found = orjson.loads(done.stdout.splitlines()[-1])
    assert list(found) == NAMES
    assert all(set(each) == {"ratio", "goal"} for each in found.values())
    assert found["unary_nginx"]["ratio"] is None
    assert found["stream_apart"]["ratio"] == 1.0
    assert "streams   ours" in done.stderr
    assert "its cores stood still" in done.stderr
