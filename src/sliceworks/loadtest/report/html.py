"""A run as one HTML file: no server, no network, and pictures that answer to the mouse and the keyboard."""

from __future__ import annotations

import html
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.loadtest import series
from sliceworks.loadtest.report import words

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray


def render(run: dict[str, Any], folder: Path, moments: NDArray[np.float64], lasts: float, begins: float) -> str:
    """The whole page; `moments` are those of the schedule, in seconds."""
    charts = _charts(run, series.over_time(folder, lasts, moments), series.distributions(folder, begins))
    body = [
        f"<h1>{html.escape(run['name'])}</h1>",
        f'<p class="verdict {_tone(run)}">{html.escape(words.verdict(run))}</p>',
        _list(words.facts(run)),
        _objectives(run),
        _table(("time", *words.COLUMNS), words.rows(run["summary"])),
        '<p class="note">Times count from when a request should have left, unless they say otherwise.</p>',
        *(
            f'<section><h2>{html.escape(each["title"])}</h2><div class="chart" data-chart="{index}"></div></section>'
            for index, each in enumerate(charts)
        ),
    ]
    # A script ends at the first "</": JSON may have it escaped.
    data = orjson.dumps(charts).decode().replace("</", "<\\/")
    page = _file("page.html")
    for mark, text in (("TITLE", html.escape(run["name"])), ("STYLE", _file("page.css")), ("BODY", "\n".join(body))):
        page = page.replace(f"<!--{mark}-->", text)
    return page.replace("/*DATA*/", f"const charts = {data};").replace("/*SCRIPT*/", _file("charts.js"))


def _file(name: str) -> str:
    return (files("sliceworks.loadtest.report") / name).read_text()


def _tone(run: dict[str, Any]) -> str:
    return "good" if run["valid"] and run["kept"] else "bad"


def _list(facts: list[tuple[str, str]]) -> str:
    return "<dl>" + "".join(f"<dt>{html.escape(name)}</dt><dd>{html.escape(text)}</dd>" for name, text in facts) + "</dl>"


def _objectives(run: dict[str, Any]) -> str:
    items = "".join(
        f'<li class="{"good" if each["kept"] else "bad"}">{html.escape(words.objective(each))}</li>' for each in run["objectives"]
    )
    return f"<ul>{items}</ul>" if items else ""


def _table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    head = "".join(f'<th scope="col">{html.escape(each)}</th>' for each in columns)
    body = "".join(
        f'<tr><th scope="row">{html.escape(row[0])}</th>' + "".join(f"<td>{html.escape(each)}</td>" for each in row[1:]) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _charts(run: dict[str, Any], times: dict[str, list[Any]], spread: dict[str, dict[str, list[float]]]) -> list[dict[str, Any]]:
    at = times["at"]

    def lines(*names: str) -> list[dict[str, Any]]:
        return [{"name": name, "x": at, "y": times[name], "wide": name == "asked"} for name in names]

    charts: list[dict[str, Any]] = [
        {"title": "Latency over time, end to end", "x": "s", "y": "s", "logY": True, "series": lines("p50", "p90", "p99")},
        {"title": "First token over time", "x": "s", "y": "s", "logY": True, "series": lines("ttft p50", "ttft p99")},
        {"title": "Requests per second", "x": "s", "y": "/s", "series": lines("asked", "sent", "failed")},
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
    points = [(each["delivery"]["rateSent"], each["times"].get("e2e", {})) for each in run["phases"]]
    if len(points) > 1:
        some = [
            {"name": name, "x": [x for x, _ in points], "y": [y.get(name) for _, y in points], "dots": True}
            for name in ("p50", "p99")
        ]
        charts.append({"title": "Latency against throughput, phase by phase", "x": "/s", "y": "s", "logY": True, "series": some})
    return [each for each in charts if any(any(y for y in one["y"]) for one in each["series"])]
