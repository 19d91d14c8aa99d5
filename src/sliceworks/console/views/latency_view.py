"""Live latency per model, from two scrapes of a gateway's metrics."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_sample = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)").fullmatch
_label = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"').findall
REQUEST_LATENCY, TIME_TO_FIRST_TOKEN = "vllm:e2e_request_latency_seconds", "vllm:time_to_first_token_seconds"
_RUNNING, _WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"
_REQUESTS, _UP = "sliceworks_gateway_requests_total", "sliceworks_gateway_backend_up"
_MODEL = "model_name"

Series = dict[str, list[tuple[dict[str, str], float]]]


@dataclass(frozen=True, slots=True)
class Latency:
    """A model between two scrapes: requests per second, error rate, and (p50, p99) in seconds, None without requests."""

    rate: float = 0.0
    errors: float = 0.0
    first: tuple[float, float] | None = None
    whole: tuple[float, float] | None = None
    running: int = 0
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class MetricsSample:
    """A scrape of a gateway at loop time `at`; the replicas of a gateway are summed."""

    at: float
    series: Series = field(default_factory=dict)

    def backends(self) -> dict[str, bool]:
        """The backends of the gateway, and whether each is healthy."""
        return {labels.get("backend", ""): value > 0 for labels, value in self.series.get(_UP, ())}


def parse_metrics(scrapes: Iterable[str], at: float) -> MetricsSample:
    """Parse the Prometheus exposition format of all replicas."""
    series: Series = {}
    for scrape in scrapes:
        for line in scrape.splitlines():
            sample = None if line.startswith("#") else _sample(line)
            if sample is not None:
                labels = dict(_label(sample[2] or ""))
                series.setdefault(sample[1], []).append((labels, _number(sample[3])))
    return MetricsSample(at, series)


def latency_between(before: MetricsSample, after: MetricsSample, model: str) -> Latency:
    """The latency of a model between two samples."""
    seconds = max(after.at - before.at, 1e-9)
    total, failed = _requests(before, after, model)
    return Latency(
        rate=total / seconds,
        errors=failed / total if total else 0.0,
        first=_spread(TIME_TO_FIRST_TOKEN, before, after, model),
        whole=_spread(REQUEST_LATENCY, before, after, model),
        running=int(_sum(after.series.get(_RUNNING, ()), model)),
        waiting=int(_sum(after.series.get(_WAITING, ()), model)),
    )


def _requests(before: MetricsSample, after: MetricsSample, model: str) -> tuple[float, float]:
    def counted(sample: MetricsSample, *, failed: bool) -> float:
        samples = [(labels, value) for labels, value in sample.series.get(_REQUESTS, ()) if labels.get("model") == model]
        return sum(value for labels, value in samples if not failed or not labels.get("code", "").startswith("2"))

    return (
        max(counted(after, failed=False) - counted(before, failed=False), 0.0),
        max(counted(after, failed=True) - counted(before, failed=True), 0.0),
    )


def _sum(samples: Iterable[tuple[Mapping[str, str], float]], model: str) -> float:
    return sum(value for labels, value in samples if labels.get(_MODEL) == model)


def _spread(name: str, before: MetricsSample, after: MetricsSample, model: str) -> tuple[float, float] | None:
    """p50 and p99 between two samples."""
    earlier, later = _buckets(before, name, model), _buckets(after, name, model)
    # The counters of a restarted gateway begin at zero.
    restarted = any(later[bound] < earlier.get(bound, 0.0) for bound in later)
    counts = [(bound, later[bound] - (0.0 if restarted else earlier.get(bound, 0.0))) for bound in sorted(later)]
    if not counts or counts[-1][1] <= 0:
        return None
    return quantile(counts, 0.5), quantile(counts, 0.99)


def _buckets(sample: MetricsSample, name: str, model: str) -> dict[float, float]:
    result: dict[float, float] = {}
    for labels, value in sample.series.get(f"{name}_bucket", ()):
        if labels.get(_MODEL) == model:
            bound = _number(labels.get("le", "+Inf"))
            result[bound] = result.get(bound, 0.0) + value
    return result


def quantile(counts: Sequence[tuple[float, float]], share: float) -> float:
    """The quantile of cumulative buckets by linear interpolation, at most the largest finite bound."""
    rank, low, below = counts[-1][1] * share, 0.0, 0.0
    for bound, count in counts:
        if count >= rank:
            if bound == float("inf"):
                return low
            part = (rank - below) / (count - below) if count > below else 1.0
            return low + (bound - low) * part
        low, below = bound, count
    return low


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
