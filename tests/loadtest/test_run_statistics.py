"""Statistics of rows with known results: exact percentiles, delivery, goodput, and stalls."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.support.load_tests import failed, record, written

from sliceworks.loadtest.percentiles import CountedSample, Sample
from sliceworks.loadtest.request_log import USER_REQUESTS_FROM, Failure
from sliceworks.loadtest.results import evaluate_objective
from sliceworks.loadtest.run_statistics import Summary, Window, compute_distribution, summarize
from sliceworks.specs.objectives import parse_objective

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from sliceworks.loadtest.request_log import RequestRecord


def summary(
    folder: Path, records: Iterable[RequestRecord], seconds: float, *, begins: float = 0.0, objectives: tuple[str, ...] = ()
) -> Summary:
    result = list(records)
    due_times = np.asarray([item.intended / 1e9 for item in result if item.number < USER_REQUESTS_FROM])
    return summarize(written(folder, result), Window(begins, seconds, due_times), tuple(map(parse_objective, objectives)))


@pytest.mark.parametrize(
    ("values", "percentile", "expected"),
    [([1, 2, 3, 4], 50, 2), ([1, 2, 3, 4], 75, 3), ([1, 2, 3, 4], 76, 4), ([5], 99.9, 5), (list(range(1, 1001)), 99.9, 999)],
)
def test_percentiles_are_observed_values(values: list[float], percentile: float, expected: float) -> None:
    random = np.random.default_rng(1)
    mixed = random.permutation(np.asarray(values, dtype=np.float64))
    assert Sample(mixed).at([percentile]) == [expected]
    # Counted values give the same result.
    assert CountedSample(*np.unique(mixed, return_counts=True)).at([percentile]) == [expected]


def test_counted_sample_equals_value_sample() -> None:
    random = np.random.default_rng(2)
    parts = [random.integers(0, 50, size).astype(np.float64) / 7 for size in (1, 30, 400)]
    all_of_them = Sample(np.concatenate(parts))
    counted = CountedSample.combine([CountedSample(*np.unique(part, return_counts=True)) for part in parts])
    expected = [0.0, 1.0, 50.0, 90.0, 99.0, 99.9, 100.0]
    assert counted.at(expected) == all_of_them.at(expected)
    assert (counted.count, counted.min, counted.max) == (all_of_them.count, all_of_them.min, all_of_them.max)
    assert counted.mean == pytest.approx(all_of_them.mean)


def test_latencies_count_from_the_scheduled_time(tmp_path: Path) -> None:
    result = summary(tmp_path, [record(n, n / 10, sent=0.3, first=0.1, ends=0.5) for n in range(10)], 1.0)
    assert result.latencies["e2e"].percentiles[50] == pytest.approx(0.8)
    assert result.latencies["service"].percentiles[50] == pytest.approx(0.5)
    assert result.latencies["ttft"].percentiles[99] == pytest.approx(0.4)
    assert result.latencies["ttft service"].percentiles[99] == pytest.approx(0.1)
    assert result.latencies["delay"].mean == pytest.approx(0.3)


def test_inter_chunk_time_and_time_per_token(tmp_path: Path) -> None:
    one = record(0, 0.0, first=0.1, ends=0.5)
    for moment in (100, 200, 500):
        one.chunk(one.sent + moment * 1_000_000)
    two = record(1, 0.5, first=0.1, ends=0.4, tokens_out=7)
    for moment in (100, 400):
        two.chunk(two.sent + moment * 1_000_000)
    result = summary(tmp_path, [one, two, record(2, 0.9)], 1.0)
    assert result.latencies["itl"].count == 3
    assert result.latencies["itl"].mean == pytest.approx((0.1 + 0.3 + 0.3) / 3)
    assert result.latencies["tpot"].count == 2
    assert result.latencies["tpot"].min == pytest.approx(0.3 / 6)
    assert result.latencies["tpot"].max == pytest.approx(0.4 / 2)
    # Seven that the server reported, and three chunks of a stream without a report.
    assert result.tokens_out == 10


def test_failures_are_counted_without_latency(tmp_path: Path) -> None:
    records = [
        *(record(n, n / 10) for n in range(6)),
        failed(6, 0.6, Failure.STATUS, 503),
        failed(7, 0.7, Failure.STATUS, 503),
        failed(8, 0.8, Failure.STATUS, 429),
        failed(9, 0.9, Failure.CLOSED),
    ]
    result = summary(tmp_path, records, 1.0)
    assert (result.requests, result.succeeded) == (10, 6)
    assert result.error_rate == pytest.approx(0.4)
    assert result.failures == {"status 503": 2, "closed": 1, "status 429": 1}
    assert result.latencies["e2e"].count == 6


def test_unsent_requests_are_not_delivered(tmp_path: Path) -> None:
    sent = [record(n, n / 10) for n in range(7)]
    written(tmp_path, sent)
    result = summarize(tmp_path, Window(0.0, 1.0, np.arange(10) / 10))
    assert (result.delivery.scheduled, result.delivery.sent) == (10, 7)
    assert result.delivery.share == pytest.approx(0.7)
    assert result.delivery.scheduled_rate == pytest.approx(10)
    assert result.delivery.sent_rate == pytest.approx(7)


def test_users_have_no_target_rate(tmp_path: Path) -> None:
    result = summary(tmp_path, [record(USER_REQUESTS_FROM + n, n / 10) for n in range(10)], 1.0)
    assert (result.delivery.scheduled, result.delivery.share) == (10, 1.0)


def test_warm_up_is_excluded(tmp_path: Path) -> None:
    result = summary(tmp_path, [record(n, n / 10, ends=9.0 if n < 5 else 0.2) for n in range(10)], 1.0, begins=0.5)
    assert (result.requests, result.seconds) == (5, 0.5)
    assert result.latencies["e2e"].max == pytest.approx(0.2)
    assert result.delivery.scheduled == 5


def test_goodput_meets_all_objectives(tmp_path: Path) -> None:
    records = [
        record(0, 0.0, first=0.1, ends=0.2),
        record(1, 0.1, first=0.4, ends=0.5),
        record(2, 0.2, first=0.1, ends=3.0),
        record(3, 0.3, sent=0.4, first=0.1, ends=0.2),
        failed(4, 0.4, Failure.CLOSED),
    ]
    result = summary(tmp_path, records, 1.0, objectives=("ttft p99 < 300ms", "e2e p95 < 1s", "errors < 1%"))
    assert result.good == 1


def test_goodput_is_part_of_throughput(tmp_path: Path) -> None:
    """Sent before and completed in the window; completed in the window; sent in the window and completed too late."""
    records = [record(0, 0.4, first=0.1, ends=0.2), record(1, 0.6, first=0.1, ends=0.2), record(2, 0.9, first=0.05, ends=0.2)]
    result = summary(tmp_path, records, 1.0, begins=0.5, objectives=("e2e p95 < 1s",))
    assert (result.requests, result.completed, result.good) == (2, 2, 2)
    result = summary(tmp_path, records, 1.0, begins=0.5, objectives=("ttft p95 < 80ms",))
    assert (result.completed, result.good) == (2, 0)


def test_stall_matches_theory(tmp_path: Path) -> None:
    """A server that stalls for 2 s every 20 s: a tenth of evenly spaced requests wait, from 2 s down to 0."""
    due_times = np.arange(2_000) / 100
    held = np.where((due_times >= 10) & (due_times < 12), 12 - due_times, 0.0)
    records = [
        record(n, float(at), first=float(wait) + 0.01, ends=float(wait) + 0.02)
        for n, (at, wait) in enumerate(zip(due_times, held, strict=True))
    ]
    result = summary(tmp_path, records, 20.0).latencies["e2e"]
    assert result.percentiles[50] == pytest.approx(0.02)
    assert result.percentiles[99] == pytest.approx(0.02 + 2 * 0.9, abs=0.02)
    assert result.max == pytest.approx(2.02, abs=0.011)
    # The same server for one closed-loop user: one slow request of a thousand, which p99 does not show.
    user = [record(USER_REQUESTS_FROM + n, n * 0.02, ends=2.02 if n == 500 else 0.02) for n in range(900)]
    (tmp_path / "naive").mkdir()
    naive = summary(tmp_path / "naive", user, 20.0).latencies["e2e"]
    assert naive.percentiles[99] == pytest.approx(0.02)


def correlated(random: np.random.Generator, count: int, memory: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Latencies of a server whose slowness persists: each resembles the previous one."""
    level = np.empty(count)
    level[0] = random.normal()
    noise = random.normal(size=count) * (1 - memory**2) ** 0.5
    for place in range(1, count):
        level[place] = memory * level[place - 1] + noise[place]
    return np.asarray(np.exp(level / 2))


