"""Figures from rows whose answer is known: exact percentiles, what was delivered, what was good enough, and a stall that shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.support.load_tests import failed, record, written

from sliceworks.loadtest.results import keeps
from sliceworks.loadtest.rows import USERS_FROM, Failure
from sliceworks.loadtest.samples import Counted, Values
from sliceworks.loadtest.statistics import Summary, Window, spread, summarise
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
    random = np.random.default_rng(1)
    mixed = random.permutation(np.asarray(values, dtype=np.float64))
    assert Values(mixed).at([percentile]) == [expected]
    # Counting how often there was each value says the same.
    assert Counted(*np.unique(mixed, return_counts=True)).at([percentile]) == [expected]


def test_counted_values_say_what_all_of_them_say() -> None:
    random = np.random.default_rng(2)
    parts = [random.integers(0, 50, size).astype(np.float64) / 7 for size in (1, 30, 400)]
    all_of_them = Values(np.concatenate(parts))
    counted = Counted.together([Counted(*np.unique(part, return_counts=True)) for part in parts])
    wanted = [0.0, 1.0, 50.0, 90.0, 99.0, 99.9, 100.0]
    assert counted.at(wanted) == all_of_them.at(wanted)
    assert (counted.count, counted.least, counted.most) == (all_of_them.count, all_of_them.least, all_of_them.most)
    assert counted.mean == pytest.approx(all_of_them.mean)


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
    # Seven that the server reported, and three pieces of a stream about which it reported nothing.
    assert found.tokens_out == 10


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


def test_what_is_good_is_part_of_what_was_answered_meanwhile(tmp_path: Path) -> None:
    """Asked for before, and answered then; answered then; asked for then, and answered too late to count."""
    records = [record(0, 0.4, first=0.1, ends=0.2), record(1, 0.6, first=0.1, ends=0.2), record(2, 0.9, first=0.05, ends=0.2)]
    found = summary(tmp_path, records, 1.0, begins=0.5, objectives=("e2e p95 < 1s",))
    assert (found.requests, found.answered, found.good) == (2, 2, 2)
    found = summary(tmp_path, records, 1.0, begins=0.5, objectives=("ttft p95 < 80ms",))
    assert (found.answered, found.good) == (2, 0)


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


def correlated(random: np.random.Generator, count: int, memory: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Latencies of a server whose slowness lasts: each resembles the one before."""
    level = np.empty(count)
    level[0] = random.normal()
    noise = random.normal(size=count) * (1 - memory**2) ** 0.5
    for place in range(1, count):
        level[place] = memory * level[place - 1] + noise[place]
    return np.asarray(np.exp(level / 2))


@pytest.mark.parametrize("memory", [0.0, 0.9])
def test_intervals_cover_the_truth_about_as_often_as_they_say(memory: float) -> None:
    random, covered = np.random.default_rng(5), 0
    truth = float(np.exp(1.2815515655446004 / 2))  # the 90th percentile of a normal distribution
    for _ in range(100):
        values = correlated(random, 2_000, memory)
        moments = np.sort(random.uniform(0, 100, len(values)))
        low, high = spread(moments, values, Window(0, 100, moments)).within[90.0]
        covered += low <= truth <= high
    assert 0.86 <= covered / 100 <= 1.0


def test_intervals_that_took_rows_for_free_of_each_other_would_be_too_small() -> None:
    """What the test above would find wrong: by the theory of rows that know nothing of each other, as many tools do it."""
    random, covered = np.random.default_rng(5), 0
    truth = float(np.exp(1.2815515655446004 / 2))
    for _ in range(100):
        ordered = np.sort(correlated(random, 2_000, 0.9))
        half = 1.96 * (2_000 * 0.9 * 0.1) ** 0.5
        covered += ordered[int(1_800 - half)] <= truth <= ordered[int(1_800 + half)]
    assert covered / 100 < 0.7


def test_a_percentile_with_too_little_beyond_it_has_no_interval() -> None:
    moments = np.linspace(0, 10, 1_000, endpoint=False)
    found = spread(moments, np.random.default_rng(1).exponential(1, 1_000), Window(0, 10, moments))
    assert set(found.within) == {50.0, 90.0, 95.0}
    for percentile, (low, high) in found.within.items():
        assert low <= found.percentiles[percentile] <= high


