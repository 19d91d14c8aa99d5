"""Stored results of complete benchmark runs, one JSON file per script, and the comparison of a later run with them."""

from __future__ import annotations

import subprocess
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import orjson
from bench.harness import machine
from bench.harness.metric import rounded

from sliceworks.base import clock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.harness.metric import Metric

FOLDER = Path(__file__).parents[1] / "results"
TOLERANCE = 0.2
"""A ratio that is lower than the stored one by more than this share is a regression."""


@dataclass(frozen=True, slots=True)
class Run:
    """The metrics of one run, and where, when and at which commit they were measured; None or empty: not recorded."""

    metrics: dict[str, dict[str, Any]]
    date: str | None = None
    commit: str | None = None
    machine: dict[str, Any] = field(default_factory=dict)
    columns: list[str] = field(default_factory=list)
    """Headings of baseline and value."""
    note: str = ""

    @property
    def ratios(self) -> dict[str, float | None]:
        """Ratios by the names of the metrics."""
        return {name: values["ratio"] for name, values in self.metrics.items()}


@dataclass(frozen=True, slots=True)
class Comparison:
    """One ratio, the stored one, and the result: `ok`, `REGRESSION` or `not compared`."""

    name: str
    stored: float | None
    now: float | None
    result: str


def scripts() -> list[str]:
    """The names of all benchmark scripts."""
    return sorted(path.stem for path in FOLDER.parent.glob("[a-z]*.py"))


def read(name: str, folder: Path = FOLDER) -> dict[str, Run]:
    """The stored runs of a script: `full`, `quick` and `large`, as far as they exist."""
    path = folder / f"{name}.json"
    return {kind: Run(**run) for kind, run in orjson.loads(path.read_bytes()).items()} if path.exists() else {}


def write(name: str, runs: Mapping[str, list[Metric]], columns: tuple[str, str], folder: Path = FOLDER) -> Path:
    """Store runs of now, in place of the stored ones of the same sizes."""
    date, commit = clock.now().date().isoformat(), _commit()
    new = {kind: Run(_values(metrics), date, commit, machine.describe(), list(columns)) for kind, metrics in runs.items()}
    path = folder / f"{name}.json"
    folder.mkdir(exist_ok=True)
    content = {kind: asdict(run) for kind, run in (read(name, folder) | new).items()}
    path.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
    return path


def _values(metrics: list[Metric]) -> dict[str, dict[str, Any]]:
    return {
        metric.name: {
            "unit": metric.unit,
            "baseline": median(metric.baseline) if metric.baseline else None,
            "value": median(metric.values) if metric.values else None,
            "ratio": rounded(metric.ratio),
            "goal": metric.goal,
        }
        for metric in metrics
    }


def _commit() -> str:
    """The current commit, with `-dirty` if files were changed since."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=8", "--exclude=*"]
    return subprocess.run(command, cwd=FOLDER.parent, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def compare(stored: Mapping[str, float | None], now: Mapping[str, float | None]) -> list[Comparison]:
    """Compare ratios with stored ones. A metric that was measured then and is missing now is a regression too."""
    return [_compare(name, stored.get(name), now.get(name), missing=name not in now) for name in {**stored, **now}]


def _compare(name: str, stored: float | None, now: float | None, *, missing: bool) -> Comparison:
    if stored is None or (now is None and not missing):
        return Comparison(name, stored, now, "not compared")
    regressed = now is None or now < stored * (1 - TOLERANCE)
    return Comparison(name, stored, now, "REGRESSION" if regressed else "ok")
