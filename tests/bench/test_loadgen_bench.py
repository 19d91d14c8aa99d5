"""The benchmark of load tests runs from start to end and says what it found in the agreed form. Nothing is timed here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orjson

ROOT = Path(__file__).parents[2]


def test_it_runs_and_says_what_it_found() -> None:
    command = [sys.executable, "bench/loadgen.py", "--tiny", "--json-only"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=110)
    found = orjson.loads(done.stdout)
    reports = ["report", "report: memory", "report of pieces", "report of pieces: memory"]
    assert list(found) == ["unary", "unary delay", "closed", "memory", "streams", "streams delay", *reports]
    compared = {name: each["ratio"] for name, each in found.items()}
    assert compared.pop("closed") is None  # the others are left out
    assert all(ratio > 0 for ratio in compared.values())
    assert all(set(each) == {"ratio", "goal"} for each in found.values())
