"""Figures from rows whose answer is known: exact percentiles, what was delivered, what was good enough, and a stall that shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.support.load_tests import failed, record, written

from sliceworks.loadtest.rows import USERS_FROM, Failure
from sliceworks.loadtest.statistics import Summary, Window, exact, spread, summarise
from sliceworks.specs.objectives import parse

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from sliceworks.loadtest.rows import Record


def summary(
    folder: Path, records: Iterable[Record], seconds: float, *, begins: float = 0.0, objectives: tuple[str, ...] = ()
) -> Summary:
    found = list(records)
    moments = np.asarray([each.intended / 1e9 for each in found if each.number < USERS_FROM])
    return summarise(written(folder, found), Window(begins, seconds, moments), tuple(map(parse, objectives)))


@pytest.mark.parametrize(
    ("values", "percentile", "expected"),
    [([1, 2, 3, 4], 50, 2), ([1, 2, 3, 4], 75, 3), ([1, 2, 3, 4], 76, 4), ([5], 99.9, 5), (list(range(1, 1001)), 99.9, 999)],
)
def test_percentiles_are_values_that_were_seen(values: list[float], percentile: float, expected: float) -> None:
    assert exact(np.asarray(values, dtype=np.float64), percentile) == expected


def test_latencies_count_from_the_intended_moment(tmp_path: Path) -> None:
    found = summary(tmp_path, [record(n, n / 10, sent=0.3, first=0.1, ends=0.5) for n in range(10)], 1.0)
    assert found.spreads["e2e"].percentiles[50] == pytest.approx(0.8)
    assert found.spreads["service"].percentiles[50] == pytest.approx(0.5)
    assert found.spreads["ttft"].percentiles[99] == pytest.approx(0.4)
    assert found.spreads["ttft service"].percentiles[99] == pytest.approx(0.1)
    assert found.spreads["delay"].mean == pytest.approx(0.3)


def test_time_between_pieces_and_per_token(tmp_path: Path) -> None:
    one = record(0, 0.0, first=0.1, ends=0.5)
    for moment in (100, 200, 500):
        one.piece(one.sent + moment * 1_000_000)
    two = record(1, 0.5, first=0.1, ends=0.4, tokens_out=7)
    for moment in (100, 400):
        two.piece(two.sent + moment * 1_000_000)
    found = summary(tmp_path, [one, two, record(2, 0.9)], 1.0)
    assert found.spreads["itl"].count == 3
    assert found.spreads["itl"].mean == pytest.approx((0.1 + 0.3 + 0.3) / 3)
    assert found.spreads["tpot"].count == 2
    assert found.spreads["tpot"].least == pytest.approx(0.3 / 6)
    assert found.spreads["tpot"].most == pytest.approx(0.4 / 2)
    assert found.tokens_out == 7


def test_failures_are_counted_by_kind_and_have_no_latency(tmp_path: Path) -> None:
    records = [
        *(record(n, n / 10) for n in range(6)),
        failed(6, 0.6, Failure.STATUS, 503),
        failed(7, 0.7, Failure.STATUS, 503),
        failed(8, 0.8, Failure.STATUS, 429),
        failed(9, 0.9, Failure.CLOSED),
    ]
    found = summary(tmp_path, records, 1.0)
    assert (found.requests, found.succeeded) == (10, 6)
    assert found.error_rate == pytest.approx(0.4)
    assert found.failures == {"status 503": 2, "closed": 1, "status 429": 1}
    assert found.spreads["e2e"].count == 6


def test_what_did_not_leave_was_not_delivered(tmp_path: Path) -> None:
    sent = [record(n, n / 10) for n in range(7)]
    written(tmp_path, sent)
    found = summarise(tmp_path, Window(0.0, 1.0, np.arange(10) / 10))
    assert (found.delivery.asked, found.delivery.sent) == (10, 7)
    assert found.delivery.share == pytest.approx(0.7)
    assert found.delivery.rate_asked == pytest.approx(10)
    assert found.delivery.rate_sent == pytest.approx(7)


def test_users_ask_for_what_they_send(tmp_path: Path) -> None:
    found = summary(tmp_path, [record(USERS_FROM + n, n / 10) for n in range(10)], 1.0)
    assert (found.delivery.asked, found.delivery.share) == (10, 1.0)


def test_warm_up_is_left_out(tmp_path: Path) -> None:
    found = summary(tmp_path, [record(n, n / 10, ends=9.0 if n < 5 else 0.2) for n in range(10)], 1.0, begins=0.5)
    assert (found.requests, found.seconds) == (5, 0.5)
    assert found.spreads["e2e"].most == pytest.approx(0.2)
    assert found.delivery.asked == 5


def test_good_is_what_keeps_all_objectives(tmp_path: Path) -> None:
    records = [
        record(0, 0.0, first=0.1, ends=0.2),
        record(1, 0.1, first=0.4, ends=0.5),
        record(2, 0.2, first=0.1, ends=3.0),
        record(3, 0.3, sent=0.4, first=0.1, ends=0.2),
        failed(4, 0.4, Failure.CLOSED),
    ]
    found = summary(tmp_path, records, 1.0, objectives=("ttft p99 < 300ms", "e2e p95 < 1s", "errors < 1%"))
    assert found.good == 1


def test_a_stall_shows_as_theory_says(tmp_path: Path) -> None:
    """A server that stands still for 2 s once in 20 s: of even requests a tenth wait, from 2 s down to nothing."""
    moments = np.arange(2_000) / 100
    held = np.where((moments >= 10) & (moments < 12), 12 - moments, 0.0)
    records = [
        record(n, float(at), first=float(wait) + 0.01, ends=float(wait) + 0.02)
        for n, (at, wait) in enumerate(zip(moments, held, strict=True))
    ]
    found = summary(tmp_path, records, 20.0).spreads["e2e"]
    assert found.percentiles[50] == pytest.approx(0.02)
    assert found.percentiles[99] == pytest.approx(0.02 + 2 * 0.9, abs=0.02)
    assert found.most == pytest.approx(2.02, abs=0.011)
    # The same server seen by one user who waits for each answer: one slow request of a thousand, and p99 knows nothing of it.
    user = [record(USERS_FROM + n, n * 0.02, ends=2.02 if n == 500 else 0.02) for n in range(900)]
    (tmp_path / "naive").mkdir()
    naive = summary(tmp_path / "naive", user, 20.0).spreads["e2e"]
    assert naive.percentiles[99] == pytest.approx(0.02)


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    random, covered = np.random.default_rng(5), 0
    for _ in range(200):
        values = random.exponential(1.0, 4_000)
        moments = np.sort(random.uniform(0, 100, len(values)))
        found = spread(moments, values, Window(0, 100, moments))
        assert found is not None
        low, high = found.within[90.0]
        covered += low <= np.log(10) <= high
    assert 0.88 <= covered / 200 <= 0.99


def test_nothing_was_measured(tmp_path: Path) -> None:
    found = summary(tmp_path, [], 1.0)
    assert (found.requests, found.error_rate, found.spreads, found.delivery.share) == (0, 0.0, {}, 1.0)
