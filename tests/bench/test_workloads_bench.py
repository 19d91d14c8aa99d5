"""The workloads benchmark runs end to end and prints its results in the common format. Nothing is timed here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
import pytest
from bench.workloads import QUICK, Sizes, stretch
from tests.support import bench_script
from tests.support.clusters import real_enabled

if TYPE_CHECKING:
    import subprocess

NAMES = ["kueue", "kueue_wait", "kueue_growth", "pods", "pod_memory", "pod_growth", "kwok"]


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return bench_script.run("workloads", "--tiny", *options)


def test_twin_only() -> None:
    done = run("--twin-only")
    results = orjson.loads(done.stdout.splitlines()[-1])
    assert list(results) == NAMES
    assert all(set(result) == {"ratio", "goal"} for result in results.values())
    assert results["kwok"]["ratio"] is None
    assert results["pod_memory"]["ratio"] >= 0
    assert "100 pods in" in done.stderr


def test_single_benchmark_as_json() -> None:
    done = run("kueue", "--json-only")
    assert list(orjson.loads(done.stdout)) == NAMES[:3]
    assert done.stderr == ""


@pytest.mark.real
@pytest.mark.skipif(not real_enabled(), reason="needs programs built from their Go modules: SLICEWORKS_REAL=1")
def test_comparison_with_kwok() -> None:
    assert orjson.loads(run("kwok").stdout.splitlines()[-1])["kwok"]["ratio"] >= 0


def test_smaller_run_has_the_same_growth_bound() -> None:
    assert stretch(Sizes()) == 1.0
    assert stretch(QUICK) * (QUICK.larger_scale / QUICK.scale) == pytest.approx(50_000 / 15_000)
