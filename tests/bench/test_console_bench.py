"""The benchmark of the console runs from start to end and says what it found in the agreed form. Nothing is timed here."""

from __future__ import annotations

import orjson
import pytest
from tests.support import benches
from tests.support.browsers import chromium


@pytest.mark.real
def test_it_runs_and_says_what_it_found() -> None:
    chromium()
    done = benches.run("console", "--tiny", "--json-only")
    found = orjson.loads(done.stdout)
    assert list(found) == ["first", "next", "news", "still"]
    assert all(each["ratio"] >= 0 and each["goal"] == 1 for each in found.values())
    assert done.stderr == ""
