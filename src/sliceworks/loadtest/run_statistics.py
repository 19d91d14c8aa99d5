"""Statistics of a run from its tables: summary, latency distributions with confidence intervals, and time series."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from sliceworks.loadtest.percentiles import CountedSample, Sample
from sliceworks.loadtest.request_table import METRICS, TOKENS, RequestTable, number_sql, objectives_sql

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from sliceworks.loadtest.percentiles import Floats
    from sliceworks.specs.objectives import Objective

PERCENTILES = (50.0, 90.0, 95.0, 99.0, 99.9)
_WINDOWS = 10
_STUDENT = {10: 2.262, 5: 2.776}
"""Two-sided 95 % quantile of Student's t distribution, one degree of freedom less than windows."""

_MIN_TAIL_SIZE = 10
"""Minimum average number of values of a window beyond a percentile."""

_LATENCIES = frozenset(("e2e", "ttft"))
"""Metrics that every response has."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """The distribution of a metric, in seconds; `confidence` holds the 95 % confidence interval of each percentile."""

    count: int
    mean: float
    min: float
    max: float
    percentiles: dict[float, float]
    confidence: dict[float, tuple[float, float]]

    def at(self, quantile: float | str) -> float:
        """A percentile such as 99.0, or mean or max."""
        if quantile == "mean":
            return self.mean
        return self.max if quantile == "max" else self.percentiles[float(quantile)]


@dataclass(frozen=True, slots=True)
class Delivery:
    """Scheduled against sent requests in the measurement window."""

    scheduled: int
    sent: int
    scheduled_rate: float
    sent_rate: float
    delay: Distribution | None

    @property
    def share(self) -> float:
        return self.sent / self.scheduled if self.scheduled else 1.0


@dataclass(frozen=True, slots=True)
class Summary:
    """Statistics of a run or a phase."""

    seconds: float
    requests: int
    succeeded: int
    failures: dict[str, int]
    latencies: dict[str, Distribution]
    with_failures: dict[str, float]
    """By objective: the percentile over all requests, where failed requests count as infinitely slow."""
    tokens_in: int
    tokens_out: int
    bytes_in: int
    completed: int
    """Responses that completed in the window."""
    good: int
    """Completed responses that met all objectives."""
    tokens_received: float
    """Tokens received in the window."""
    coalesced: float
    """Fraction of chunks that arrived together with the previous one."""
    delivery: Delivery

    @property
    def error_rate(self) -> float:
        return 1 - self.succeeded / self.requests if self.requests else 0.0

    def per_second(self, amount: float) -> float:
        return amount / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Window:
    """The measurement window, in seconds from the start of the run, and the due times of the whole schedule.

    Confidence intervals are computed only if the load was constant (`steady`).
    """

    begins: float
    ends: float
    due_times: Floats
    steady: bool = True


def summarize(folder: Path, window: Window, objectives: tuple[Objective, ...] = ()) -> Summary:
    """Statistics of the requests scheduled in the window."""
    with RequestTable(folder, window.begins, window.ends) as table:
        extra = tuple(objective.quantile for objective in objectives if isinstance(objective.quantile, float))
        percentiles = tuple(sorted({*PERCENTILES, *extra}))
        latencies, with_failures = dict[str, Distribution](), dict[str, float]()
        for name in (*METRICS, "delay"):
            due_times, values = table.measure(name)
            if len(values):
                latencies[name] = compute_distribution(due_times, values, window, percentiles)
            if name in _LATENCIES:
                matching = [item for item in objectives if item.measure == name]
                with_failures |= {item.text: at for item in matching if (at := _with_failures(item, values, table))}
        gaps = table.gaps(_WINDOWS)
        combined = CountedSample.combine(gaps)
        if combined.count:
            latencies["itl"] = _build_distribution(combined, gaps, _pair_up(gaps), percentiles, steady=window.steady)
        tokens_in, tokens_out, bytes_in = table.aggregate(f"sum(tokens_in), sum({TOKENS}), sum(bytes_in)")
        completed, good, tokens, sent = table.aggregate(_window_sql(window, objectives), "everything")
        return Summary(
            seconds=max(window.ends - window.begins, 0.0),
            requests=table.count,
            succeeded=int(table.good.sum()),
            failures=table.failures(),
            latencies=latencies,
            with_failures=with_failures,
            tokens_in=int(tokens_in or 0),
            tokens_out=int(tokens_out or 0),
            bytes_in=int(bytes_in or 0),
            completed=completed,
            good=good,
            tokens_received=float(tokens or 0),
            coalesced=float(combined.counts[combined.values <= 0].sum() / combined.count) if combined.count else 0.0,
            delivery=_delivery(table, window, latencies.get("delay"), sent),
        )


def _with_failures(objective: Objective, values: Floats, table: RequestTable) -> float | None:
    """A percentile in which failed requests count as infinitely slow."""
    if not isinstance(objective.quantile, float):
        return None
    place = int(np.ceil(objective.quantile / 100 * table.count - 1e-9))
    return Sample(values).at([100 * place / len(values)])[0] if 0 < place <= len(values) else float("inf")


def _window_sql(window: Window, objectives: tuple[Objective, ...]) -> str:
    """SQL for the responses, tokens and requests of the window.

    Tokens of a response are assumed to arrive evenly between its first token and its end.
    """
    begins, ends = number_sql(window.begins), number_sql(window.ends)
    inside = f"greatest(least(ended, {ends}) - greatest(first_token, {begins}), 0) / (ended - first_token)"
    at_once = f"(ended >= {begins} AND ended < {ends})::INT"
    share = f"CASE WHEN ended > first_token THEN {inside} ELSE {at_once} END"
    return (
        f"count(*) FILTER (failure IS NULL AND ended >= {begins} AND ended < {ends}), "
        f"count(*) FILTER ({objectives_sql(objectives)} AND ended >= {begins} AND ended < {ends}), "
        f"sum({TOKENS} * ({share})) FILTER (failure IS NULL), "
        f"count(*) FILTER (sent >= {begins} AND sent < {ends})"
    )


def compute_distribution(
    due_times: Floats, values: Floats, window: Window, percentiles: Sequence[float] = PERCENTILES
) -> Distribution:
    """The distribution of values, whose times are in order."""
    edges = np.linspace(window.begins, window.ends, _WINDOWS + 1)
    cuts = [0, *np.searchsorted(due_times, edges[1:-1]).tolist(), len(values)]

    def parts(step: int) -> Iterator[Sample]:
        places = cuts[::step]
        return (Sample(values[begin:end]) for begin, end in pairwise(places))

    return _build_distribution(Sample(values), list(parts(1)), list(parts(2)), percentiles, steady=window.steady)


def _pair_up(tens: list[CountedSample]) -> list[CountedSample]:
    return [CountedSample.combine(tens[place : place + 2]) for place in range(0, len(tens), 2)]


def _build_distribution(
    sample: Sample, tens: Sequence[Sample], fives: Sequence[Sample], percentiles: Sequence[float], *, steady: bool
) -> Distribution:
    values = dict(zip(percentiles, sample.at(percentiles), strict=True))
    confidence: dict[float, tuple[float, float]] = {}
    for parts in (tens, fives) if steady else ():
        smallest = min(part.count for part in parts)
        enough = [
            percentile
            for percentile in percentiles
            if percentile not in confidence and smallest * (100 - percentile) / 100 >= _MIN_TAIL_SIZE
        ]
        if enough:
            rows = np.asarray([part.at(enough) for part in parts])
            confidence |= {checked: _interval(values[checked], rows[:, place]) for place, checked in enumerate(enough)}
    return Distribution(sample.count, sample.mean, sample.min, sample.max, values, confidence)


def _interval(figure: float, parts: Floats) -> tuple[float, float]:
    """Confidence intervals by sectioning the run into independent windows."""
    count = len(parts)
    half = _STUDENT[count] * float(np.sqrt(((parts - figure) ** 2).sum() / (count - 1) / count))
    return max(figure - half, 0.0), figure + half


def _delivery(table: RequestTable, window: Window, delay: Distribution | None, sent: int) -> Delivery:
    scheduled = (
        int(np.searchsorted(window.due_times, window.ends) - np.searchsorted(window.due_times, window.begins)) + table.users()
    )
    seconds = max(window.ends - window.begins, 1e-9)
    return Delivery(scheduled, delay.count if delay else 0, scheduled / seconds, sent / seconds, delay)


_POINTS = 200
_SHARES = np.concatenate([np.linspace(0, 0.9, 91), 1 - np.geomspace(0.1, 1e-5, 60)])
_SERIES_NAMES = {"e2e": ("p50", "p90", "p99"), "ttft": ("ttft p50", "ttft p99"), "tpot": ("tpot p50", "tpot p99")}
_CHARTED = {"end to end": "e2e", "from sending": "service", "first token": "ttft"}


def time_series(folder: Path, seconds: float, due_times: Floats, objectives: tuple[Objective, ...] = ()) -> dict[str, list[Any]]:
    """Over time: scheduled, sent, completed, failed and good requests per second, tokens per second, and latency percentiles."""
    step = max(round(seconds / _POINTS, 3), 0.25)
    with RequestTable(folder) as table:
        edges = np.arange(np.floor(table.intended[-1] / step) + 2) * step if table.count else np.zeros(1)

        def rate(at: Floats, weights: Floats | None = None) -> list[float]:
            return (np.histogram(at, edges, weights=weights)[0] / step).tolist() if table.count else []

        ended = table.column("ended")
        rates = {"scheduled": due_times, "sent": table.column("sent"), "completed": ended[table.good], "failed": ended[~table.good]}
        rates["good"] = ended[table.meets(objectives)]
        result: dict[str, list[Any]] = {"at": edges[:-1].tolist()}
        result |= {name: rate(values) for name, values in rates.items()}
        result["tokens"] = rate(ended, table.column(f"coalesce({TOKENS}, 0)"))
        for measure, shown in _SERIES_NAMES.items():
            result |= _percentiles(*table.measure(measure), edges, shown)
    return result


def _percentiles(due_times: Floats, values: Floats, edges: Floats, names: Sequence[str]) -> dict[str, list[float | None]]:
    """Percentiles over time by name, such as `ttft p99`; None for empty steps."""
    percentiles = [float(name.rpartition("p")[2]) for name in names]
    cuts = np.searchsorted(due_times, edges).tolist()
    parts = [Sample(values[begin:end]) for begin, end in pairwise(cuts)]
    rows = [part.at(percentiles) if part.count else [None] * len(percentiles) for part in parts]
    return {name: [row[index] for row in rows] for index, name in enumerate(names)}


def distributions(folder: Path, begins: float) -> dict[str, dict[str, list[float]]]:
    """By metric: cumulative shares of requests and their latencies; shares are denser towards the slowest."""
    result = {}
    with RequestTable(folder, begins) as table:
        for name, measure in _CHARTED.items():
            result[name] = _distribution(Sample(table.measure(measure)[1]))
        (gaps,) = table.gaps(1)
        result["between chunks"] = _distribution(gaps)
    return {name: points for name, points in result.items() if points}


def _distribution(sample: Sample) -> dict[str, list[float]]:
    if not sample.count:
        return {}
    return {"share": [round(float(share), 6) for share in _SHARES], "time": sample.at([100 * float(share) for share in _SHARES])}
