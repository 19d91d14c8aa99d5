"""Events as client-go's two recorders write them: of the core group, counted and rate-limited, and of events.k8s.io, in series."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import ApiError, NotFound
from sliceworks.kube.events import (
    EventCorrelator,
    EventReport,
    RecordedEvent,
    core_count_patch,
    core_event,
    new_event_name,
    object_reference,
)
from sliceworks.kube.resources import EVENT
from sliceworks.twin.controllers.runtime.api_writer import ApiWriter
from sliceworks.twin.controllers.runtime.controller_context import MERGE_PATCH, ControllerContext, ObjectKey
from sliceworks.twin.controllers.runtime.resource_keys import EVENTS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.apiserver.auth.authentication import User

log = logging.getLogger("sliceworks.twin.controllers")
_SERIES_SECONDS = 360.0
_MAX_SERIES = 20_000


class Recorder:
    """Writes the core/v1 events of one component. A failed write loses the event and is not retried."""

    def __init__(self, context: ControllerContext, user: User, component: str) -> None:
        self._writer = ApiWriter(context, user)
        self._component = component
        self._correlator = EventCorrelator()

    async def normal(self, obj: Mapping[str, Any], reason: str, message: str) -> None:
        """Record a Normal event about an object with apiVersion and kind."""
        await self._record(EventReport(object_reference(obj), reason, message[:1024], "Normal", ""))

    async def warning(self, obj: Mapping[str, Any], reason: str, message: str) -> None:
        """Record a Warning event about an object with apiVersion and kind."""
        await self._record(EventReport(object_reference(obj), reason, message[:1024], "Warning", ""))

    async def _record(self, report: EventReport) -> None:
        recorded = self._correlator.correlate(report)
        if recorded is None:
            return
        try:
            await self._write(recorded)
        except ApiError as error:
            log.debug("could not write event %s about %s: %s", report.reason, report.regarding["name"], error.message)

    async def _write(self, recorded: RecordedEvent) -> None:
        namespace = recorded.report.namespace
        if recorded.count > 1 and recorded.name:
            with suppress(NotFound):
                await self._writer.patch(ObjectKey(EVENTS, namespace, recorded.name), core_count_patch(recorded))
                return
        recorded.reset_count(clock.timestamp())
        recorded.name = ""
        event = core_event(recorded, self._component)
        await self._writer.create(EVENTS, namespace, event)
        recorded.name = event["metadata"]["name"]


class SeriesRecorder:
    """Writes the events.k8s.io/v1 events of one component. A repeated event becomes a series of the first, which is patched once.

    A failed write loses the event and is not retried. `options` are those of `ControllerContext.write`.
    """

    def __init__(self, context: ControllerContext, user: User, component: str, instance: str, **options: str) -> None:
        self._context, self._user, self._component, self._instance, self._options = context, user, component, instance, options
        self._series: dict[tuple[str, ...], tuple[float, str, int]] = {}
        """By event and object at a resource version: the last time, the name of the event, and the count."""

    async def event(  # noqa: PLR0917 - as client-go's Eventf
        self, regarding: Mapping[str, str], kind: str, reason: str, action: str, note: str, related: Mapping[str, str] | None = None
    ) -> None:
        """Record an event of type `kind` about the object of a reference."""
        key = _series_key(regarding, reason)
        last, name, count = self._series.pop(key, (0.0, "", 0))
        now = clock.loop_time()
        # Events are stored once for two API groups; ApiWriter would use the core group.
        path = EVENT.path(regarding["namespace"])
        try:
            if not name or now - last > _SERIES_SECONDS:
                name, count = new_event_name(regarding["name"]), 0
                event: dict[str, Any] = {
                    "apiVersion": "events.k8s.io/v1",
                    "kind": "Event",
                    "metadata": {"name": name, "namespace": regarding["namespace"]},
                    "eventTime": clock.micro_timestamp(),
                    "reportingController": self._component,
                    "reportingInstance": self._instance,
                    "action": action,
                    "reason": reason,
                    "regarding": regarding,
                    "note": note,
                    "type": kind,
                    **({"related": related} if related is not None else {}),
                }
                await self._context.write(self._user, "POST", path, event, **self._options)
            elif count == 1:
                series = {"series": {"count": 2, "lastObservedTime": clock.micro_timestamp()}}
                await self._context.write(self._user, "PATCH", f"{path}/{name}", series, content_type=MERGE_PATCH, **self._options)
        except ApiError:
            return
        self._series[key] = (now, name, count + 1)
        if len(self._series) > _MAX_SERIES:
            del self._series[next(iter(self._series))]

    def forget(self, regarding: Mapping[str, str], reason: str) -> None:
        """End the series of an object."""
        self._series.pop(_series_key(regarding, reason), None)


def _series_key(regarding: Mapping[str, str], reason: str) -> tuple[str, ...]:
    # An event is about an object at a resource version: a changed object starts a new series.
    return regarding["uid"], regarding["resourceVersion"], reason
