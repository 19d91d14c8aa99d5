"""Load tests that were run: one line for each, and two of them side by side. Pure, but for reading what runs wrote down."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import SliceworksError
from sliceworks.loadtest.report import words

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.loadtest.comparing import Change

FOLDER = "load-tests"
"""Where `sliceworks load run` keeps runs, unless the document says otherwise."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run. `tone` tells whether it counts and kept its objectives."""

    folder: str
    name: str
    began: datetime
    rate: str
    first: str
    half: str
    slowest: str
    errors: str
    verdict: str
    tone: str
    tags: str
    target: str


@dataclass(frozen=True, slots=True)
class Shift:
    """A figure of two runs."""

    figure: str
    before: str
    after: str
    change: str
    interval: str
    verdict: str

    @property
    def tone(self) -> str:
        return {"worse": "bad", "better": "good"}.get(self.verdict, "idle")


def runs(folder: Path) -> tuple[list[Run], list[str]]:
    """The runs below a folder, the newest first; and what is wrong with those that cannot be read."""
    from sliceworks.loadtest import results

    found, broken = [], []
    for file in sorted(folder.glob("*/run.json")):
        try:
            found.append(run(file.parent.name, results.load(file.parent)))
        except SliceworksError as error:
            broken.append(str(error))
        except (KeyError, TypeError, ValueError):
            broken.append(f"{file} is not as a run writes it")
    return sorted(found, key=lambda each: each.began, reverse=True), broken


def run(folder: str, data: dict[str, Any]) -> Run:
    """A run as it was written down."""
    summary = data["summary"]

    def time(measure: str, at: str) -> str:
        return words.time(summary["times"].get(measure, {}).get(at))

    good = data["valid"] and data["kept"]
    return Run(
        folder=folder,
        name=data["name"],
        began=datetime.fromtimestamp(data["began"], UTC),
        rate=f"{summary['delivery']['rateSent']:.4g}",
        first=time("ttft", "p99"),
        half=time("e2e", "p50"),
        slowest=time("e2e", "p99"),
        errors=f"{summary['errorRate']:.2%}",
        verdict=words.verdict(data),
        tone="good" if good else "bad",
        tags=", ".join(f"{name}={value}" for name, value in data["tags"].items()),
        target=str(data.get("url") or ""),
    )


def shift(change: Change) -> Shift:
    """A change in words."""
    if change.figure == "errors":
        shown = (f"{change.before:.2%}", f"{change.after:.2%}", f"{100 * change.relative:+.2f} points")
    else:
        shown = (words.time(change.before), words.time(change.after), f"{change.relative:+.1%}")
    return Shift(change.figure, *shown, f"{change.low:+.1%} … {change.high:+.1%}", change.verdict)
