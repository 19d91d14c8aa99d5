"""The benchmark of the API runs from start to end and says what it found in the agreed form. Nothing is timed here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
import pytest
from bench.measure.results import Measure, as_json, report
from tests.support import benches
from tests.support.clusters import real_wanted

if TYPE_CHECKING:
    import subprocess

NAMES = ["start", "memory", "creates", "gets", "patches", "list", "fanout", "size"]


def run(*options: str) -> subprocess.CompletedProcess[str]:
    return benches.run("api", "--tiny", *options)


def test_the_twin_alone() -> None:
    done = run("--twin-only")
    lines = done.stdout.splitlines()
    found = orjson.loads(lines[-1])
    assert list(found) == NAMES
    assert all(set(each) == {"ratio", "goal"} for each in found.values())
    assert "not compared" in done.stdout
    assert "creates" in done.stderr


@pytest.mark.real
@pytest.mark.skipif(not real_wanted(), reason="needs programs built from their Go modules: SLICEWORKS_REAL=1")
def test_both() -> None:
    found = orjson.loads(run().stdout.splitlines()[-1])
    assert all(found[name]["ratio"] >= 0 for name in NAMES)


def test_ratios_say_how_many_times_better_the_twin_is() -> None:
    more = Measure("gets", "per second", 2, real=[100, 120, 80], twin=[300, 290, 310])
    less = Measure("list", "seconds", 2, less_is_better=True, real=[3.0], twin=[2.0])
    alone = Measure("size", "MB", 1, twin=[5])
    assert (more.ratio, less.ratio, alone.ratio) == (3.0, 1.5, None)
    assert (more.verdict, less.verdict, alone.verdict) == ("met", "MISSED", "not compared")
    assert "Goals missed: list." in report([more, less, alone])
    assert as_json([more, less]) == '{"gets":{"ratio":3.0,"goal":2},"list":{"ratio":1.5,"goal":2}}'
