"""A run as Markdown, for a pull request or a chat."""

from __future__ import annotations

from typing import Any

from sliceworks.loadtest.report import words


def render(run: dict[str, Any]) -> str:
    """The whole report."""
    lines = [f"# Load test {run['name']}", "", f"**{words.verdict(run)}**", ""]
    lines += [f"- {name}: {text}" for name, text in words.facts(run)]
    if run["objectives"]:
        lines += ["", *(f"- {words.objective(each)}" for each in run["objectives"])]
    lines += ["", *_table(("time", *words.COLUMNS), words.rows(run["summary"]))]
    if len(run["phases"]) > 1:
        lines += ["", "## Phase by phase", "", *_table(_PHASE, [_phase(each) for each in run["phases"]])]
    lines += ["", "Times count from when a request should have left, unless they say otherwise."]
    return "\n".join(lines) + "\n"


_PHASE = ("phase", "asked/s", "sent/s", "errors", "first token p50", "p99", "end to end p50", "p99")


def _phase(phase: dict[str, Any]) -> tuple[str, ...]:
    times, delivery = phase["times"], phase["delivery"]
    latencies = (words.time(times.get(name, {}).get(at)) for name in ("ttft", "e2e") for at in ("p50", "p99"))
    return (phase["name"], f"{delivery['rateAsked']:.4g}", f"{delivery['rateSent']:.4g}", f"{phase['errorRate']:.2%}", *latencies)


def _table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    rule = ["---", *("---:" for _ in columns[1:])]
    return [f"| {' | '.join(each)} |" for each in (columns, rule, *rows)]
