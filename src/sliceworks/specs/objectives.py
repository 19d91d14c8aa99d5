"""Service level objectives in words: `ttft p99 < 500ms`, `errors < 1%`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sliceworks.base import duration

MEASURES = {
    "ttft": "time to the first token",
    "tpot": "time per output token after the first",
    "itl": "time from one piece to the next",
    "e2e": "time to the end of the answer",
    "delay": "how much later than intended it was sent",
    "errors": "share of requests that failed",
}
_WORDS = re.compile(r"\s*([a-z0-9]+)(?:\s+(p[0-9]{1,2}(?:\.[0-9]+)?|mean|max))?\s*(<=?)\s*([0-9][0-9.a-zµ% ]*?)\s*")


@dataclass(frozen=True, slots=True)
class Objective:
    """A measure, which value of it counts (99.0 for p99, or mean, or max), and what it must stay below: seconds, or a share."""

    measure: str
    quantile: float | str
    limit: float
    text: str


def parse(text: str) -> Objective:
    """The objective; ValueError says what it should look like."""
    found = _WORDS.fullmatch(text)
    if found is None:
        raise ValueError(f"an objective is such as `ttft p99 < 500ms` or `errors < 1%`, found {text!r}")
    measure, quantile, _, amount = found.groups()
    if measure not in MEASURES:
        raise ValueError(f"unknown measure {measure!r}: one of {', '.join(MEASURES)}")
    if measure == "errors":
        return Objective(measure, "mean", _share(amount, text), text.strip())
    if quantile is None:
        raise ValueError(f"which {measure}: p50, p99, mean or max? found {text!r}")
    try:
        limit = duration.parse(amount.replace(" ", ""))
    except ValueError as error:
        raise ValueError(f"the limit of {measure} is a time such as 500ms, found {amount!r}") from error
    return Objective(measure, quantile if quantile in {"mean", "max"} else float(quantile[1:]), limit, text.strip())


def _share(amount: str, text: str) -> float:
    number, percent = (amount[:-1], True) if amount.endswith("%") else (amount, False)
    try:
        share = float(number) / (100 if percent else 1)
    except ValueError as error:
        raise ValueError(f"the limit of errors is such as 1% or 0.01, found {text!r}") from error
    if not 0 <= share <= 1:
        raise ValueError(f"the limit of errors is between 0 and 100%, found {text!r}")
    return share