def test_a_load_that_changes_has_no_interval() -> None:
    moments = np.linspace(0, 10, 1_000, endpoint=False)
    assert spread(moments, moments, Window(0, 10, moments, steady=False)).within == {}


def test_a_server_that_is_behind_answers_less_than_it_is_asked(tmp_path: Path) -> None:
    """Asked 10 times a second for 10 s, it answers 5 a second: half of the answers come when nobody asks any more."""
    records = [record(n, n / 10, first=n / 10 + 0.1, ends=n / 10 + 0.1, tokens_out=4) for n in range(100)]
    found = summary(tmp_path, records, 10.0)
    assert (found.requests, found.succeeded) == (100, 100)
    assert found.per_second(found.answered) == pytest.approx(5, abs=0.2)
    assert found.per_second(found.tokens_meanwhile) == pytest.approx(20, abs=1)


def test_tokens_count_when_they_come(tmp_path: Path) -> None:
    """An answer of 8 s that began with the run: at its fourth second half of its tokens were there."""
    one = record(0, 0.0, first=0.0, ends=8.0, tokens_out=800)
    assert summary(tmp_path, [one], 4.0).tokens_meanwhile == pytest.approx(400)


def test_a_sender_that_is_behind_did_not_send_at_the_rate_asked_for(tmp_path: Path) -> None:
    found = summary(tmp_path, [record(n, n / 10, sent=n / 10) for n in range(100)], 10.0).delivery
    assert found.rate_asked == pytest.approx(10)
    assert found.share == 1.0
    assert found.rate_sent == pytest.approx(5, abs=0.2)


def test_those_that_failed_do_not_make_a_server_look_fast(tmp_path: Path) -> None:
    """Two of a hundred time out. The p99 of those that were answered is fine; that of all is not."""
    records = [record(n, n / 100) for n in range(98)] + [failed(98 + n, 0.98, Failure.TOTAL_TIMEOUT) for n in range(2)]
    texts = ("e2e p99 < 1s", "e2e p95 < 1s", "e2e mean < 1s", "e2e mean < 100ms")
    found = summary(tmp_path, records, 1.0, objectives=texts)
    assert found.spreads["e2e"].percentiles[99] < 1
    first, second, *means = (keeps(parse(text), found) for text in texts)
    assert (first.kept, first.found, first.why) == (False, None, "2.00% of all requests were never answered well")
    assert second.kept
    assert [each.kept for each in means] == [True, False]


def test_an_answer_without_a_word_is_not_good(tmp_path: Path) -> None:
    silent = record(0, 0.0, first_token=-1)
    assert summary(tmp_path, [silent, record(1, 0.1)], 1.0, objectives=("ttft p50 < 1s",)).good == 1


def test_time_between_pieces_counts_for_what_is_good(tmp_path: Path) -> None:
    records = []
    for number, ends in ((0, 0.3), (1, 2.1)):
        one = record(number, number / 10, first=0.1, ends=ends)
        for moment in np.linspace(0.1, ends, 5):
            one.piece(one.sent + int(moment * 1e9))
        records.append(one)
    assert summary(tmp_path, records, 1.0, objectives=("itl p99 < 100ms",)).good == 1


@pytest.mark.parametrize(("step", "share"), [(1, 0.0), (5, 0.8)])
def test_pieces_that_come_together_are_told(tmp_path: Path, step: int, share: float) -> None:
    """Something on the way gathers five pieces before it passes them on: most gaps are nothing, and the time per token is true."""
    one = record(0, 0.0, first=0.01 * step, ends=1.0)
    for piece in range(100):
        one.piece(one.sent + (piece // step + 1) * step * 10_000_000)
    found = summary(tmp_path, [one], 1.0)
    assert found.coalesced == pytest.approx(share, abs=0.02)
    assert found.spreads["tpot"].mean == pytest.approx(0.01, rel=0.05)
    assert (found.spreads["itl"].percentiles[50] == 0) is (step > 1)


def test_nothing_was_measured(tmp_path: Path) -> None:
    found = summary(tmp_path, [], 1.0)
    assert (found.requests, found.error_rate, found.spreads, found.delivery.share) == (0, 0.0, {}, 1.0)
