"""Numbers that a program counts, in the text that Prometheus reads."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

Labels = tuple[str, ...]
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class About(NamedTuple):
    """What a number is, for people."""

    name: str
    kind: str
    words: str
    labels: Labels


class Metric(Protocol):
    """Something with a name that can be written down."""

    def about(self) -> About:
        """What it is."""
        ...

    def lines(self) -> Iterator[str]:
        """How it reads now."""
        ...


T = TypeVar("T", bound=Metric)


class Registry:
    """Everything one process counts."""

    def __init__(self) -> None:
        self._metrics: list[Metric] = []

    def counter(self, name: str, about: str, *labels: str) -> Counter:
        """A number that only grows."""
        return self._keep(Counter(name, about, labels))

    def histogram(self, name: str, about: str, *labels: str, buckets: Sequence[float] = BUCKETS) -> Histogram:
        """How often something took how long."""
        return self._keep(Histogram(name, about, labels, buckets))

    def gauge(self, name: str, about: str, read: Callable[[], float]) -> None:
        """A number that is asked for when it is read."""
        self._keep(Gauge(name, about, read))

    def gauges(self, name: str, about: str, label: str, read: Callable[[], Mapping[str, float]]) -> None:
        """A number for each value of a label, asked for when it is read."""
        self._keep(Gauges(name, about, label, read))

    def about(self) -> list[About]:
        """What is counted here."""
        return [metric.about() for metric in self._metrics]

    def text(self) -> str:
        """All of it."""
        return "".join(f"{line}\n" for metric in self._metrics for line in metric.lines())

    def _keep(self, metric: T) -> T:
        self._metrics.append(metric)
        return metric


class Counter:
    """A number for each combination of labels."""

    def __init__(self, name: str, about: str, labels: Labels) -> None:
        self._name, self._about, self._labels = name, about, labels
        self._values: dict[Labels, float] = {} if labels else {(): 0.0}

    def add(self, *labels: str, by: float = 1.0) -> None:
        """Count."""
        self._values[labels] = self._values.get(labels, 0.0) + by

    def about(self) -> About:
        """What it is."""
        return About(self._name, "counter", self._about, self._labels)

    def lines(self) -> Iterator[str]:
        """How it reads now."""
        yield from _head(self.about())
        for labels, value in sorted(self._values.items()):
            yield f"{self._name}{_pairs(self._labels, labels)} {_number(value)}"


class Gauge:
    """One number, read when asked."""

    def __init__(self, name: str, about: str, read: Callable[[], float]) -> None:
        self._name, self._about, self._read = name, about, read

    def about(self) -> About:
        """What it is."""
        return About(self._name, "gauge", self._about, ())

    def lines(self) -> Iterator[str]:
        """How it reads now."""
        yield from _head(self.about())
        yield f"{self._name} {_number(self._read())}"


class Gauges:
    """A number for each value of one label, read when asked."""

    def __init__(self, name: str, about: str, label: str, read: Callable[[], Mapping[str, float]]) -> None:
        self._name, self._about, self._label, self._read = name, about, label, read

    def about(self) -> About:
        """What it is."""
        return About(self._name, "gauge", self._about, (self._label,))

    def lines(self) -> Iterator[str]:
        """How it reads now."""
        yield from _head(self.about())
        for value, number in sorted(self._read().items()):
            yield f"{self._name}{_pairs((self._label,), (value,))} {_number(number)}"


class Histogram:
    """Counts by upper bounds, for each combination of labels."""

    def __init__(self, name: str, about: str, labels: Labels, buckets: Sequence[float]) -> None:
        self._name, self._about, self._labels, self._bounds = name, about, labels, tuple(buckets)
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def observe(self, value: float, *labels: str) -> None:
        """It took so long."""
        counts = self._counts.setdefault(labels, [0] * (len(self._bounds) + 1))
        counts[bisect_left(self._bounds, value)] += 1
        self._sums[labels] = self._sums.get(labels, 0.0) + value

    def about(self) -> About:
        """What it is."""
        return About(self._name, "histogram", self._about, self._labels)

    def lines(self) -> Iterator[str]:
        """How it reads now."""
        yield from _head(self.about())
        for labels, counts in sorted(self._counts.items()):
            total = 0
            for bound, count in zip((*map(_number, self._bounds), "+Inf"), counts, strict=True):
                total += count
                yield f"{self._name}_bucket{_pairs((*self._labels, 'le'), (*labels, bound))} {total}"
            yield f"{self._name}_sum{_pairs(self._labels, labels)} {_number(self._sums[labels])}"
            yield f"{self._name}_count{_pairs(self._labels, labels)} {total}"


def _head(about: About) -> Iterator[str]:
    yield f"# HELP {about.name} {about.words}"
    yield f"# TYPE {about.name} {about.kind}"


def _number(value: float) -> str:
    """A number to its last digit: one that grows by ones must be seen to, however large it is."""
    exact = float(value)
    return str(int(exact)) if exact.is_integer() else repr(exact)


def _pairs(names: Labels, values: Labels) -> str:
    if not names:
        return ""
    escaped = (value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") for value in values)
    return "{" + ",".join(f'{name}="{value}"' for name, value in zip(names, escaped, strict=True)) + "}"
