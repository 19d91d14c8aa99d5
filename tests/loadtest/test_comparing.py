"""Changes that are there are found; changes that are chance are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from tests.support.load_tests import failed, record, written

from sliceworks.loadtest.comparing import Change, Side, compare
from sliceworks.loadtest.rows import Failure

if TYPE_CHECKING:
    from pathlib import Path


def side(folder: Path, seed: int, *, times: float = 1.0, errors: int = 0) -> Side:
    folder.mkdir()
    random = np.random.default_rng(seed)
    latencies = random.lognormal(-1, 0.4, 2_000) * times
    records = [record(n, n / 100, first=float(each) / 2, ends=float(each)) for n, each in enumerate(latencies)]
    records += [failed(5_000 + n, n / 100, Failure.CLOSED) for n in range(errors)]
    written(folder, records)
    return Side(folder, 0.0, 20.0)


def by_name(changes: list[Change]) -> dict[str, Change]:
    return {each.figure: each for each in changes}


def test_the_same_server_twice_is_the_same(tmp_path: Path) -> None:
    wrong = 0
    for seed in range(2):
        found = compare(side(tmp_path / f"a{seed}", 2 * seed), side(tmp_path / f"b{seed}", 2 * seed + 1))
        wrong += sum(each.verdict != "same" for each in found)
    assert wrong <= 1  # of ten comparisons, at 95 %, and only changes of five per cent count


def test_a_slower_server_is_worse_and_the_interval_holds_the_truth(tmp_path: Path) -> None:
    found = by_name(compare(side(tmp_path / "a", 1), side(tmp_path / "b", 2, times=1.3)))
    for name in ("e2e p50", "ttft p50"):
        assert found[name].verdict == "worse"
        assert found[name].low <= 0.3 <= found[name].high
    assert by_name(compare(side(tmp_path / "c", 1, times=1.3), side(tmp_path / "d", 2)))["e2e p50"].verdict == "better"


def test_more_errors_are_worse(tmp_path: Path) -> None:
    found = by_name(compare(side(tmp_path / "a", 1), side(tmp_path / "b", 2, errors=100)))
    assert found["errors"].verdict == "worse"
    assert found["errors"].after > 0.04
    assert found["e2e p50"].verdict == "same"
