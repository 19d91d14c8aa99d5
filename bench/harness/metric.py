"""Metrics of a benchmark: a baseline and our own values, printed as a table and as one line of JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median

import orjson

from sliceworks.base import tables

GROWTH_LIMIT = 1.3
"""The largest acceptable cost per unit at ten times the size, relative to the cost at the normal size."""


@dataclass(slots=True)
class Metric:
    """One metric of ours and of its baseline: a peer (another program in the same run) or a fixed limit.

    The ratio says how many times better than the baseline we are; the goal is the smallest acceptable ratio.
    """

    name: str
    unit: str
    goal: float
    lower_is_better: bool = False
    baseline: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    amount: float | None = None
    """How many units of work one value covers, for `--large`: 1 if the value is a cost or a rate per unit; None: not compared."""

    @property
    def ratio(self) -> float | None:
        """The ratio of the medians; None if one side was not measured."""
        if not self.baseline or not self.values:
            return None
        baseline, ours = median(self.baseline), median(self.values)
        return baseline / ours if self.lower_is_better else ours / baseline

    @property
    def verdict(self) -> str:
        """Whether the goal is met."""
        if self.ratio is None:
            return "not compared"
        return "met" if self.ratio >= self.goal else "MISSED"

    @property
    def unit_cost(self) -> float | None:
        """The cost of one unit of work; None if costs of this metric are not compared between sizes."""
        if not self.amount or not self.values:
            return None
        ours = median(self.values)
        return (ours if self.lower_is_better else 1 / ours) / self.amount


def limit(name: str, unit: str, bound: float, *values: float, goal: float = 1, amount: float | None = None) -> Metric:
    """A metric with an upper limit as its baseline: the ratio is 2 if our value is half of the limit."""
    return Metric(name, unit, goal, lower_is_better=True, baseline=[bound], values=list(values), amount=amount)


def growth(normal: list[Metric], large: list[Metric]) -> list[Metric]:
    """Compare the costs per unit of two runs, the second at ten times the size; the limit is 1.3 times."""
    costs = {metric.name: metric.unit_cost for metric in normal}
    pairs = ((metric.name, costs.get(metric.name), metric.unit_cost) for metric in large)
    return [
        limit(name, "times the cost per unit at 10× size", GROWTH_LIMIT, now / before)
        for name, before, now in pairs
        if before and now
    ]


def as_table(metrics: list[Metric], columns: tuple[str, str]) -> str:
    """A table of medians with minimum and maximum, followed by the names of the metrics that missed their goals."""
    rows = [
        (
            metric.name,
            metric.unit,
            _spread(metric.baseline),
            _spread(metric.values),
            _ratio(metric.ratio),
            f"{metric.goal:g}",
            metric.verdict,
        )
        for metric in metrics
    ]
    missed = [metric.name for metric in metrics if metric.verdict == "MISSED"]
    summary = f"Goals missed: {', '.join(missed)}.\n" if missed else "All compared metrics meet their goals.\n"
    return tables.render(("metric", "unit", *columns, "ratio", "goal", "verdict"), rows) + summary


def as_json(metrics: list[Metric]) -> str:
    """Ratios and goals on one line."""
    return orjson.dumps({metric.name: {"ratio": rounded(metric.ratio), "goal": metric.goal} for metric in metrics}).decode()


def rounded(value: float | None) -> float | None:
    """A ratio with two decimals."""
    return None if value is None else round(value, 2)


def _spread(values: list[float]) -> str:
    if not values:
        return "-"
    if len(values) == 1:
        return short(values[0])
    return f"{short(median(values))} ({short(min(values))}…{short(max(values))})"


def short(value: float) -> str:
    """A number with three significant digits, or without decimals if it is large."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def percentile(values: list[float], share: float) -> float:
    """The value at this share of the sorted values: 0.5 is the median, 0.99 is p99; NaN without values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")
