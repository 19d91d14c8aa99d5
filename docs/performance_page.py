"""Fills in the tables of benchmark results in the pages on performance and growth, between `<!-- results: … -->` comments."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.harness import record
from bench.harness.metric import short

_BLOCK = re.compile(r"(<!-- results: (\w+) -->\n).*?(\n<!-- end of results -->)", re.DOTALL)
_NOT_STORED = "No full run is stored. `python bench/{name}.py` runs the benchmark."
_OLD_FIGURES = {
    "environments": "environments.md#how-cost-grows",
    "forecast": "forecasts.md#how-accurate-it-is",
    "gateway": "gateway.md#performance",
    "libraries": "libraries.md",
}
"""Pages with figures of benchmarks whose results are not stored yet."""


def fill(page: Path, folder: Path = record.FOLDER) -> str:
    """The page with current tables."""
    return _BLOCK.sub(lambda match: f"{match[1]}\n{_content(match[2], folder)}\n{match[3]}", page.read_text())


def _content(name: str, folder: Path) -> str:
    if name in ("summary", "growth"):
        return _summary(folder) if name == "summary" else _growth(folder)
    return _full(name, folder)


def _full(name: str, folder: Path) -> str:
    """The last full run of one script."""
    run = record.read(name, folder).get("full")
    if run is None:
        return _NOT_STORED.format(name=name)
    rows = []
    for metric, values in run.metrics.items():
        baseline, value, ratio = (_number(values[key]) for key in ("baseline", "value", "ratio"))
        rows.append(f"| `{metric}` | {values['unit']} | {baseline} | {value} | {ratio} | {values['goal']:.3g} |")
    head = f"| metric | unit | {' | '.join(run.columns)} | ratio | goal |\n|---|---|---|---|---|---|"
    return "\n".join([f"{_provenance(run)}\n", head, *rows])


def _provenance(run: record.Run) -> str:
    if run.date is None:
        return f"*{run.note}*"
    return f"Full run of **{run.date}** at commit `{run.commit}`, {_machine(run)}:"


def _machine(run: record.Run) -> str:
    parts = [f"{run.machine['cores']} cores"] if "cores" in run.machine else []
    parts += [str(run.machine["cpu"])] if "cpu" in run.machine else []
    parts += [f"{run.machine['memoryGB']} GB"] if "memoryGB" in run.machine else []
    parts += [f"Python {run.machine['python']}"] if "python" in run.machine else []
    return ", ".join(parts) or "not recorded"


def _number(value: Any) -> str:
    return "–" if value is None else short(value)


def _summary(folder: Path) -> str:
    """The last full run of every script, and which scripts were not run since the newest one."""
    runs = {name: record.read(name, folder).get("full") for name in record.scripts()}
    rows = [f"| `bench/{name}.py` | {_when(name, run)} | {_machine(run) if run else '–'} |" for name, run in runs.items()]
    table = "\n".join(["| benchmark | last full run | machine |", "|---|---|---|", *rows])
    newest = max((run.date for run in runs.values() if run and run.date), default=None)
    if newest is None:
        return f"**No full run with date and commit is stored yet.** All figures below are older.\n\n{table}"
    old = [f"`{name}`" for name, run in runs.items() if run is None or run.date != newest]
    since = f"Not run since then: {', '.join(old)}." if old else "All benchmarks were run that day."
    return f"The newest full run is of **{newest}**. {since}\n\n{table}"


def _when(name: str, run: record.Run | None) -> str:
    if run is None:
        return f"not stored; [older figures]({_OLD_FIGURES[name]})" if name in _OLD_FIGURES else "not stored"
    return f"{run.date}, `{run.commit}`" if run.date else "date and commit not recorded"


def _growth(folder: Path) -> str:
    """All stored runs with --large."""
    runs = {name: run for name in record.scripts() if (run := record.read(name, folder).get("large"))}
    if not runs:
        return "No run with `--large` is stored yet."
    rows = [
        f"| `bench/{name}.py` | `{metric}` | {_number(values['value'])} | {values['baseline']:g} | {run.date}, `{run.commit}` |"
        for name, run in runs.items()
        for metric, values in run.metrics.items()
    ]
    missing = [f"`{name}`" for name in record.scripts() if name not in runs]
    not_run = f"\n\nNot run with `--large`: {', '.join(missing)}." if missing else ""
    head = "| benchmark | metric | cost per unit at 10× size | limit | run |\n|---|---|---|---|---|"
    return "\n".join([head, *rows]) + not_run
