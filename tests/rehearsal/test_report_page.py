"""The report page of a run: its content, escaping and size."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import orjson
import pytest
from tests.support.eventful_run import eventful_run
from tests.support.rehearsal_runs import large_run

from sliceworks.base.html_page import read_asset
from sliceworks.rehearsal.record import CheckResult, Incident, RunRecord, Series, StepRecord
from sliceworks.rehearsal.report import figures
from sliceworks.rehearsal.report.chart_data import build_chart_data, chip_usage
from sliceworks.rehearsal.report.page import render

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'<!--"


class Page(HTMLParser):
    """The text of a page, its elements, and its scripts."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words, self.scripts = "", ""
        self._inside = ""
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag if tag in {"script", "style"} else self._inside

    def handle_endtag(self, tag: str) -> None:
        self._inside = "" if tag == self._inside else self._inside

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts += data
        elif not self._inside:
            self.words += data

    @property
    def data(self) -> dict[str, Any]:
        """The data of the chart script."""
        line = next(line for line in self.scripts.splitlines() if line.startswith("const data = "))
        result: dict[str, Any] = orjson.loads(line.removeprefix("const data = ").removesuffix(";"))
        return result


def test_page_contains_the_whole_run() -> None:
    page = Page(render(eventful_run()))
    for words in (
        "✗ 1 failure",
        "failed: 3 restarts were used up",
        "1. No v4 machines in us-central2-b",
        "✓ recovered after 8 min",
        "asked for the slice in us-central2-a, from the reservation",
        "✗ not recovered",
        "waits for 128 chips of v5e in queue language",
        "47.0 chip hours have no published price",
        "first token p99 at most 200 ms: 93 ms",
    ):
        assert words in page.words, words
    assert [group["name"] for group in page.data["groups"]] == [
        "Steps", "language", "serving", "vision", "Slices", "Models and graphs",
    ]  # fmt: skip
    assert ("a", {"href": "load/chat/report.html"}) in page.tags


def test_page_lists_leftovers() -> None:
    day = replace(eventful_run(), leftovers=("NodePool v5e-0", "Disk scratch"))
    assert "Left in the cloud after destroy: NodePool v5e-0, Disk scratch." in Page(render(day)).words


def test_page_loads_nothing_from_the_network() -> None:
    page = Page(render(eventful_run()))
    addresses = [value for _, attributes in page.tags for name, value in attributes.items() if name in {"src", "href"}]
    assert [address for address in addresses if address and ("//" in address or address.startswith("/"))] == []
    assert "import " not in page.scripts
    assert "fetch(" not in page.scripts


def test_page_escapes_names() -> None:
    day = eventful_run()
    first = replace(day.jobs[0], name=HOSTILE, team=HOSTILE, queue=HOSTILE, spans=(replace(day.jobs[0].spans[0], note=HOSTILE),))
    wrong = Incident(5, HOSTILE, "crash", HOSTILE)
    step = StepRecord("x", HOSTILE, 0, 5, "done", HOSTILE, (CheckResult(HOSTILE, HOSTILE, True, HOSTILE),))
    costs = tuple(replace(item, team=HOSTILE, pool=HOSTILE) for item in day.costs)
    runs = tuple(replace(item, name=HOSTILE, report=HOSTILE) for item in day.measured.load_runs)
    measured = replace(day.measured, load_runs=runs)
    hostile = replace(day, name=HOSTILE, jobs=(first,), incidents=(wrong,), steps=(step,), costs=costs, measured=measured)
    source = render(hostile)
    page = Page(source)
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert "img" not in [tag for tag, _ in page.tags]
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert HOSTILE in page.words
    assert page.data["groups"][1]["rows"][0]["name"] == HOSTILE
    assert "<!--" not in source


def test_chart_data_shows_preemptions_and_restarts() -> None:
    rows = {row["name"]: row for group in build_chart_data(eventful_run())["groups"] for row in group["rows"]}
    assert [span[0] for span in rows["llama-70b"]["spans"]] == [
        "waiting", "starting", "running", "preempted", "restarting", "running",
    ]  # fmt: skip
    assert [span[0] for span in rows["gemma-chat"]["spans"]] == ["coming", "ready", "leaving"]
    assert rows["gpu-l4"]["spans"] == [("ready", 600, 8 * 3600, "")]
    assert [span[0] for span in rows["Ten jobs of three teams"]["spans"]] == ["failed"]