@pytest.mark.parametrize("memory", [0.0, 0.9])
def test_intervals_have_their_coverage(memory: float) -> None:
    random, covered = np.random.default_rng(5), 0
    truth = float(np.exp(1.2815515655446004 / 2))  # the 90th percentile of a normal distribution
    for _ in range(100):
        values = correlated(random, 2_000, memory)
        due_times = np.sort(random.uniform(0, 100, len(values)))
        low, high = compute_distribution(due_times, values, Window(0, 100, due_times)).confidence[90.0]
        covered += low <= truth <= high
    assert 0.86 <= covered / 100 <= 1.0


def test_independent_intervals_would_be_too_small() -> None:
    """What the test above would detect: intervals for independent rows, as many tools compute them."""
    random, covered = np.random.default_rng(5), 0
    truth = float(np.exp(1.2815515655446004 / 2))
    for _ in range(100):
        ordered = np.sort(correlated(random, 2_000, 0.9))
        half = 1.96 * (2_000 * 0.9 * 0.1) ** 0.5
        covered += ordered[int(1_800 - half)] <= truth <= ordered[int(1_800 + half)]
    assert covered / 100 < 0.7


def test_a_percentile_with_too_little_beyond_it_has_no_interval() -> None:
    due_times = np.linspace(0, 10, 1_000, endpoint=False)
    result = compute_distribution(due_times, np.random.default_rng(1).exponential(1, 1_000), Window(0, 10, due_times))
    assert set(result.confidence) == {50.0, 90.0, 95.0}
    for percentile, (low, high) in result.confidence.items():
        assert low <= result.percentiles[percentile] <= high


