"""Renders the report of a run as HTML, Markdown or JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from sliceworks.base.html_page import SafeHtml, read_asset, render_page, table, tag
from sliceworks.loadtest import load_plan, run_statistics
from sliceworks.loadtest.report import formatter
from sliceworks.specs.load_test import LoadTestSpec
from sliceworks.specs.objectives import parse_objective

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray


def render_html(run: dict[str, Any], folder: Path, due_times: NDArray[np.float64], seconds: float, begins: float) -> str:
    """The HTML page; `due_times` are the due times of the schedule, in seconds."""
    objectives = tuple(parse_objective(objective["text"]) for objective in run["objectives"])
    charts = _charts(
        run, run_statistics.time_series(folder, seconds, due_times, objectives), run_statistics.distributions(folder, begins)
    )
    body = [
        tag("h1", run["name"]),
        tag("p", formatter.verdict(run), class_=f"verdict {_verdict_class(run)}"),
        _list(formatter.facts(run)),
        _objectives(run),
        table(("time", *formatter.COLUMNS), formatter.latency_rows(run["summary"])),
        tag("p", "Times are measured from the scheduled send time unless noted otherwise.", class_="note"),
        *(
            tag("section", tag("h2", chart["title"]), tag("div", class_="chart", data_chart=number))
            for number, chart in enumerate(charts)
        ),
    ]
    return render_page(run["name"], body, data=charts, script=read_asset(__package__, "charts.js"))


def _verdict_class(run: dict[str, Any]) -> str:
    return "good" if run["valid"] and run["met"] else "bad"


def _list(facts: list[tuple[str, str]]) -> SafeHtml:
    return tag("dl", *(part for name, value in facts for part in (tag("dt", name), tag("dd", value))))


def _objectives(run: dict[str, Any]) -> SafeHtml:
    items = [
        tag("li", formatter.format_objective(objective), class_="good" if objective["met"] else "bad")
        for objective in run["objectives"]
    ]
    return tag("ul", *items) if items else SafeHtml("")


def _charts(run: dict[str, Any], times: dict[str, list[Any]], spread: dict[str, dict[str, list[float]]]) -> list[dict[str, Any]]:
    at = times["at"]

    def lines(*names: str) -> list[dict[str, Any]]:
        return [{"name": name, "x": at, "y": times[name], "wide": name == "scheduled"} for name in names]

    charts: list[dict[str, Any]] = [
        {"title": "Latency over time, end to end", "x": "s", "y": "s", "logY": True, "series": lines("p50", "p90", "p99")},
        {"title": "First token over time", "x": "s", "y": "s", "logY": True, "series": lines("ttft p50", "ttft p99")},
        {"title": "Time per output token", "x": "s", "y": "s", "logY": True, "series": lines("tpot p50", "tpot p99")},
        {"title": "Requests per second", "x": "s", "y": "/s", "series": lines("scheduled", "sent", "completed", "failed")},
        {"title": "Tokens per second", "x": "s", "y": "/s", "series": lines("tokens")},
        {
            "title": "Distribution of times",
            "x": "s",
            "y": "%",
            "logX": True,
            "series": [
                {"name": name, "x": distribution["time"], "y": [100 * share for share in distribution["share"]]}
                for name, distribution in spread.items()
            ],
        },
    ]
    if run["objectives"]:
        charts.insert(4, {"title": "Within all objectives", "x": "s", "y": "/s", "series": lines("completed", "good")})
    points = [(phase["delivery"]["sentRate"], phase["latencies"].get("e2e", {})) for phase in run["phases"]]
    if len(points) > 1:
        series = [
            {"name": name, "x": [x for x, _ in points], "y": [y.get(name) for _, y in points], "dots": True}
            for name in ("p50", "p99")
        ]
        charts.append({"title": "Latency against throughput, phase by phase", "x": "/s", "y": "s", "logY": True, "series": series})
    return [chart for chart in charts if any(any(y for y in line["y"]) for line in chart["series"])]


def render_markdown(run: dict[str, Any]) -> str:
    """The Markdown report."""
    lines = [f"# Load test {run['name']}", "", f"**{formatter.verdict(run)}**", ""]
    lines += [f"- {name}: {text}" for name, text in formatter.facts(run)]
    if run["objectives"]:
        lines += ["", *(f"- {formatter.format_objective(objective)}" for objective in run["objectives"])]
    lines += ["", *_table(("time", *formatter.COLUMNS), formatter.latency_rows(run["summary"]))]
    if len(run["phases"]) > 1:
        lines += ["", "## Phase by phase", "", *_table(_PHASE, [_phase(phase) for phase in run["phases"]])]
    lines += ["", "Times are measured from the scheduled send time unless noted otherwise."]
    return "\n".join(lines) + "\n"


_PHASE = ("phase", "scheduled/s", "sent/s", "errors", "first token p50", "p99", "end to end p50", "p99")


def _phase(phase: dict[str, Any]) -> tuple[str, ...]:
    times, delivery = phase["latencies"], phase["delivery"]
    latencies = (formatter.format_seconds(times.get(name, {}).get(at)) for name in ("ttft", "e2e") for at in ("p50", "p99"))
    return (
        phase["name"],
        f"{delivery['scheduledRate']:.4g}",
        f"{delivery['sentRate']:.4g}",
        f"{phase['errorRate']:.2%}",
        *latencies,
    )


def _table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    rule = ["---", *("---:" for _ in columns[1:])]
    return [f"| {' | '.join(column)} |" for column in (columns, rule, *rows)]


Data = dict[str, Any]


def render(run: Data, folder: Path, form: str) -> str:
    """The report of a run folder as HTML, Markdown or JSON."""
    if form == "json":
        return orjson.dumps(run, option=orjson.OPT_INDENT_2).decode() + "\n"
    if form == "markdown":
        return render_markdown(run)
    due_times, seconds, begins = _planned(run)
    return render_html(run, folder, due_times, seconds, begins)


def measured_window(run: Data) -> tuple[float, float]:
    """The measurement window of a run, in seconds from its start."""
    _, seconds, begins = _planned(run)
    return begins, seconds


def _planned(run: Data) -> tuple[NDArray[np.float64], float, float]:
    """The due times, planned duration and warm-up of a run."""
    seconds = sum(phase["seconds"] for phase in run["phases"])
    spec = LoadTestSpec.model_validate(run["spec"])
    if any(stage.replay for stage in spec.stages):
        return np.empty(0), seconds + spec.warm_up, spec.warm_up
    schedule = load_plan.schedule_arrivals(spec.stages, spec.seed)
    return schedule.due_times / 1e9, schedule.duration, spec.warm_up
