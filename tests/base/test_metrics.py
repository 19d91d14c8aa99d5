"""Numbers are written to their last digit, as Prometheus reads them."""

from __future__ import annotations

from sliceworks.base.metrics import Registry


def test_a_large_number_is_seen_to_grow_by_one() -> None:
    registry = Registry()
    counter = registry.counter("calls_total", "Calls.")
    counter.add(by=123_456_789)
    before = registry.text()
    counter.add()
    assert "calls_total 123456789\n" in before
    assert "calls_total 123456790\n" in registry.text()


def test_bounds_and_sums_are_what_they_were_told() -> None:
    registry = Registry()
    tokens = registry.histogram("tokens", "Tokens.", buckets=(0.1, 1_048_576))
    tokens.observe(1_048_576)
    tokens.observe(0.25)
    assert registry.text().splitlines()[2:] == [
        'tokens_bucket{le="0.1"} 0',
        'tokens_bucket{le="1048576"} 2',
        'tokens_bucket{le="+Inf"} 2',
        "tokens_sum 1048576.25",
        "tokens_count 2",
    ]


def test_numbers_that_are_asked_for_may_be_true_or_endless() -> None:
    registry = Registry()
    registry.gauge("up", "Up.", lambda: True)
    registry.gauge("far", "Far.", lambda: float("inf"))
    assert registry.text().splitlines()[2::3] == ["up 1", "far inf"]
