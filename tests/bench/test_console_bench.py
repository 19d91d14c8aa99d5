"""The benchmark of the console runs from start to end and says what it found in the agreed form. Nothing is timed here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from tests.support.browsers import chromium

ROOT = Path(__file__).parents[2]


@pytest.mark.real
def test_it_runs_and_says_what_it_found() -> None:
    chromium()
    command = [sys.executable, "bench/console.py", "--tiny", "--json-only"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=100)
    found = orjson.loads(done.stdout)
    assert list(found) == ["first", "next", "news", "still"]
    assert all(each["ratio"] > 0 and each["goal"] == 1 for each in found.values())
    assert done.stderr == ""
