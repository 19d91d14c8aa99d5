"""The rate search finds the highest passing rate from any start, with few probes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sliceworks.loadtest.rate_search import Probe, Search


def searched(limit: float, first: float, most: float = 100_000.0) -> Search:
    search = Search(first, most)
    for rate in search.rates():
        search.add(Probe(rate, rate <= limit))
        assert len(search.probes) < 100
    return search


@given(limit=st.floats(0.5, 5_000), first=st.floats(0.5, 500))
def test_limit_is_bracketed(limit: float, first: float) -> None:
    search = searched(limit, first=first)
    if limit >= first / 64:
        assert search.passed <= limit < search.failed
        assert search.failed / search.passed <= 1.05 * (1 + 1e-9)
    assert len(search.probes) <= 30


def test_limit_above_the_maximum() -> None:
    search = searched(1e9, first=10, most=75)
    assert (search.passed, search.failed) == (75, float("inf"))
    assert [probe.rate for probe in search.probes] == [10, 20, 40, 75]


def test_no_rate_passes() -> None:
    search = searched(0.0, first=8)
    assert search.passed == 0
    assert len(search.probes) == 7


def test_rates_too_low_for_a_probe_are_not_tried() -> None:
    search = Search(20, 40, min_rate=10)
    for rate in search.rates():
        search.add(Probe(rate, False))
    assert [probe.rate for probe in search.probes] == [20, 10]


def test_passing_rate_above_a_failing_one_is_ignored() -> None:
    search = Search()
    for rate, held in ((1, True), (2, False), (4, True)):
        search.add(Probe(rate, held))
    assert (search.passed, search.failed) == (1, 2)


def test_start_above_the_maximum() -> None:
    with pytest.raises(ValueError, match="not between"):
        Search(first=10, max_rate=5)
