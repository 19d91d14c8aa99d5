"""Load test runs on disk: list, report and comparison."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from sliceworks.base import imports
from sliceworks.base.errors import SliceworksError
from sliceworks.loadtest.report import formatter

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.loadtest.comparison import Change

FOLDER = "load-tests"
"""The default output folder of `sliceworks load run`."""


@dataclass(frozen=True, slots=True)
class LoadRun:
    """A run. `tone` is good if the run is valid and met its objectives."""

    folder: str
    name: str
    started: datetime
    rate: str
    ttft_p99: str
    e2e_p50: str
    e2e_p99: str
    errors: str
    verdict: str
    tone: str
    tags: str
    target: str


@dataclass(frozen=True, slots=True)
class MetricChange:
    """The change of a metric between two runs."""

    figure: str
    before: str
    after: str
    change: str
    interval: str
    verdict: str

    @property
    def tone(self) -> str:
        return {"worse": "bad", "better": "good"}.get(self.verdict, "idle")


def list_runs(folder: Path) -> tuple[list[LoadRun], list[str]]:
    """The runs in a folder, newest first, and error messages of those that cannot be read."""
    from sliceworks.loadtest import results

    runs, broken = [], []
    for file in sorted(folder.glob("*/run.json")):
        try:
            runs.append(read_run(file.parent.name, results.load(file.parent)))
        except SliceworksError as error:
            broken.append(str(error))
        except (KeyError, TypeError, ValueError):
            broken.append(f"{file}: not a valid run")
    return sorted(runs, key=lambda run: run.started, reverse=True), broken


def read_run(folder: str, data: dict[str, Any]) -> LoadRun:
    """The view of a run from its run.json."""
    summary = data["summary"]

    def time(measure: str, at: str) -> str:
        return formatter.format_seconds(summary["latencies"].get(measure, {}).get(at))

    good = data["valid"] and data["met"]
    return LoadRun(
        folder=folder,
        name=data["name"],
        started=datetime.fromtimestamp(data["started"], UTC),
        rate=f"{summary['delivery']['sentRate']:.4g}",
        ttft_p99=time("ttft", "p99"),
        e2e_p50=time("e2e", "p50"),
        e2e_p99=time("e2e", "p99"),
        errors=f"{summary['errorRate']:.2%}",
        verdict=formatter.verdict(data),
        tone="good" if good else "bad",
        tags=", ".join(f"{name}={value}" for name, value in data["tags"].items()),
        target=str(data.get("url") or ""),
    )


def metric_change(change: Change) -> MetricChange:
    """Format a change."""
    if change.metric == "errors":
        shown = (f"{change.before:.2%}", f"{change.after:.2%}", f"{100 * change.relative:+.2f} points")
    else:
        shown = (formatter.format_seconds(change.before), formatter.format_seconds(change.after), f"{change.relative:+.1%}")
    return MetricChange(change.metric, *shown, f"{change.low:+.1%} … {change.high:+.1%}", change.verdict)


class LoadRunLoader:
    """Loads the runs of a folder and of its `load-tests` subfolder."""

    def __init__(self, folder: Path) -> None:
        self._folders = (folder / FOLDER, folder)
        self._seen: tuple[tuple[str, int], ...] | None = None
        self.runs: list[LoadRun] | None = None
        self.broken: list[str] = []

    async def refresh(self) -> None:
        """Read the runs again if any file has changed."""
        self.runs, self.broken = await asyncio.to_thread(self._load)

    def _load(self) -> tuple[list[LoadRun], list[str]]:
        files = [file for folder in self._folders for file in sorted(folder.glob("*/run.json"))]
        seen = tuple((str(file), file.stat().st_mtime_ns) for file in files)
        if seen == self._seen and self.runs is not None:
            return self.runs, self.broken
        self._seen = seen
        if not files:
            return [], []
        missing = [name for name in ("duckdb", "numpy") if find_spec(name) is None]
        if missing:
            return [], [f"Reports of load tests need {' and '.join(missing)}: {imports.install_command('load')}"]
        both = [list_runs(folder) for folder in self._folders]
        runs = sorted((run for listed, _ in both for run in listed), key=lambda run: run.started, reverse=True)
        return runs, [message for _, broken in both for message in broken]

    async def report(self, name: str) -> str:
        """The HTML report of a run."""
        from sliceworks.loadtest import results
        from sliceworks.loadtest.report import renderer

        folder = self._folder(name)
        return await asyncio.to_thread(lambda: renderer.render(results.load(folder), folder, "html"))

    async def compare(self, before: str, after: str) -> list[MetricChange]:
        """Compare two runs metric by metric."""
        first, second = self._folder(before), self._folder(after)
        return await asyncio.to_thread(lambda: _compare_runs(first, second))

    def _folder(self, name: str) -> Path:
        """The folder of a run. Only listed runs are opened, since the name comes from a URL."""
        if name in {run.folder for run in self.runs or ()}:
            for folder in self._folders:
                if (folder / name / "run.json").is_file():
                    return folder / name
        raise SliceworksError(f"load test run {name} not found")


def _compare_runs(first: Path, second: Path) -> list[MetricChange]:
    from sliceworks.loadtest import comparison, results
    from sliceworks.loadtest.report import renderer

    sides = [comparison.ComparedRun(folder, *renderer.measured_window(results.load(folder))) for folder in (first, second)]
    changes = comparison.compare(*sides)
    if not changes:
        raise SliceworksError("cannot compare: too few requests succeeded in both runs")
    return [metric_change(item) for item in changes]
