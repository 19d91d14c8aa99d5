"""The benchmark of `train why` runs from start to end and says what it found in the agreed form. Nothing is timed here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orjson

ROOT = Path(__file__).parents[2]


def test_it_runs_and_says_what_it_found() -> None:
    command = [sys.executable, "bench/why.py", "--jobs", "120", "--times", "1", "--json-only"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=100)
    found = orjson.loads(done.stdout)
    assert list(found) == ["answer", "command"]
    assert all(each["ratio"] > 0 and set(each) == {"ratio", "goal"} for each in found.values())
    assert done.stderr == ""
