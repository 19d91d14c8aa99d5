"""Events: what a controller tells people about an object. Telling never fails and never holds up the teller."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING, Self

from sliceworks.base import clock, names
from sliceworks.base.errors import NotFound, SliceworksError
from sliceworks.kube.event_folding import Folder, Report, reference
from sliceworks.kube.well_known import CORE_EVENT, EVENT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Literal

    from sliceworks.kube.client import Client
    from sliceworks.kube.event_folding import Told
    from sliceworks.kube.resources import Object

log = logging.getLogger(__name__)

_WAITING_AT_MOST = 1000
_LONGEST_NOTE = 1024


class EventRecorder:
    """Writes events in the background: equal ones are counted, similar ones combined, floods held back.

    `core` writes the older core/v1 events, for clusters and tools that know no other. More than `waiting` at a time are dropped.
    """

    def __init__(
        self, client: Client, component: str, *, instance: str = "", core: bool = False, waiting: int = _WAITING_AT_MOST
    ) -> None:
        self._client = client
        self._component = component
        self._instance = instance or f"{component}-{socket.gethostname()}"
        self._core = core
        self._folder = Folder()
        self._queue: asyncio.Queue[Report] = asyncio.Queue(waiting)
        self._task: asyncio.Task[None] | None = None

    def record(
        self,
        obj: Mapping[str, Any],
        reason: str,
        note: str,
        *,
        type: Literal["Normal", "Warning"] = "Normal",  # noqa: A002 - the field's own name
        action: str = "",
        related: Mapping[str, Any] | None = None,
    ) -> None:
        """Tell that something happened to an object. `reason` is one word in CamelCase, `action` what was tried."""
        try:
            other = None if related is None else reference(related)
            self._queue.put_nowait(Report(reference(obj), reason, _cut(note), type, action or reason, other))
        except (KeyError, TypeError, asyncio.QueueFull) as error:
            log.warning("an event %s is dropped: %r", reason, error)
            return
        if self._task is None:
            self._task = asyncio.create_task(self._write_all(), name=f"events of {self._component}")

    async def flush(self) -> None:
        """Wait until everything told so far has been written or given up."""
        await self._queue.join()

    async def close(self, timeout: float = 5.0) -> None:
        """Write what is left, for a while, and stop."""
        if self._task is None:
            return
        try:
            async with asyncio.timeout(timeout):
                await self.flush()
        except TimeoutError:
            log.warning("%d events were not written", self._queue.qsize())
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
                log.warning("an event %s about %s is dropped: %s", report.reason, report.regarding.get("name"), error)
            except Exception:
                log.exception("an event %s is dropped", report.reason)
            finally:
                self._queue.task_done()

    async def _write(self, report: Report) -> None:
        told = self._folder.fold(report)
        if told is None:
            return
        resource = CORE_EVENT if self._core else EVENT
        if told.count > 1 and told.name:
            try:
                await self._client.patch(resource, told.name, self._again(told), report.namespace)
            except NotFound:
                told.name = ""  # it has expired in the cluster: begin a new one
            else:
                return
        told.begin(clock.micro_timestamp())
        made = await self._client.create(self._event(told), report.namespace, resource=resource)
        told.name = made["metadata"]["name"]

    def _event(self, told: Told) -> Object:
        report = told.report
        body: Object = {"metadata": {"name": _name(report.regarding["name"]), "namespace": report.namespace}}
        common = {"type": report.type, "reason": report.reason, "action": report.action, "reportingInstance": self._instance}
        if self._core:
            moment = clock.timestamp()
            body |= {"apiVersion": "v1", "kind": "Event", "involvedObject": report.regarding, "message": told.note, **common}
            body |= {"source": {"component": self._component}, "reportingComponent": self._component}
            body |= {"firstTimestamp": moment, "lastTimestamp": moment, "count": 1}
        else:
            body |= {"apiVersion": "events.k8s.io/v1", "kind": "Event", "regarding": report.regarding, "note": told.note, **common}
            body |= {"reportingController": self._component, "eventTime": told.first}
        if report.related is not None:
            body["related"] = report.related
        return body

    def _again(self, told: Told) -> Object:
        if self._core:
            return {"count": told.count, "lastTimestamp": clock.timestamp(), "message": told.note}
        # The note of an events.k8s.io event cannot change: what is combined shows its first one.
        return {"series": {"count": told.count, "lastObservedTime": clock.micro_timestamp()}}


def _name(about: str) -> str:
    # Not generateName: the newer events refuse one that ends in a dot, and this is how people know the names of events.
    usable = "event" if names.dns1123_subdomain_errors(about) else names.shorten(about, 200)
    return f"{usable}.{clock.randomness().getrandbits(64):016x}"


def _cut(note: str) -> str:
    encoded = note.encode()
    return note if len(encoded) <= _LONGEST_NOTE else encoded[: _LONGEST_NOTE - 3].decode(errors="ignore") + "..."
