"""Service level objectives such as `ttft p99 < 500ms` and `errors < 1%`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sliceworks.base import duration

METRICS = {
    "ttft": "time to first token",
    "tpot": "time per output token after the first",
    "itl": "inter-token latency: time between streamed chunks",
    "e2e": "time to the end of the response",
    "delay": "send delay: how much later than scheduled the request was sent",
    "errors": "fraction of failed requests",
}
_OBJECTIVE = re.compile(r"\s*([a-z0-9]+)(?:\s+(p[0-9]{1,2}(?:\.[0-9]+)?|mean|max))?\s*(<=?)\s*([0-9][0-9.a-zµ% ]*?)\s*")


@dataclass(frozen=True, slots=True)
class Objective:
    """A metric, the statistic that counts (99.0 for p99, or mean, or max), and its upper limit in seconds or as a fraction."""

    measure: str
    quantile: float | str
    limit: float
    text: str


def parse_objective(text: str) -> Objective:
    """Parses an objective; the ValueError shows a valid example."""
    match = _OBJECTIVE.fullmatch(text)
    if match is None:
        raise ValueError(f"must be an objective such as `ttft p99 < 500ms` or `errors < 1%`, got {text!r}")
    measure, quantile, _, amount = match.groups()
    if measure not in METRICS:
        raise ValueError(f"unknown metric {measure!r}, must be one of {', '.join(METRICS)}")
    if measure == "errors":
        return Objective(measure, "mean", _share(amount, text), text.strip())
    if quantile is None:
        raise ValueError(f"{measure} needs a statistic (p50, p99, mean or max), got {text!r}")
    try:
        limit = duration.parse(amount.replace(" ", ""))
    except ValueError as error:
        raise ValueError(f"the limit of {measure} must be a duration such as 500ms, got {amount!r}") from error
    return Objective(measure, quantile if quantile in {"mean", "max"} else float(quantile[1:]), limit, text.strip())


def _share(amount: str, text: str) -> float:
    number, percent = (amount[:-1], True) if amount.endswith("%") else (amount, False)
    try:
        share = float(number) / (100 if percent else 1)
    except ValueError as error:
        raise ValueError(f"the limit of errors must be a fraction such as 1% or 0.01, got {text!r}") from error
    if not 0 <= share <= 1:
        raise ValueError(f"the limit of errors must be between 0 and 100%, got {text!r}")
    return share
