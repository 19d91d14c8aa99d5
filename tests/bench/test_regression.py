"""Stored benchmark results, and the check for regressions, on recorded ratios. Nothing is timed here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
import pytest
from bench.__main__ import check
from bench.harness import record
from bench.harness.metric import Metric, limit
from bench.harness.record import compare

from sliceworks.base import clock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.__main__ import Ratios

STORED = {"creates": 2.5, "list": 2.0, "wrk": None}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    metrics = [Metric("creates", "per second", 2, baseline=[100, 300, 200], values=[500]), limit("list", "s", 1.0, 0.5)]
    record.write("api", {"full": [limit("creates", "s", 90, 10)], "quick": metrics}, ("real", "twin"), tmp_path)
    return tmp_path


def replay(*runs: Ratios | None) -> Callable[[str], Ratios | None]:
    remaining = iter(runs)
    return lambda name: next(remaining)


@pytest.mark.parametrize(("ratio", "result"), [(2.5, "ok"), (2.0, "ok"), (1.99, "REGRESSION"), (9.0, "ok"), (None, "not compared")])
def test_ratio_may_be_a_fifth_lower(ratio: float | None, result: str) -> None:
    assert [item.result for item in compare({"creates": 2.5}, {"creates": ratio})] == [result]


def test_missing_metric_is_a_regression_and_a_new_one_is_not_compared() -> None:
    results = {item.name: item.result for item in compare(STORED, {"creates": 2.4, "new": 1.0, "wrk": 3.0})}
    assert results == {"creates": "ok", "list": "REGRESSION", "wrk": "not compared", "new": "not compared"}


def test_results_have_date_commit_and_machine(folder: Path) -> None:
    runs = record.read("api", folder)
    assert set(runs) == {"full", "quick"}
    assert runs["quick"].ratios == {"creates": 2.5, "list": 2.0}
    assert runs["quick"].date == clock.now().date().isoformat()
    assert runs["quick"].commit
    assert runs["quick"].machine["cores"] >= 1
    assert runs["quick"].metrics["creates"] == {"unit": "per second", "baseline": 200, "value": 500, "ratio": 2.5, "goal": 2}


def test_new_run_replaces_only_runs_of_the_same_size(folder: Path) -> None:
    record.write("api", {"large": [limit("list", "times", 1.3, 1.0)]}, ("limit", "measured"), folder)
    runs = record.read("api", folder)
    assert set(runs) == {"full", "quick", "large"}
    assert runs["full"].ratios == {"creates": 9.0}


def test_check_compares_with_the_stored_quick_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(["api"], replay({"creates": 2.1, "list": 2.2}), folder) == 0
    output = capsys.readouterr().out
    assert "api.creates   2.50" in output
    assert "-16%" in output
    assert output.endswith("No regressions.\n")


def test_regression_in_two_runs_fails(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slow: Ratios = {"creates": 1.9, "list": 2.0}
    assert check(["api"], replay(slow, slow), folder) == 1
    assert capsys.readouterr().out.endswith("Failed: api.creates regressed.\n")
    assert check(["api"], replay(slow, {"creates": 2.6, "list": 1.0}), folder) == 0


def test_failed_script_fails_and_missing_results_do_not(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(["api"], replay(None), folder) == 1
    assert check(["slices"], replay(), folder) == 0
    assert "no stored results" in capsys.readouterr().out


def test_full_run_is_the_baseline_without_a_quick_one(folder: Path) -> None:
    runs = orjson.loads((folder / "api.json").read_bytes())
    (folder / "graphs.json").write_bytes(orjson.dumps({"full": runs["full"]}))
    assert check(["graphs"], replay({"creates": 8.0}), folder) == 0
    assert check(["graphs"], replay({"creates": 7.0}, {"creates": 7.0}), folder) == 1


def test_stored_results_name_existing_scripts_and_have_all_fields() -> None:
    stored = {path.stem for path in record.FOLDER.glob("*.json")}
    assert stored <= set(record.scripts())
    for name in stored:
        for run in record.read(name).values():
            assert all(set(values) == {"unit", "baseline", "value", "ratio", "goal"} for values in run.metrics.values())
            assert (run.date is None) == (run.commit is None)
            assert run.date or run.note
