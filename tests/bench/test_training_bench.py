"""The benchmark of training commands runs from start to end and says what it found in the agreed form. Nothing is timed here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orjson
from tests.support import benches

ROOT = Path(__file__).parents[2]


def test_it_runs_and_says_what_it_found() -> None:
    done = benches.run("training", "submit", "list", "--tiny", "--json-only", seconds=200)
    found = orjson.loads(done.stdout)
    assert list(found) == ["submit", "list"]
    assert all(each["ratio"] >= 0 and each["goal"] == 1 for each in found.values())
    assert done.stderr == ""


def test_an_unknown_measure_is_refused() -> None:
    done = subprocess.run([sys.executable, "bench/training.py", "guess"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, "there are submit, list, why, forecast" in done.stderr) == (2, True)
