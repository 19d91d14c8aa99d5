"""The benchmark of workloads runs from start to end and says what it found in the agreed form. Nothing is timed here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
import pytest
from bench.workloads import QUICK, Sizes, stretch
from tests.support import benches
from tests.support.clusters import real_wanted

if TYPE_CHECKING:
    import subprocess

NAMES = ["kueue", "kueue averages", "kueue growth", "size", "size memory", "size growth", "kwok"]


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return benches.run("workloads", "--tiny", *options)


def test_the_twin_alone() -> None:
    done = run("--twin-only")
    found = orjson.loads(done.stdout.splitlines()[-1])
    assert list(found) == NAMES
    assert all(set(each) == {"ratio", "goal"} for each in found.values())
    assert found["kwok"]["ratio"] is None
    assert found["size memory"]["ratio"] >= 0
    assert "100 pods in" in done.stderr


def test_one_of_them_and_nothing_but_json() -> None:
    done = run("kueue", "--json-only")
    assert list(orjson.loads(done.stdout)) == NAMES[:3]
    assert done.stderr == ""


@pytest.mark.real
@pytest.mark.skipif(not real_wanted(), reason="needs programs built from their Go modules: SLICEWORKS_REAL=1")
def test_beside_kwok() -> None:
    assert orjson.loads(run("kwok").stdout.splitlines()[-1])["kwok"]["ratio"] >= 0


def test_a_smaller_run_is_held_against_the_same_growth() -> None:
    assert stretch(Sizes()) == 1.0
    assert stretch(QUICK) * (QUICK.larger / QUICK.scale) == pytest.approx(50_000 / 15_000)
