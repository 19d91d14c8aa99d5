"""Parsing of service level objectives."""

from __future__ import annotations

import pytest

from sliceworks.specs.objectives import parse_objective


@pytest.mark.parametrize(
    ("text", "measure", "quantile", "limit"),
    [
        ("ttft p99 < 500ms", "ttft", 99.0, 0.5),
        ("e2e p99.9 <= 1m30s", "e2e", 99.9, 90.0),
        (" tpot mean<40ms ", "tpot", "mean", 0.04),
        ("itl max < 1s", "itl", "max", 1.0),
        ("errors < 1%", "errors", "mean", 0.01),
        ("errors < 0.2", "errors", "mean", 0.2),
    ],
)
def test_objectives(text: str, measure: str, quantile: float | str, limit: float) -> None:
    result = parse_objective(text)
    assert (result.measure, result.quantile) == (measure, quantile)
    assert result.limit == pytest.approx(limit)
    assert result.text == text.strip()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("fast", "must be an objective such as"),
        ("speed p99 < 1s", "unknown metric 'speed'"),
        ("ttft < 1s", "ttft needs a statistic"),
        ("ttft p99 < 1", "a duration such as"),
        ("ttft p99 < 1 day", "a duration such as"),
        ("errors < 200%", "between 0 and 100%"),
        ("ttft p99 > 1s", "must be an objective such as"),
    ],
)
def test_invalid_objectives(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_objective(text)
