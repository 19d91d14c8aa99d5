"""Metrics in Prometheus' text format, with all digits."""

from __future__ import annotations

from sliceworks.base.metrics import Registry


def test_large_counter_shows_increments_of_one() -> None:
    registry = Registry()
    counter = registry.counter("calls_total", "Calls.")
    counter.inc(by=123_456_789)
    before = registry.render()
    counter.inc()
    assert "calls_total 123456789\n" in before
    assert "calls_total 123456790\n" in registry.render()


def test_histogram_bounds_and_sums_are_exact() -> None:
    registry = Registry()
    tokens = registry.histogram("tokens", "Tokens.", buckets=(0.1, 1_048_576))
    tokens.observe(1_048_576)
    tokens.observe(0.25)
    assert registry.render().splitlines()[2:] == [
        'tokens_bucket{le="0.1"} 0',
        'tokens_bucket{le="1048576"} 2',
        'tokens_bucket{le="+Inf"} 2',
        "tokens_sum 1048576.25",
        "tokens_count 2",
    ]


def test_gauge_may_be_boolean_or_infinite() -> None:
    registry = Registry()
    registry.gauge("up", "Up.", lambda: True)
    registry.gauge("far", "Far.", lambda: float("inf"))
    assert registry.render().splitlines()[2::3] == ["up 1", "far inf"]
