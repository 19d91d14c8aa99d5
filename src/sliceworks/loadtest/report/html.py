"""A run as one HTML file: no server, no network, and pictures that answer to the mouse and the keyboard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.pages import Safe, file, page, table, tag
from sliceworks.loadtest import series
from sliceworks.loadtest.report import words
from sliceworks.specs.objectives import parse

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray


def render(run: dict[str, Any], folder: Path, moments: NDArray[np.float64], lasts: float, begins: float) -> str:
    """The whole page; `moments` are those of the schedule, in seconds."""
    objectives = tuple(parse(each["text"]) for each in run["objectives"])
    charts = _charts(run, series.over_time(folder, lasts, moments, objectives), series.distributions(folder, begins))
    body = [
        tag("h1", run["name"]),
        tag("p", words.verdict(run), class_=f"verdict {_tone(run)}"),
        _list(words.facts(run)),
        _objectives(run),
        table(("time", *words.COLUMNS), words.rows(run["summary"])),
        tag("p", "Times count from when a request should have left, unless they say otherwise.", class_="note"),
        *(
            tag("section", tag("h2", each["title"]), tag("div", class_="chart", data_chart=number))
            for number, each in enumerate(charts)
        ),
    ]
    return page(run["name"], body, data=charts, script=file(__package__, "charts.js"))


def _tone(run: dict[str, Any]) -> str:
    return "good" if run["valid"] and run["kept"] else "bad"


def _list(facts: list[tuple[str, str]]) -> Safe:
    return tag("dl", *(part for name, told in facts for part in (tag("dt", name), tag("dd", told))))


def _objectives(run: dict[str, Any]) -> Safe:
    items = [tag("li", words.objective(each), class_="good" if each["kept"] else "bad") for each in run["objectives"]]
    return tag("ul", *items) if items else Safe("")


def _charts(run: dict[str, Any], times: dict[str, list[Any]], spread: dict[str, dict[str, list[float]]]) -> list[dict[str, Any]]:
    at = times["at"]

    def lines(*names: str) -> list[dict[str, Any]]:
        return [{"name": name, "x": at, "y": times[name], "wide": name == "asked"} for name in names]

    charts: list[dict[str, Any]] = [
        {"title": "Latency over time, end to end", "x": "s", "y": "s", "logY": True, "series": lines("p50", "p90", "p99")},
        {"title": "First token over time", "x": "s", "y": "s", "logY": True, "series": lines("ttft p50", "ttft p99")},
        {"title": "Time per output token", "x": "s", "y": "s", "logY": True, "series": lines("tpot p50", "tpot p99")},
        {"title": "Requests per second", "x": "s", "y": "/s", "series": lines("asked", "sent", "answered", "failed")},
        {"title": "Tokens per second", "x": "s", "y": "/s", "series": lines("tokens")},
        {
            "title": "Distribution of times",
            "x": "s",
            "y": "%",
            "logX": True,
            "series": [
                {"name": name, "x": each["time"], "y": [100 * share for share in each["share"]]} for name, each in spread.items()
            ],
        },
    ]
    if run["objectives"]:
        charts.insert(4, {"title": "Within all objectives", "x": "s", "y": "/s", "series": lines("answered", "good")})
    points = [(each["delivery"]["rateSent"], each["times"].get("e2e", {})) for each in run["phases"]]
    if len(points) > 1:
        some = [
            {"name": name, "x": [x for x, _ in points], "y": [y.get(name) for _, y in points], "dots": True}
            for name in ("p50", "p99")
        ]
        charts.append({"title": "Latency against throughput, phase by phase", "x": "/s", "y": "s", "logY": True, "series": some})
    return [each for each in charts if any(any(y for y in one["y"]) for one in each["series"])]
