"""The highest rate is found from wherever the search begins, with few probes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sliceworks.loadtest.searching import Probe, Search


def searched(limit: float, first: float, most: float = 100_000.0) -> Search:
    search = Search(first, most)
    for rate in search.rates():
        search.add(Probe(rate, rate <= limit))
        assert len(search.probes) < 100
    return search


@given(limit=st.floats(0.5, 5_000), first=st.floats(0.5, 500))
def test_the_limit_is_bracketed(limit: float, first: float) -> None:
    search = searched(limit, first=first)
    if limit >= first / 64:
        assert search.held <= limit < search.failed
        assert search.failed / search.held <= 1.05 * (1 + 1e-9)
    assert len(search.probes) <= 30


def test_a_limit_that_was_never_reached() -> None:
    search = searched(1e9, first=10, most=75)
    assert (search.held, search.failed) == (75, float("inf"))
    assert [probe.rate for probe in search.probes] == [10, 20, 40, 75]


def test_nothing_holds() -> None:
    search = searched(0.0, first=8)
    assert search.held == 0
    assert len(search.probes) == 7


def test_a_rate_that_held_above_one_that_did_not_is_no_proof() -> None:
    search = Search()
    for rate, held in ((1, True), (2, False), (4, True)):
        search.add(Probe(rate, held))
    assert (search.held, search.failed) == (1, 2)


def test_a_beginning_beyond_the_end() -> None:
    with pytest.raises(ValueError, match="not between"):
        Search(first=10, most=5)
