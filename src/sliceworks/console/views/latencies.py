"""Live latency of models, from two readings of a gateway's numbers: what happened between them, by model. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_sample = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)").fullmatch
_label = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"').findall
WHOLE, FIRST = "vllm:e2e_request_latency_seconds", "vllm:time_to_first_token_seconds"
_RUNNING, _WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"
_REQUESTS, _UP = "sliceworks_gateway_requests_total", "sliceworks_gateway_backend_up"
_MODEL = "model_name"

Series = dict[str, list[tuple[dict[str, str], float]]]


@dataclass(frozen=True, slots=True)
class Latency:
    """One model since the last look: requests a second, the share that failed, and seconds at p50 and p99; None: nobody asked."""

    rate: float = 0.0
    errors: float = 0.0
    first: tuple[float, float] | None = None
    whole: tuple[float, float] | None = None
    running: int = 0
    waiting: int = 0


@dataclass(frozen=True, slots=True)
class Reading:
    """A gateway's numbers at one moment, `at` seconds on our own clock; several gateways of one name add up."""

    at: float
    series: Series = field(default_factory=dict)

    def backends(self) -> dict[str, bool]:
        """The servers behind the gateway, and whether each is well."""
        return {labels.get("backend", ""): value > 0 for labels, value in self.series.get(_UP, ())}


def read(texts: Iterable[str], at: float) -> Reading:
    """What Prometheus would read, of all gateways together."""
    found: Series = {}
    for text in texts:
        for line in text.splitlines():
            sample = None if line.startswith("#") else _sample(line)
            if sample is not None:
                labels = dict(_label(sample[2] or ""))
                found.setdefault(sample[1], []).append((labels, _number(sample[3])))
    return Reading(at, found)


def between(before: Reading, after: Reading, model: str) -> Latency:
    """What a model did between two readings."""
    seconds = max(after.at - before.at, 1e-9)
    asked, failed = _requests(before, after, model)
    return Latency(
        rate=asked / seconds,
        errors=failed / asked if asked else 0.0,
        first=_spread(FIRST, before, after, model),
        whole=_spread(WHOLE, before, after, model),
        running=int(_sum(after.series.get(_RUNNING, ()), model)),
        waiting=int(_sum(after.series.get(_WAITING, ()), model)),
    )


def _requests(before: Reading, after: Reading, model: str) -> tuple[float, float]:
    def counted(reading: Reading, *, failed: bool) -> float:
        samples = [(labels, value) for labels, value in reading.series.get(_REQUESTS, ()) if labels.get("model") == model]
        return sum(value for labels, value in samples if not failed or not labels.get("code", "").startswith("2"))

    return (
        max(counted(after, failed=False) - counted(before, failed=False), 0.0),
        max(counted(after, failed=True) - counted(before, failed=True), 0.0),
    )


def _sum(samples: Iterable[tuple[Mapping[str, str], float]], model: str) -> float:
    return sum(value for labels, value in samples if labels.get(_MODEL) == model)


def _spread(name: str, before: Reading, after: Reading, model: str) -> tuple[float, float] | None:
    """p50 and p99 of what came between."""
    earlier, later = _buckets(before, name, model), _buckets(after, name, model)
    # A gateway that has started anew counts from nothing: then all that it has is new.
    fresh = any(later[bound] < earlier.get(bound, 0.0) for bound in later)
    counts = [(bound, later[bound] - (0.0 if fresh else earlier.get(bound, 0.0))) for bound in sorted(later)]
    if not counts or counts[-1][1] <= 0:
        return None
    return quantile(counts, 0.5), quantile(counts, 0.99)


def _buckets(reading: Reading, name: str, model: str) -> dict[float, float]:
    found: dict[float, float] = {}
    for labels, value in reading.series.get(f"{name}_bucket", ()):
        if labels.get(_MODEL) == model:
            bound = _number(labels.get("le", "+Inf"))
            found[bound] = found.get(bound, 0.0) + value
    return found


def quantile(counts: Sequence[tuple[float, float]], share: float) -> float:
    """Where so much of what was counted lies below, taken as even within a bucket; never beyond the last bound that is finite."""
    wanted, low, below = counts[-1][1] * share, 0.0, 0.0
    for bound, count in counts:
        if count >= wanted:
            if bound == float("inf"):
                return low
            part = (wanted - below) / (count - below) if count > below else 1.0
            return low + (bound - low) * part
        low, below = bound, count
    return low


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
