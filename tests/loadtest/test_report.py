"""Reports say what the run says, and a page cannot be broken by what stands in it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pytest
from tests.support.load_tests import failed, record, spec, written

from sliceworks.loadtest import arrivals, results, series
from sliceworks.loadtest.plans import Plan
from sliceworks.loadtest.prompts import Prompt, Prompts
from sliceworks.loadtest.report import html, markdown, words
from sliceworks.loadtest.rows import Failure
from sliceworks.loadtest.running import Outcome
from sliceworks.specs.objectives import parse

if TYPE_CHECKING:
    from pathlib import Path


def concluded(folder: Path, *, name: str = "test", stopped: str = "", **fields: Any) -> tuple[dict[str, Any], Plan]:
    asked = spec(stages=[{"constant": 10, "for": "2s"}, {"constant": 20, "for": "1s"}], **fields)
    schedule = arrivals.schedule(asked.stages, 0)
    records = [record(n, at / 1e9, first=0.05, ends=0.1 + n / 1000) for n, at in enumerate(schedule.moments.tolist())]
    records[3] = failed(3, records[3].intended / 1e9, Failure.STATUS, 503)
    plan = Plan(asked, schedule, Prompts((Prompt("x"),)), asked.target.url)
    return results.conclude(name, plan, Outcome(0.0, stopped, ()), written(folder, records), {"a": "b"}), plan


def test_what_is_written_down_can_be_read_again(tmp_path: Path) -> None:
    run, _ = concluded(tmp_path, slo=["errors < 10%", "e2e p99 < 1ms"])
    assert results.load(tmp_path) == orjson.loads(orjson.dumps(run))
    assert [each["kept"] for each in run["objectives"]] == [True, False]
    assert (run["valid"], run["kept"], run["tags"]) == (True, False, {"a": "b"})
    assert [phase["requests"] for phase in run["phases"]] == [20, 20]


def test_markdown(tmp_path: Path) -> None:
    run, _ = concluded(tmp_path, slo=["errors < 10%", "e2e p99 < 1ms"])
    text = markdown.render(run)
    assert "**missed: e2e p99 < 1ms**" in text
    assert "- errors: 2.50%, 1 × status 503" in text
    assert "| constant 20/s | 20 | 20 | 0.00% | 50 ms | 50 ms | 129 ms | 139 ms |" in text


def test_html_stands_alone_and_says_the_same(tmp_path: Path) -> None:
    run, plan = concluded(tmp_path)
    page = html.render(run, tmp_path, plan.schedule.moments / 1e9, 3.0, 0.0)
    assert not re.search(r'(src|href)="', page)
    charts = orjson.loads(re.search(r"const data = (.*);\n", page)[1].replace("<\\/", "</"))  # type: ignore[index]
    titles = {each["title"]: each for each in charts}
    rates = {each["name"]: each for each in titles["Requests per second"]["series"]}
    assert np.isclose(np.mean(rates["asked"]["y"][:8]), 10)
    assert np.allclose(rates["asked"]["y"], rates["sent"]["y"])
    assert sum(rates["failed"]["y"]) > 0
    slowest = titles["Distribution of times"]["series"][0]
    assert slowest["x"][-1] == pytest.approx(run["summary"]["times"]["e2e"]["max"])


def test_what_was_good_enough_is_drawn_where_there_are_objectives(tmp_path: Path) -> None:
    run, plan = concluded(tmp_path, slo=["e2e p99 < 120ms"])
    page = html.render(run, tmp_path, plan.schedule.moments / 1e9, 3.0, 0.0)
    drawn = series.over_time(tmp_path, 3.0, plan.schedule.moments / 1e9, (parse("e2e p99 < 120ms"),))
    assert "Within all objectives" in page
    assert sum(drawn["good"]) * 0.25 == 19  # of the first twenty, which take up to 119 ms, one failed
    assert sum(drawn["good"]) < sum(drawn["answered"])


def test_a_run_without_a_row_has_a_page(tmp_path: Path) -> None:
    asked = spec(slo=["e2e p99 < 1s"])
    plan = Plan(asked, arrivals.schedule(asked.stages, 0), Prompts((Prompt("x"),)), asked.target.url)
    run = results.conclude("none", plan, Outcome(0.0, "it broke off", ()), written(tmp_path, []), {})
    assert "no request was measured" in html.render(run, tmp_path, plan.schedule.moments / 1e9, 1.0, 0.0)


def test_a_name_cannot_break_the_page(tmp_path: Path) -> None:
    run, plan = concluded(tmp_path, name="</script><script>alert(1)</script>")
    page = html.render(run, tmp_path, plan.schedule.moments / 1e9, 3.0, 0.0)
    assert page.count("<script") == 1
    assert "alert(1)</script>" not in page


def test_a_figure_says_how_far_it_may_be_off() -> None:
    times = {"p50": 0.2, "p99": 1.0, "within": {"p50": (0.19, 0.21)}}
    (row,) = words.rows({"times": {"e2e": times}})
    assert row == ("end to end", "–", "200 ms ±5.0%", "–", "1 s", "–", "–")


def test_an_early_end_is_told(tmp_path: Path) -> None:
    run, _ = concluded(tmp_path, stopped="somebody pressed Ctrl-C")
    assert words.verdict(run) == "INVALID: ended early: somebody pressed Ctrl-C"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (0.0, "0 µs"), (0.00002, "20 µs"), (0.0123456, "12.3 ms"), (1.5, "1.5 s"), (123.4, "123 s"), (4321.0, "4,321 s")],
)
def test_times_have_the_unit_that_suits(seconds: float | None, text: str) -> None:
    assert words.time(seconds) == text
