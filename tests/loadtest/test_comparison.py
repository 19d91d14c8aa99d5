"""Comparisons of runs: real changes are found, random differences are not."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.support.load_tests import failed, record, written

from sliceworks.loadtest import comparison
from sliceworks.loadtest.comparison import Change, ComparedRun, compare
from sliceworks.loadtest.request_log import Failure

if TYPE_CHECKING:
    from pathlib import Path


def side(folder: Path, seed: int, *, times: float = 1.0, errors: int = 0) -> ComparedRun:
    folder.mkdir()
    random = np.random.default_rng(seed)
    latencies = random.lognormal(-1, 0.4, 2_000) * times
    records = [record(n, n / 100, first=float(item) / 2, ends=float(item)) for n, item in enumerate(latencies)]
    records += [failed(5_000 + n, n / 100, Failure.CLOSED) for n in range(errors)]
    written(folder, records)
    return ComparedRun(folder, 0.0, 20.0)


def by_name(changes: list[Change]) -> dict[str, Change]:
    return {change.metric: change for change in changes}


def test_same_server_shows_no_change(tmp_path: Path) -> None:
    wrong = 0
    for seed in range(2):
        result = compare(side(tmp_path / f"a{seed}", 2 * seed), side(tmp_path / f"b{seed}", 2 * seed + 1))
        wrong += sum(item.verdict != "same" for item in result)
    assert wrong <= 1  # of ten comparisons at 95 %, and only changes of five per cent count


def test_slower_server_is_worse_within_the_interval(tmp_path: Path) -> None:
    result = by_name(compare(side(tmp_path / "a", 1), side(tmp_path / "b", 2, times=1.3)))
    for name in ("e2e p50", "ttft p50"):
        assert result[name].verdict == "worse"
        assert result[name].low <= 0.3 <= result[name].high
    assert by_name(compare(side(tmp_path / "c", 1, times=1.3), side(tmp_path / "d", 2)))["e2e p50"].verdict == "better"


def test_more_errors_are_worse(tmp_path: Path) -> None:
    result = by_name(compare(side(tmp_path / "a", 1), side(tmp_path / "b", 2, errors=100)))
    assert result["errors"].verdict == "worse"
    assert result["errors"].after > 0.04
    assert result["e2e p50"].verdict == "same"


def test_correlated_slowness_is_not_significant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs of one server that is slow or fast for fifty requests at a time."""
    random = np.random.default_rng(3)
    runs = [np.exp(np.repeat(random.normal(0, 0.4, 40), 50) + random.normal(0, 0.1, 2_000)) for _ in range(16)]
    monkeypatch.setattr(comparison, "_RESAMPLES", 100)

    def is_significant() -> int:
        changes = [comparison._change("", [one, other], 50.0, 0.05, random) for one, other in itertools.pairwise(runs)]
        return sum(not change.low <= 0 <= change.high for change in changes)

    assert is_significant() <= 3
    # If rows were resampled one by one, most pairs would seem to differ.
    monkeypatch.setattr(comparison, "_BLOCKS", 500)
    assert is_significant() >= 7


def test_error_burst_is_one_event(tmp_path: Path) -> None:
    def burst(folder: Path, errors: int) -> ComparedRun:
        folder.mkdir()
        records = [record(n, n / 100) for n in range(2_000 - errors)]
        written(folder, records + [failed(2_000 - errors + n, (2_000 - errors + n) / 100, Failure.CLOSED) for n in range(errors)])
        return ComparedRun(folder, 0.0, 20.0)

    result = by_name(compare(burst(tmp_path / "a", 0), burst(tmp_path / "b", 40)))["errors"]
    assert result.after == pytest.approx(0.02)
    assert result.low <= 0 < result.high
    assert result.verdict == "same"


def test_percentile_needs_enough_samples_beyond_it(tmp_path: Path) -> None:
    result = by_name(compare(side(tmp_path / "a", 1), side(tmp_path / "b", 2)))
    assert {"e2e p50", "e2e p90", "e2e p99"} <= set(result)
    early = [ComparedRun(tmp_path / name, 0.0, 5.0) for name in ("a", "b")]
    assert {"e2e p50", "e2e p90"} == {name for name in by_name(compare(*early)) if name.startswith("e2e")}
