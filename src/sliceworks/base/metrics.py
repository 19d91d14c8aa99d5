"""Prometheus metrics: counters, gauges and histograms, rendered in the text format."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

Labels = tuple[str, ...]
DEFAULT_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class MetricDescription(NamedTuple):
    """Name, type, help text and label names of a metric."""

    name: str
    kind: str
    help: str
    labels: Labels


class Metric(Protocol):
    """A metric of any type."""

    description: MetricDescription

    def samples(self) -> Iterator[str]:
        """The current samples, one line each."""
        ...


T = TypeVar("T", bound=Metric)


class Registry:
    """The metrics of one process."""

    def __init__(self) -> None:
        self._metrics: list[Metric] = []

    def counter(self, name: str, help_text: str, *labels: str) -> Counter:
        """Register a counter."""
        return self._register(Counter(MetricDescription(name, "counter", help_text, labels)))

    def histogram(self, name: str, help_text: str, *labels: str, buckets: Sequence[float] = DEFAULT_BUCKETS) -> Histogram:
        """Register a histogram."""
        return self._register(Histogram(MetricDescription(name, "histogram", help_text, labels), buckets))

    def gauge(self, name: str, help_text: str, read: Callable[[], float]) -> None:
        """Register a gauge; `read` is called on every scrape."""
        self._register(GaugeFunc(MetricDescription(name, "gauge", help_text, ()), lambda: {(): read()}))

    def gauge_vec(self, name: str, help_text: str, label: str, read: Callable[[], Mapping[str, float]]) -> None:
        """Register a gauge with one label; `read` is called on every scrape and returns the value for each label value."""
        by_label = GaugeFunc(
            MetricDescription(name, "gauge", help_text, (label,)),
            lambda: {(value,): number for value, number in read().items()},
        )
        self._register(by_label)

    def describe(self) -> list[MetricDescription]:
        """The descriptions of all metrics, in the order of registration."""
        return [metric.description for metric in self._metrics]

    def render(self) -> str:
        """All metrics in Prometheus' text format."""
        return "".join(f"{line}\n" for metric in self._metrics for line in _lines(metric))

    def _register(self, metric: T) -> T:
        self._metrics.append(metric)
        return metric


class Counter:
    """A value that only grows, for each combination of label values."""

    def __init__(self, description: MetricDescription) -> None:
        self.description = description
        self._values: dict[Labels, float] = {} if description.labels else {(): 0.0}

    def inc(self, *labels: str, by: float = 1.0) -> None:
        """Increment the counter for these label values."""
        self._values[labels] = self._values.get(labels, 0.0) + by

    def samples(self) -> Iterator[str]:
        """The current samples, one line each."""
        return _samples(self.description, self._values)


class GaugeFunc:
    """A gauge whose values, by label values, are read on every scrape."""

    def __init__(self, description: MetricDescription, read: Callable[[], Mapping[Labels, float]]) -> None:
        self.description = description
        self._read = read

    def samples(self) -> Iterator[str]:
        """The current samples, one line each."""
        return _samples(self.description, self._read())


class Histogram:
    """Observations counted by upper bound, for each combination of label values."""

    def __init__(self, description: MetricDescription, buckets: Sequence[float]) -> None:
        self.description, self._bounds = description, tuple(buckets)
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def observe(self, value: float, *labels: str) -> None:
        """Count one observation."""
        counts = self._counts.setdefault(labels, [0] * (len(self._bounds) + 1))
        counts[bisect_left(self._bounds, value)] += 1
        self._sums[labels] = self._sums.get(labels, 0.0) + value

    def samples(self) -> Iterator[str]:
        """The current samples, one line each."""
        name, label_names = self.description.name, self.description.labels
        for labels, counts in sorted(self._counts.items()):
            total = 0
            for bound, count in zip((*map(_number, self._bounds), "+Inf"), counts, strict=True):
                total += count
                yield f"{name}_bucket{_pairs((*label_names, 'le'), (*labels, bound))} {total}"
            yield f"{name}_sum{_pairs(label_names, labels)} {_number(self._sums[labels])}"
            yield f"{name}_count{_pairs(label_names, labels)} {total}"


def _lines(metric: Metric) -> Iterator[str]:
    name, kind, help_text, _ = metric.description
    yield f"# HELP {name} {help_text}"
    yield f"# TYPE {name} {kind}"
    yield from metric.samples()


def _samples(description: MetricDescription, values: Mapping[Labels, float]) -> Iterator[str]:
    for labels, value in sorted(values.items()):
        yield f"{description.name}{_pairs(description.labels, labels)} {_number(value)}"


def _number(value: float) -> str:
    """A number with all digits, so that increments of large counters are visible."""
    exact = float(value)
    return str(int(exact)) if exact.is_integer() else repr(exact)


def _pairs(names: Labels, values: Labels) -> str:
    if not names:
        return ""
    escaped = (value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") for value in values)
    return "{" + ",".join(f'{name}="{value}"' for name, value in zip(names, escaped, strict=True)) + "}"