def test_a_load_that_changes_has_no_interval() -> None:
    due_times = np.linspace(0, 10, 1_000, endpoint=False)
    assert compute_distribution(due_times, due_times, Window(0, 10, due_times, steady=False)).confidence == {}


def test_throughput_of_a_slow_server_is_below_the_target(tmp_path: Path) -> None:
    """At 10 requests per second for 10 s, it answers 5 per second: half of the responses arrive after the last request."""
    records = [record(n, n / 10, first=n / 10 + 0.1, ends=n / 10 + 0.1, tokens_out=4) for n in range(100)]
    result = summary(tmp_path, records, 10.0)
    assert (result.requests, result.succeeded) == (100, 100)
    assert result.per_second(result.completed) == pytest.approx(5, abs=0.2)
    assert result.per_second(result.tokens_received) == pytest.approx(20, abs=1)


def test_tokens_count_when_they_arrive(tmp_path: Path) -> None:
    """A response of 8 s that began with the run: at its fourth second, half of its tokens had arrived."""
    one = record(0, 0.0, first=0.0, ends=8.0, tokens_out=800)
    assert summary(tmp_path, [one], 4.0).tokens_received == pytest.approx(400)


def test_late_worker_misses_the_target_rate(tmp_path: Path) -> None:
    result = summary(tmp_path, [record(n, n / 10, sent=n / 10) for n in range(100)], 10.0).delivery
    assert result.scheduled_rate == pytest.approx(10)
    assert result.share == 1.0
    assert result.sent_rate == pytest.approx(5, abs=0.2)


def test_failures_do_not_improve_latency(tmp_path: Path) -> None:
    """Two of a hundred time out: the p99 of completed requests is fine, that of all is not."""
    records = [record(n, n / 100) for n in range(98)] + [failed(98 + n, 0.98, Failure.TOTAL_TIMEOUT) for n in range(2)]
    texts = ("e2e p99 < 1s", "e2e p95 < 1s", "e2e mean < 1s", "e2e mean < 100ms")
    result = summary(tmp_path, records, 1.0, objectives=texts)
    assert result.latencies["e2e"].percentiles[99] < 1
    first, second, *means = (evaluate_objective(parse_objective(text), result) for text in texts)
    assert (first.met, first.value, first.reason) == (False, None, "2.00% of all requests failed")
    assert second.met
    assert [item.met for item in means] == [True, False]


def test_empty_response_is_not_goodput(tmp_path: Path) -> None:
    silent = record(0, 0.0, first_token=-1)
    assert summary(tmp_path, [silent, record(1, 0.1)], 1.0, objectives=("ttft p50 < 1s",)).good == 1


def test_inter_chunk_objective_counts_for_goodput(tmp_path: Path) -> None:
    records = []
    for number, ends in ((0, 0.3), (1, 2.1)):
        one = record(number, number / 10, first=0.1, ends=ends)
        for moment in np.linspace(0.1, ends, 5):
            one.chunk(one.sent + int(moment * 1e9))
        records.append(one)
    assert summary(tmp_path, records, 1.0, objectives=("itl p99 < 100ms",)).good == 1


@pytest.mark.parametrize(("step", "share"), [(1, 0.0), (5, 0.8)])
def test_buffered_chunks_are_reported(tmp_path: Path, step: int, share: float) -> None:
    """A proxy buffers five chunks: most gaps are 0, and the time per token is correct."""
    one = record(0, 0.0, first=0.01 * step, ends=1.0)
    for chunk in range(100):
        one.chunk(one.sent + (chunk // step + 1) * step * 10_000_000)
    result = summary(tmp_path, [one], 1.0)
    assert result.coalesced == pytest.approx(share, abs=0.02)
    assert result.latencies["tpot"].mean == pytest.approx(0.01, rel=0.05)
    assert (result.latencies["itl"].percentiles[50] == 0) is (step > 1)


def test_summary_without_rows(tmp_path: Path) -> None:
    result = summary(tmp_path, [], 1.0)
    assert (result.requests, result.error_rate, result.latencies, result.delivery.share) == (0, 0.0, {}, 1.0)