def test_chips_by_team_and_by_type_sum_up_to_the_same() -> None:
    result = chip_usage(eventful_run())
    by_team, by_type = (
        [sum(column[index] for column in result["by"][name]["values"]) for index in range(len(result["at"]))]
        for name in ("team", "type")
    )
    assert by_team == by_type
    assert max(by_team) == 296
    assert all(used <= there for used, there in zip(by_team, result["capacity"], strict=True))
    assert result["at"] == sorted(set(result["at"]))


def test_waits_exclude_suspension_by_the_owner() -> None:
    waits = {item.team: item for item in figures.waits(eventful_run())}
    assert waits["serving"].seconds == (0.0, 100.0)
    assert waits["language"].quantile(0.5) == 1900
    assert waits["language"].quantile(1) == 7500
    worst, seconds = figures.longest_waits(eventful_run())[0]
    assert (worst.name, seconds) == ("tokenizer", 7500)


def test_wait_of_a_job_that_was_never_admitted() -> None:
    job = replace(eventful_run().jobs[0], admitted=None, started=None, ended=None, outcome="waiting")
    day = replace(eventful_run(), jobs=(job,))
    (waits,) = figures.waits(day)
    assert (waits.jobs, waits.never_admitted, waits.quantile(0.5)) == (1, 1, None)
    assert figures.longest_waits(day) == [(job, day.duration - 900)]
    assert "pending" in Page(render(day)).words


def test_utilization_is_used_chips_of_available_chips() -> None:
    day = RunRecord(
        "d", ".", 0, "2026-11-16T08:00:00Z", 100.0, usage=(Series("v5e", ((50, 8),), "a"),), capacity=(Series("v5e", ((0, 16),)),)
    )
    (use,) = figures.use_by_chip(day)
    assert (use.used, use.existing, use.share) == (400, 1600, 0.25)
    assert figures.total_use(replace(day, capacity=())).share is None


def test_costs_are_by_team_and_type_with_idle_last() -> None:
    bills = figures.bills(eventful_run())
    assert [(bill.team, round(bill.usd or 0, 1)) for bill in bills] == [
        ("language", 1046.4), ("serving", 0), ("vision", 664.2), ("idle", 360),
    ]  # fmt: skip
    assert dict(bills[0].kinds) == {"v5e, on-demand": 984.0, "v5e, spot": 62.4}
    assert (bills[1].usd, bills[1].unpriced) == (None, 47)


@pytest.mark.parametrize(
    "day", [RunRecord("empty", ".", 0, "2026-11-16T08:00:00Z", 0.0), RunRecord("", "", 0, "2026-11-16T08:00:00Z", 60.0)]
)
def test_page_of_an_empty_run(day: RunRecord) -> None:
    page = Page(render(day))
    for words in (
        "✓ Passed",
        "No incidents.",
        "No job waited.",
        "No prices known.",
        "No steps.",
    ):
        assert words in page.words


def test_pages_stay_small() -> None:
    assert len(render(eventful_run()).encode()) < 200_000
    assert len(render(large_run(1000)).encode()) < 5_000_000


def luminance(colour: str) -> float:
    parts = [int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_text_contrast_in_both_colour_schemes() -> None:
    style = f"{read_asset('sliceworks.base.html_page', 'page.css')}{read_asset('sliceworks.rehearsal.report', 'page.css')}"
    blocks = re.findall(r"(@media screen and \(prefers-color-scheme: dark\) \{ )?:root \{([^}]*)\}", style)
    light: dict[str, str] = {}
    dark: dict[str, str] = {}
    for is_dark, block in blocks:
        (dark if is_dark else light).update(re.findall(r"--(\w+): (#[0-9a-f]{6})", block))
    assert dark
    for scheme in (light, {**light, **dark}):
        for words in ("text", "soft", "good", "bad"):
            for ground in ("back", "raised", "chip"):
                assert contrast(scheme[words], scheme[ground]) >= 4.5, (words, ground)
        assert contrast(scheme["text"], scheme["lit"]) >= 4.5
        for bar in ("run", "live", "step"):
            assert contrast("#ffffff", scheme[bar]) >= 4.5, bar
            assert contrast(scheme[bar], scheme["back"]) >= 3, bar
        for layer in ("c0", "c1", "c2", "c3", "c4"):
            assert contrast(scheme[layer], scheme["back"]) >= 3, layer
