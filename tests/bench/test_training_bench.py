"""The training benchmark runs end to end and prints its results in the common format. Nothing is timed here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orjson
from tests.support import bench_script

ROOT = Path(__file__).parents[2]


def test_results_have_the_common_format() -> None:
    done = bench_script.run("training", "submit", "list", "--tiny", "--json-only", seconds=200)
    results = orjson.loads(done.stdout)
    assert list(results) == ["submit", "list"]
    assert all(result["ratio"] >= 0 and result["goal"] == 1 for result in results.values())
    assert done.stderr == ""


def test_unknown_benchmark_is_an_error() -> None:
    done = subprocess.run([sys.executable, "bench/training.py", "guess"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, "unknown benchmark 'guess' (known: submit, list, why, forecast)" in done.stderr) == (2, True)
