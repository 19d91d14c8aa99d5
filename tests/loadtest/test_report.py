"""Reports equal the run's result, and names in a page are escaped."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pytest
from tests.support.load_tests import failed, record, spec, written

from sliceworks.loadtest import load_plan, results, run_statistics
from sliceworks.loadtest.load_plan import Plan
from sliceworks.loadtest.prompts import Prompt, Prompts
from sliceworks.loadtest.report import formatter, renderer
from sliceworks.loadtest.request_log import Failure
from sliceworks.loadtest.runner import Outcome
from sliceworks.specs.objectives import parse_objective

if TYPE_CHECKING:
    from pathlib import Path


def concluded(folder: Path, *, name: str = "test", stopped: str = "", **fields: Any) -> tuple[dict[str, Any], Plan]:
    load_test = spec(stages=[{"constant": 10, "for": "2s"}, {"constant": 20, "for": "1s"}], **fields)
    schedule = load_plan.schedule_arrivals(load_test.stages, 0)
    records = [record(n, at / 1e9, first=0.05, ends=0.1 + n / 1000) for n, at in enumerate(schedule.due_times.tolist())]
    records[3] = failed(3, records[3].intended / 1e9, Failure.STATUS, 503)
    plan = Plan(load_test, schedule, Prompts((Prompt("x"),)), load_test.target.url)
    return results.write_results(name, plan, Outcome(0.0, stopped, ()), written(folder, records), {"a": "b"}), plan


def test_result_round_trip(tmp_path: Path) -> None:
    run, _ = concluded(tmp_path, slo=["errors < 10%", "e2e p99 < 1ms"])
    assert results.load(tmp_path) == orjson.loads(orjson.dumps(run))
    assert [item["met"] for item in run["objectives"]] == [True, False]
    assert (run["valid"], run["met"], run["tags"]) == (True, False, {"a": "b"})
    assert [phase["requests"] for phase in run["phases"]] == [20, 20]


def test_markdown(tmp_path: Path) -> None:
    run, _ = concluded(tmp_path, slo=["errors < 10%", "e2e p99 < 1ms"])
    text = renderer.render_markdown(run)
    assert "**missed: e2e p99 < 1ms**" in text
    assert "- errors: 2.50%, 1 × status 503" in text
    assert "| constant 20/s | 20 | 20 | 0.00% | 50 ms | 50 ms | 129 ms | 139 ms |" in text


def test_html_is_self_contained(tmp_path: Path) -> None:
    run, plan = concluded(tmp_path)
    page = renderer.render_html(run, tmp_path, plan.schedule.due_times / 1e9, 3.0, 0.0)
    assert not re.search(r'(src|href)="', page)
    charts = orjson.loads(re.search(r"const data = (.*);\n", page)[1].replace("<\\/", "</"))  # type: ignore[index]
    titles = {item["title"]: item for item in charts}
    rates = {item["name"]: item for item in titles["Requests per second"]["series"]}
    assert np.isclose(np.mean(rates["scheduled"]["y"][:8]), 10)
    assert np.allclose(rates["scheduled"]["y"], rates["sent"]["y"])
    assert sum(rates["failed"]["y"]) > 0
    slowest = titles["Distribution of times"]["series"][0]
    assert slowest["x"][-1] == pytest.approx(run["summary"]["latencies"]["e2e"]["max"])


def test_goodput_chart_needs_objectives(tmp_path: Path) -> None:
    run, plan = concluded(tmp_path, slo=["e2e p99 < 120ms"])
    page = renderer.render_html(run, tmp_path, plan.schedule.due_times / 1e9, 3.0, 0.0)
    drawn = run_statistics.time_series(tmp_path, 3.0, plan.schedule.due_times / 1e9, (parse_objective("e2e p99 < 120ms"),))
    assert "Within all objectives" in page
    assert sum(drawn["good"]) * 0.25 == 19  # of the first twenty, which take up to 119 ms, one failed
    assert sum(drawn["good"]) < sum(drawn["completed"])


def test_page_of_run_without_rows(tmp_path: Path) -> None:
    load_test = spec(slo=["e2e p99 < 1s"])
    plan = Plan(load_test, load_plan.schedule_arrivals(load_test.stages, 0), Prompts((Prompt("x"),)), load_test.target.url)
    run = results.write_results("none", plan, Outcome(0.0, "it broke off", ()), written(tmp_path, []), {})
    assert "no request was measured" in renderer.render_html(run, tmp_path, plan.schedule.due_times / 1e9, 1.0, 0.0)


def test_names_are_escaped(tmp_path: Path) -> None:
    run, plan = concluded(tmp_path, name="</script><script>alert(1)</script>")
    page = renderer.render_html(run, tmp_path, plan.schedule.due_times / 1e9, 3.0, 0.0)
    assert page.count("<script") == 1
    assert "alert(1)</script>" not in page


def test_figures_have_confidence_intervals() -> None:
    times = {"p50": 0.2, "p99": 1.0, "confidence": {"p50": (0.19, 0.21)}}
    (row,) = formatter.latency_rows({"latencies": {"e2e": times}})
    assert row == ("end to end", "–", "200 ms ±5.0%", "–", "1 s", "–", "–")


def test_early_end_is_reported(tmp_path: Path) -> None:
    run, _ = concluded(tmp_path, stopped="interrupted by Ctrl-C")
    assert formatter.verdict(run) == "INVALID: ended early: interrupted by Ctrl-C"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (0.0, "0 µs"), (0.00002, "20 µs"), (0.0123456, "12.3 ms"), (1.5, "1.5 s"), (123.4, "123 s"), (4321.0, "4,321 s")],
)
def test_times_have_a_suitable_unit(seconds: float | None, text: str) -> None:
    assert formatter.format_seconds(seconds) == text
