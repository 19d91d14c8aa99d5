"""Metrics of the slices controller, and the events and log lines of node pool operations."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.controllers.slices import well_known
from sliceworks.controllers.slices.model import CreateNodePool

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.base.metrics import Registry
    from sliceworks.controllers.slices.model import DeleteNodePool
    from sliceworks.controllers.slices.node_pool_operations import PendingOperation
    from sliceworks.kube.events import EventRecorder

log = logging.getLogger(__name__)
_CAPACITY_BUCKETS = (15.0, 30.0, 60.0, 120.0, 240.0, 480.0, 900.0, 1800.0, 3600.0, 7200.0)
_DECISION_BUCKETS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
_PREFIX = "sliceworks_slices_"


class Metrics:
    """The metrics of the controller. Plain attributes are the values of gauges."""

    def __init__(self, registry: Registry) -> None:
        self.pools: Mapping[str, float] = {}
        self.in_flight, self.limit, self.waiting = 0, 0.0, 0
        self.time_to_capacity = registry.histogram(
            _PREFIX + "time_to_capacity_seconds",
            "Time from the first request of a slice until its node pool is ready, in seconds.",
            buckets=_CAPACITY_BUCKETS,
        )
        self.decisions = registry.histogram(
            _PREFIX + "decision_seconds", "Duration of one reconcile of everything, in seconds.", buckets=_DECISION_BUCKETS
        )
        self.failures = registry.counter(
            _PREFIX + "failures_total", "Total number of failed attempts to create a node pool, by reason.", "reason"
        )
        self.operations = registry.counter(
            _PREFIX + "operations_total", "Total number of node pool operations, by kind and result.", "kind", "result"
        )
        self.lists = registry.counter(_PREFIX + "lists_total", "Total number of node pool LIST requests.")
        registry.gauge_vec(_PREFIX + "node_pools", "Number of managed node pools, by state.", "state", lambda: self.pools)
        registry.gauge(_PREFIX + "waiting", "Number of pending slices.", lambda: self.waiting)
        registry.gauge(_PREFIX + "operations_in_flight", "Number of pending node pool operations.", lambda: self.in_flight)
        registry.gauge(_PREFIX + "operations_limit", "Current limit of concurrent node pool operations.", lambda: self.limit)


class OperationReporter:
    """Records events, log lines and metrics of operations."""

    def __init__(self, events: EventRecorder, metrics: Metrics) -> None:
        self._events, self._metrics = events, metrics

    def started(self, pending: PendingOperation) -> None:
        """The API has accepted a request."""
        action = pending.action
        self._metrics.operations.inc(pending.kind, "accepted")
        if isinstance(action, CreateNodePool):
            size, name = action.body["initialNodeCount"], action.jobset.name
            message = f"Starting creation of Node Pool {action.name} (size = {size}) for JobSet {name}: {action.where}"
            self._events.record(action.regarding.as_object(), well_known.CREATION_STARTED, message)
        else:
            message = f"Starting deletion of Node Pool {action.name} because {action.reason}"
            self._events.record(action.regarding.as_object(), well_known.DELETION_STARTED, message)
        log.info("%s", message)

    def succeeded(self, pending: PendingOperation) -> None:
        """An operation has succeeded."""
        action = pending.action
        self._metrics.operations.inc(pending.kind, "succeeded")
        if isinstance(action, CreateNodePool):
            self._metrics.time_to_capacity.observe(max(clock.now().timestamp() - action.since, 0.0))
            self._events.record(action.regarding.as_object(), well_known.CREATION_SUCCEEDED, f"Created Node Pool {action.name}")
        else:
            self._events.record(action.regarding.as_object(), well_known.DELETION_SUCCEEDED, f"Deleted Node Pool {action.name}")

    def deletion_failed(self, action: DeleteNodePool, reason: str) -> None:
        """A deletion has failed."""
        message = f"failed to delete Node Pool {action.name}: {reason}"
        log.warning("%s", message)
        self._events.record(action.regarding.as_object(), well_known.DELETION_FAILED, message, type="Warning")
