"""Tells people what becomes of requests to the cloud: events, a line in the log, and numbers."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.controllers.slices import words
from sliceworks.controllers.slices.world import Create

if TYPE_CHECKING:
    from sliceworks.controllers.slices.flights import Flight
    from sliceworks.controllers.slices.metrics import Metrics
    from sliceworks.controllers.slices.world import Delete
    from sliceworks.kube.events import EventRecorder

log = logging.getLogger(__name__)


class Teller:
    """Tells of each request once."""

    def __init__(self, events: EventRecorder, metrics: Metrics) -> None:
        self._events, self._metrics = events, metrics

    def started(self, flight: Flight) -> None:
        """The cloud has taken a request."""
        action = flight.action
        self._metrics.operations.add(flight.kind, "accepted")
        if isinstance(action, Create):
            size, name = action.body["initialNodeCount"], action.jobset.name
            note = f"Starting creation of Node Pool {action.name} (size = {size}) for JobSet {name}: {action.where}"
            self._events.record(action.about.reference(), words.CREATION_STARTED, note)
        else:
            note = f"Starting deletion of Node Pool {action.name} because {action.why}"
            self._events.record(action.about.reference(), words.DELETION_STARTED, note)
        log.info("%s", note)

    def succeeded(self, flight: Flight) -> None:
        """What was asked for is done."""
        action = flight.action
        self._metrics.operations.add(flight.kind, "succeeded")
        if isinstance(action, Create):
            self._metrics.time_to_capacity.observe(max(clock.now().timestamp() - action.since, 0.0))
            self._events.record(action.about.reference(), words.CREATION_SUCCEEDED, f"Created Node Pool {action.name}")
        else:
            self._events.record(action.about.reference(), words.DELETION_SUCCEEDED, f"Deleted Node Pool {action.name}")

    def deletion_failed(self, action: Delete, why: str) -> None:
        """A pool is still there."""
        note = f"Node Pool {action.name} could not be deleted: {why}"
        log.warning("%s", note)
        self._events.record(action.about.reference(), words.DELETION_FAILED, note, type="Warning")
