"""The command line of benchmark scripts: sizes, the comparison with --large, and which runs are stored. Nothing is timed here."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import orjson
import pytest
from bench.harness import record
from bench.harness.command import Profiles, Script
from bench.harness.metric import Metric, limit

if TYPE_CHECKING:
    from argparse import Namespace


class FakeScript:
    """A script whose cost per unit is 10 % higher at the large size, and the runs that it stored."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.sizes: list[int] = []
        self.stored: dict[str, list[str]] = {}
        monkeypatch.setattr(record, "write", self._write)

    def _write(self, name: str, runs: dict[str, list[Metric]], columns: tuple[str, str]) -> str:
        self.stored = {kind: [metric.name for metric in metrics] for kind, metrics in runs.items()}
        return f"{name}.json"

    def _measure(self, size: int, options: Namespace) -> list[Metric]:
        self.sizes.append(size)
        factor = 1.1 if size == 1000 else 1.0
        peer = [] if options.no_peers else [500.0]
        return [
            limit("list", "s", 100, size * factor, amount=size),
            Metric("rate", "per second", 1, baseline=peer, values=[1000.0]),
        ]

    def run(self, *arguments: str) -> None:
        self._monkeypatch.setattr(sys, "argv", ["bench", *arguments])
        profiles = Profiles(full=100, quick=10, tiny=1, large=1000)
        Script("fake", "A fake.", profiles, self._measure, benchmarks=("list", "rate"), peers="--ours-only").main()


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> FakeScript:
    return FakeScript(monkeypatch)


def last_line(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, float | None]]:
    results: dict[str, dict[str, float | None]] = orjson.loads(capsys.readouterr().out.splitlines()[-1])
    return results


def test_full_run_is_stored_with_a_quick_one(script: FakeScript, capsys: pytest.CaptureFixture[str]) -> None:
    script.run()
    assert script.sizes == [100, 10]
    assert script.stored == {"full": ["list", "rate"], "quick": ["list", "rate"]}
    assert last_line(capsys) == {"list": {"ratio": 1.0, "goal": 1}, "rate": {"ratio": 2.0, "goal": 1}}


def test_large_run_compares_the_cost_per_unit(script: FakeScript, capsys: pytest.CaptureFixture[str]) -> None:
    script.run("--large")
    assert script.sizes == [100, 1000]
    assert script.stored == {"large": ["list"]}
    assert last_line(capsys) == {"list": {"ratio": 1.18, "goal": 1}}


@pytest.mark.parametrize(("arguments", "size"), [(["--quick"], 10), (["--tiny"], 1), (["list"], 100), (["--ours-only"], 100)])
def test_incomplete_run_is_not_stored(script: FakeScript, arguments: list[str], size: int) -> None:
    script.run(*arguments)
    assert script.sizes == [size]
    assert script.stored == {}


def test_sizes_exclude_each_other(script: FakeScript, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        script.run("--quick", "--large")
    assert "not allowed with argument" in capsys.readouterr().err
