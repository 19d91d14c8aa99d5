"""What was measured, as a table for a person and as one line of JSON for a program."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median

import orjson

from sliceworks.base import tables


@dataclass(slots=True)
class Measure:
    """One quantity on both sides. `less_is_better` for times and sizes; the ratio says how many times better the twin is."""

    name: str
    unit: str
    goal: float
    less_is_better: bool = False
    real: list[float] = field(default_factory=list)
    twin: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float | None:
        """Medians compared; none while one side is missing."""
        if not self.real or not self.twin:
            return None
        real, twin = median(self.real), median(self.twin)
        return real / twin if self.less_is_better else twin / real

    @property
    def verdict(self) -> str:
        """Whether the goal is met, in a word."""
        if self.ratio is None:
            return "not compared"
        return "met" if self.ratio >= self.goal else "MISSED"


def bounded(name: str, unit: str, bound: float, found: float | None, goal: float = 1) -> Measure:
    """A bound as a measure: it stands in the place of the real one, and the ratio says how far inside it we are."""
    return Measure(name, unit, goal, less_is_better=True, real=[bound], twin=[] if found is None else [found])


def report(measures: list[Measure], sides: tuple[str, str] = ("real", "twin")) -> str:
    """A table of medians with their spread, and the goals that were missed in words."""
    rows = [
        (item.name, item.unit, _spread(item.real), _spread(item.twin), _ratio(item.ratio), f"{item.goal:g}", item.verdict)
        for item in measures
    ]
    missed = [item.name for item in measures if item.verdict == "MISSED"]
    words = f"Goals missed: {', '.join(missed)}.\n" if missed else "Every goal that was compared is met.\n"
    return tables.render(("measure", "unit", *sides, "ratio", "goal", "verdict"), rows) + words


def as_json(measures: list[Measure]) -> str:
    """Ratios and goals, in one line."""
    shown = {item.name: {"ratio": None if item.ratio is None else round(item.ratio, 2), "goal": item.goal} for item in measures}
    return orjson.dumps(shown).decode()


def _spread(values: list[float]) -> str:
    if not values:
        return "-"
    if len(values) == 1:
        return _short(values[0])
    return f"{_short(median(values))} ({_short(min(values))}…{_short(max(values))})"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
