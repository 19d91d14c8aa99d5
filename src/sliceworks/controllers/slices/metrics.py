"""What is counted, and how Prometheus reads it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_CAPACITY = (15.0, 30.0, 60.0, 120.0, 240.0, 480.0, 900.0, 1800.0, 3600.0, 7200.0)
_DECISIONS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)


class Histogram:
    """Counts in buckets."""

    def __init__(self, bounds: Iterable[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def lines(self, name: str) -> Iterator[str]:
        """The text of all buckets."""
        running = 0
        for bound, count in zip((*map(_number, self.bounds), "+Inf"), self.counts, strict=True):
            running += count
            yield f'{name}_bucket{{le="{bound}"}} {running}'
        yield f"{name}_sum {_number(self.total)}"
        yield f"{name}_count {running}"


class Metrics:
    """Everything that the slices controller counts."""

    def __init__(self) -> None:
        self.time_to_capacity = Histogram(_CAPACITY)
        self.decisions = Histogram(_DECISIONS)
        self.failures: Counter[str] = Counter()
        self.operations: Counter[tuple[str, str]] = Counter()
        self.lists = 0
        self.pools: Mapping[str, int] = {}
        self.in_flight = 0
        self.limit = 0.0
        self.waiting = 0

    def render(self) -> str:
        """The page that Prometheus reads."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        name = "sliceworks_slices_time_to_capacity_seconds"
        yield from _head(name, "histogram", "From the first wait of a leader to the end of its pool's creation.")
        yield from self.time_to_capacity.lines(name)
        name = "sliceworks_slices_decision_seconds"
        yield from _head(name, "histogram", "One look at everything.")
        yield from self.decisions.lines(name)
        name = "sliceworks_slices_failures_total"
        yield from _head(name, "counter", "Tries that ended without a pool, by reason.")
        yield from (f'{name}{{reason="{reason}"}} {count}' for reason, count in sorted(self.failures.items()))
        name = "sliceworks_slices_operations_total"
        yield from _head(name, "counter", "Requests to the cloud, by kind and result.")
        for (kind, result), count in sorted(self.operations.items()):
            yield f'{name}{{kind="{kind}",result="{result}"}} {count}'
        name = "sliceworks_slices_node_pools"
        yield from _head(name, "gauge", "Pools of slices in the cloud, by state.")
        yield from (f'{name}{{state="{state}"}} {count}' for state, count in sorted(self.pools.items()))
        for name, value, words in (
            ("sliceworks_slices_waiting", self.waiting, "Slices that are wanted and not there."),
            ("sliceworks_slices_operations_in_flight", self.in_flight, "Operations that go on now."),
            ("sliceworks_slices_operations_limit", self.limit, "Operations at once that the cloud is thought to take."),
        ):
            yield from _head(name, "gauge", words)
            yield f"{name} {_number(value)}"
        name = "sliceworks_slices_lists_total"
        yield from _head(name, "counter", "Lists of all node pools that were read.")
        yield f"{name} {self.lists}"


def _head(name: str, kind: str, words: str) -> tuple[str, str]:
    return f"# HELP {name} {words}", f"# TYPE {name} {kind}"


def _number(value: float) -> str:
    return f"{value:.6g}" if value != int(value) else str(int(value))
