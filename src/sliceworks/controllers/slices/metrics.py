"""What the slices controller counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.base.metrics import Registry

_CAPACITY = (15.0, 30.0, 60.0, 120.0, 240.0, 480.0, 900.0, 1800.0, 3600.0, 7200.0)
_DECISIONS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
_PREFIX = "sliceworks_slices_"


class Metrics:
    """All numbers, kept in one registry. The plain attributes are read when somebody asks."""

    def __init__(self, registry: Registry) -> None:
        self.pools: Mapping[str, float] = {}
        self.in_flight, self.limit, self.waiting = 0, 0.0, 0
        self.time_to_capacity = registry.histogram(
            _PREFIX + "time_to_capacity_seconds",
            "From the first wait of a leader to the end of its pool's creation.",
            buckets=_CAPACITY,
        )
        self.decisions = registry.histogram(_PREFIX + "decision_seconds", "One look at everything.", buckets=_DECISIONS)
        self.failures = registry.counter(_PREFIX + "failures_total", "Tries that ended without a pool, by reason.", "reason")
        self.operations = registry.counter(
            _PREFIX + "operations_total", "Requests to the cloud, by kind and result.", "kind", "result"
        )
        self.lists = registry.counter(_PREFIX + "lists_total", "Lists of all node pools that were read.")
        registry.gauges(_PREFIX + "node_pools", "Pools of slices in the cloud, by state.", "state", lambda: self.pools)
        registry.gauge(_PREFIX + "waiting", "Slices that are wanted and not there.", lambda: self.waiting)
        registry.gauge(_PREFIX + "operations_in_flight", "Operations that go on now.", lambda: self.in_flight)
        registry.gauge(_PREFIX + "operations_limit", "Operations at once that the cloud is thought to take.", lambda: self.limit)
