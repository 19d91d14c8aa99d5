"""Events: an EventRecorder that writes in the background, and the correlator that counts, aggregates and rate-limits them."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from sliceworks.base import clock, names
from sliceworks.base.errors import NotFound, SliceworksError
from sliceworks.kube.resources import CORE_EVENT, EVENT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Object


log = logging.getLogger(__name__)
_MAX_PENDING = 1000
_MAX_NOTE_BYTES = 1024
# The defaults of client-go's EventCorrelator.
_CACHE_SIZE = 4096
_MAX_SIMILAR = 10  # different notes for one reason before they are aggregated
_AGGREGATION_SECONDS = 600.0
_BURST = 25.0  # events about one object
_QPS = 1 / 300


@dataclass(frozen=True, slots=True)
class EventReport:
    """One call of `EventRecorder.record`."""

    regarding: dict[str, str]
    reason: str
    note: str
    type: str
    action: str

    @property
    def namespace(self) -> str:
        """The namespace of the event: that of its object, or `default` for cluster-scoped objects."""
        return self.regarding.get("namespace") or "default"

    def object_key(self) -> tuple[str, ...]:
        """The identity of the object, for rate limits."""
        regarding = self.regarding
        return (
            regarding["apiVersion"],
            regarding["kind"],
            regarding.get("namespace", ""),
            regarding["name"],
            regarding.get("uid", ""),
        )

    def aggregation_key(self) -> tuple[str, ...]:
        """Everything except the note: reports with the same key are similar."""
        return (*self.object_key(), self.type, self.reason, self.action)


@dataclass(slots=True)
class RecordedEvent:
    """An event in the cluster."""

    report: EventReport
    note: str
    count: int = 0
    name: str = ""
    first: str = ""
    last_at: float = 0.0

    def reset_count(self, timestamp: str) -> None:
        """Start counting again: this occurrence is the first."""
        self.count, self.first = 1, timestamp


@dataclass(slots=True)
class _Aggregate:
    notes: set[str] = field(default_factory=set)
    last_at: float = 0.0


@dataclass(slots=True)
class _Bucket:
    tokens: float = _BURST
    filled_at: float = 0.0


class EventCorrelator:
    """Counts equal events, aggregates similar ones and limits their rate, as client-go's correlator does."""

    def __init__(self) -> None:
        self._events: OrderedDict[tuple[str, ...], RecordedEvent] = OrderedDict()
        self._aggregates: OrderedDict[tuple[str, ...], _Aggregate] = OrderedDict()
        self._buckets: OrderedDict[tuple[str, ...], _Bucket] = OrderedDict()

    def correlate(self, report: EventReport) -> RecordedEvent | None:
        """The event to write for this report, new or known; None if the object has exceeded its rate."""
        now = clock.loop_time()
        note, key = self._aggregate(report, now)
        event = self._events.get(key)
        if event is None or now - event.last_at > _AGGREGATION_SECONDS:
            event = RecordedEvent(report, note)
        _cache(self._events, key, event)
        event.count += 1
        event.note, event.last_at = note, now
        return event if self._take_token(report, now) else None

    def _aggregate(self, report: EventReport, now: float) -> tuple[str, tuple[str, ...]]:
        key = report.aggregation_key()
        group = self._aggregates.get(key)
        if group is None or now - group.last_at > _AGGREGATION_SECONDS:
            group = _Aggregate()
        _cache(self._aggregates, key, group)
        group.last_at = now
        if len(group.notes) < _MAX_SIMILAR:
            group.notes.add(report.note)
        if report.note in group.notes:
            return report.note, (*key, report.note)
        return f"(combined from similar events): {report.note}", key

    def _take_token(self, report: EventReport, now: float) -> bool:
        bucket = self._buckets.get(report.object_key()) or _Bucket(filled_at=now)
        _cache(self._buckets, report.object_key(), bucket)
        bucket.tokens = min(_BURST, bucket.tokens + (now - bucket.filled_at) * _QPS)
        bucket.filled_at = now
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True


def object_reference(obj: Mapping[str, Any]) -> dict[str, str]:
    """An ObjectReference to an object."""
    metadata = obj["metadata"]
    reference = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": metadata["name"]}
    for name in ("namespace", "uid", "resourceVersion"):
        if value := metadata.get(name):
            reference[name] = value
    return reference


def _cache(entries: OrderedDict[tuple[str, ...], Any], key: tuple[str, ...], value: Any) -> None:
    entries[key] = value
    entries.move_to_end(key)
    if len(entries) > _CACHE_SIZE:
        entries.popitem(last=False)


class EventRecorder:
    """Writes events in the background: counts equal ones, aggregates similar ones and limits their rate.

    `core` writes core/v1 events, for clusters and tools that need them. Events are dropped while more than `max_pending` are
    queued.
    """

    def __init__(
        self, client: Client, component: str, *, instance: str = "", core: bool = False, max_pending: int = _MAX_PENDING
    ) -> None:
        self._client = client
        self._component = component
        self._instance = instance or f"{component}-{socket.gethostname()}"
        self._core = core
        self._correlator = EventCorrelator()
        self._queue: asyncio.Queue[EventReport] = asyncio.Queue(max_pending)
        self._task: asyncio.Task[None] | None = None

    def record(
        self,
        obj: Mapping[str, Any],
        reason: str,
        note: str,
        *,
        type: Literal["Normal", "Warning"] = "Normal",  # noqa: A002 - the field's own name
        action: str = "",
    ) -> None:
        """Record an event about an object. `reason` is a CamelCase word, `action` what the controller did."""
        try:
            self._queue.put_nowait(EventReport(object_reference(obj), reason, _truncate(note), type, action or reason))
        except (KeyError, TypeError, asyncio.QueueFull) as error:
            log.warning("dropped event %s: %r", reason, error)
            return
        if self._task is None:
            self._task = asyncio.create_task(self._write_all(), name=f"{self._component} event recorder")

    async def flush(self) -> None:
        """Wait until all recorded events are written or dropped."""
        await self._queue.join()

    async def close(self, timeout: float = 5.0) -> None:
        """Write pending events for up to `timeout` seconds, then stop."""
        if self._task is None:
            return
        try:
            async with asyncio.timeout(timeout):
                await self.flush()
        except TimeoutError:
            log.warning("dropped %d events at shutdown", self._queue.qsize())
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._task = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _write_all(self) -> None:
        while True:
            report = await self._queue.get()
            try:
                await self._write(report)
            except SliceworksError as error:
                log.warning("dropped event %s about %s: %s", report.reason, report.regarding.get("name"), error)
            except Exception:
                log.exception("dropped event %s", report.reason)
            finally:
                self._queue.task_done()

    async def _write(self, report: EventReport) -> None:
        event = self._correlator.correlate(report)
        if event is None:
            return
        resource = CORE_EVENT if self._core else EVENT
        if event.count > 1 and event.name:
            try:
                await self._client.patch(resource, event.name, self._count_patch(event), report.namespace)
            except NotFound:
                event.name = ""  # it has expired in the cluster: create a new one
            else:
                return
        event.reset_count(clock.micro_timestamp())
        created = await self._client.create(self._new_object(event), report.namespace, resource=resource)
        event.name = created["metadata"]["name"]

    def _new_object(self, event: RecordedEvent) -> Object:
        report = event.report
        common: Object = {"action": report.action, "reportingInstance": self._instance}
        if self._core:
            return core_event(event, self._component, **common)
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": new_event_name(report.regarding["name"]), "namespace": report.namespace},
            "regarding": report.regarding,
            "type": report.type,
            "reason": report.reason,
            "note": event.note,
            "reportingController": self._component,
            "eventTime": event.first,
            **common,
        }

    def _count_patch(self, event: RecordedEvent) -> Object:
        if self._core:
            return core_count_patch(event)
        # The note of an events.k8s.io event is immutable: an aggregated event shows its first one.
        return {"series": {"count": event.count, "lastObservedTime": clock.micro_timestamp()}}


def core_event(event: RecordedEvent, component: str, **more: Any) -> Object:
    """The core/v1 Event of the first occurrence."""
    report, now = event.report, clock.timestamp()
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": new_event_name(report.regarding["name"]), "namespace": report.namespace},
        "involvedObject": report.regarding,
        "type": report.type,
        "reason": report.reason,
        "message": event.note,
        "source": {"component": component},
        "reportingComponent": component,
        "reportingInstance": "",
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        **more,
    }


def core_count_patch(event: RecordedEvent) -> Object:
    """The patch of a core/v1 Event that has occurred again."""
    return {"count": event.count, "lastTimestamp": clock.timestamp(), "message": event.note}


def new_event_name(object_name: str) -> str:
    """The name of a new event about an object."""
    # Not generateName: events.k8s.io rejects a prefix that ends in a dot, and users expect names of this form.
    prefix = "event" if names.dns1123_subdomain_errors(object_name) else names.shorten(object_name, 200)
    return f"{prefix}.{clock.rng().getrandbits(64):016x}"


def _truncate(note: str) -> str:
    encoded = note.encode()
    return note if len(encoded) <= _MAX_NOTE_BYTES else encoded[: _MAX_NOTE_BYTES - 3].decode(errors="ignore") + "..."
