"""Writes decisions to pods, JobSets and Workloads, one write per object at a time."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock
from sliceworks.base.errors import Conflict, NotFound, SliceworksError
from sliceworks.controllers.slices import node_pool, well_known
from sliceworks.controllers.slices.model import RecordAttempts, ResumeJobSet, SetAdmissionCheck, SetCondition, SuspendJobSet
from sliceworks.kube.resources import POD

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from sliceworks.controllers.slices.model import ObjectReference
    from sliceworks.controllers.slices.telemetry import Metrics
    from sliceworks.kube.client import Client
    from sliceworks.kube.events import EventRecorder
    from sliceworks.kube.resources import Object, Resource

log = logging.getLogger(__name__)
_MAX_CONCURRENT = 32
_MIN_INTERVAL = 5.0  # seconds between two writes to one object that are not urgent
_RETRY_DELAY = 2.0  # seconds until a failed write is retried
_BUG_DELAY = 10.0
_MAX_MESSAGES = 100  # of a JobSet's attempts: its annotations may have 256 KiB


class ActionWriter:
    """Writes in the background. `on_write` gets each response, so that the next snapshot contains it."""

    def __init__(
        self,
        client: Client,
        events: EventRecorder,
        metrics: Metrics,
        *,
        resources: dict[str, Resource],
        on_write: Callable[[Object], None],
        changed: Callable[[], None],
    ) -> None:
        self._client = client.using(field_manager=well_known.FIELD_MANAGER)
        self._events, self._metrics, self._on_write, self._changed = events, metrics, on_write, changed
        self._resources = resources
        self._semaphore = asyncio.Semaphore(_MAX_CONCURRENT)
        self._writing: dict[tuple[str, str, str], asyncio.Task[None]] = {}
        self._last: dict[tuple[str, str, str], float] = {}
        self._not_before: dict[tuple[str, str, str], float] = {}

    def start(self, action: RecordAttempts | SetCondition | SuspendJobSet | ResumeJobSet | SetAdmissionCheck) -> float | None:
        """Start a write. Returns the seconds until a retry, or None if it was started or another write is pending."""
        regarding = action.owner if isinstance(action, RecordAttempts | SuspendJobSet | ResumeJobSet) else action.regarding
        key = (regarding.kind, regarding.namespace, regarding.name)
        if key in self._writing:
            return None
        now = clock.loop_time()
        earliest = self._not_before.get(key, 0.0)
        if isinstance(action, SetCondition | SetAdmissionCheck) and not action.urgent:
            earliest = max(earliest, self._last.get(key, -_MIN_INTERVAL) + _MIN_INTERVAL)
        if earliest > now:
            return earliest - now
        self._writing[key] = asyncio.create_task(self._write(key, regarding, action))
        return None

    async def close(self) -> None:
        """Cancel pending writes."""
        for task in self._writing.values():
            task.cancel()
        await asyncio.gather(*self._writing.values(), return_exceptions=True)

    async def _write(
        self,
        key: tuple[str, str, str],
        regarding: ObjectReference,
        action: RecordAttempts | SetCondition | SuspendJobSet | ResumeJobSet | SetAdmissionCheck,
    ) -> None:
        try:
            async with self._semaphore:
                self._on_write(await self._perform(regarding, action))
            self._last[key] = clock.loop_time()
            self._not_before.pop(key, None)
        except (NotFound, Conflict) as error:
            log.debug(
                "%s %s: %s", regarding.kind, regarding.name, error
            )  # it has changed or was deleted: the next reconcile sees it
            self._not_before[key] = clock.loop_time() + _RETRY_DELAY
        except SliceworksError as error:
            log.warning("cannot write %s %s/%s: %s", regarding.kind, regarding.namespace, regarding.name, error)
            self._not_before[key] = clock.loop_time() + _RETRY_DELAY
        except Exception:
            log.exception(
                "%s %s/%s: unexpected error; retrying in %g s", regarding.kind, regarding.namespace, regarding.name, _BUG_DELAY
            )
            self._not_before[key] = clock.loop_time() + _BUG_DELAY
        finally:
            self._writing.pop(key, None)
            self._changed()

    def _perform(
        self, regarding: ObjectReference, action: RecordAttempts | SetCondition | SuspendJobSet | ResumeJobSet | SetAdmissionCheck
    ) -> Coroutine[Any, Any, Object]:
        if isinstance(action, SetCondition):
            return self._set_condition(action)
        if isinstance(action, RecordAttempts):
            return self._record_attempts(action)
        if isinstance(action, SuspendJobSet):
            return self._suspend(action)
        if isinstance(action, ResumeJobSet):
            patch = {"metadata": _annotations(regarding, {well_known.HELD_UNTIL: None}), "spec": {"suspend": False}}
            return self._client.patch(self._resources["JobSet"], regarding.name, patch, regarding.namespace)
        return self._set_admission_check(action)

    async def _set_condition(self, action: SetCondition) -> Object:
        condition = {
            "type": action.condition,
            "status": action.status,
            "reason": action.reason,
            "message": action.message,
            "lastTransitionTime": clock.rfc3339(action.since or clock.now()),
        }
        response = await self._apply_status(action.regarding, {"conditions": [condition]})
        if action.event:
            log.warning("%s %s/%s: %s", action.regarding.kind, action.regarding.namespace, action.regarding.name, action.message)
            self._metrics.failures.inc(action.reason)
            self._events.record(action.regarding.as_object(), well_known.CREATION_FAILED, action.message, type="Warning")
        return response

    async def _record_attempts(self, action: RecordAttempts) -> Object:
        records = {
            job: [
                attempt.tries,
                round(attempt.not_before, 1),
                attempt.reason,
                *([attempt.message] if number < _MAX_MESSAGES else ()),
            ]
            for number, (job, attempt) in enumerate(sorted(action.attempts.items()))
        }
        message = orjson.dumps(records).decode() if records else None
        patch = {"metadata": _annotations(action.owner, {well_known.ATTEMPTS: message})}
        response = await self._client.patch(self._resources["JobSet"], action.owner.name, patch, action.owner.namespace)
        for problem in action.repeated:
            self._metrics.failures.inc(problem.reason)
        for regarding, problem in action.failed:
            log.warning("%s %s/%s: %s", regarding.kind, regarding.namespace, regarding.name, problem.message)
            self._metrics.failures.inc(problem.reason)
            for obj in (regarding, action.owner):
                self._events.record(obj.as_object(), well_known.CREATION_FAILED, problem.message, type="Warning")
        return response

    async def _suspend(self, action: SuspendJobSet) -> Object:
        until = clock.rfc3339(node_pool.from_timestamp(action.until) + timedelta(seconds=1))
        patch = {"metadata": _annotations(action.owner, {well_known.HELD_UNTIL: until}), "spec": {"suspend": True}}
        response = await self._client.patch(self._resources["JobSet"], action.owner.name, patch, action.owner.namespace)
        message = f"{action.reason}: deleting its slices; retrying at {until}"
        log.warning("JobSet %s/%s: %s", action.owner.namespace, action.owner.name, message)
        self._events.record(action.owner.as_object(), well_known.SLICES_RELEASED, message, type="Warning")
        return response

    async def _set_admission_check(self, action: SetAdmissionCheck) -> Object:
        check: Object = {"name": action.check, "state": action.state, "message": action.message}
        check["lastTransitionTime"] = clock.timestamp()
        if action.podsets:
            check["podSetUpdates"] = [{"name": name, "nodeSelector": dict(action.selector)} for name in action.podsets]
        response = await self._apply_status(action.regarding, {"admissionChecks": [check]})
        if action.event:
            log.warning("Workload %s/%s: %s", action.regarding.namespace, action.regarding.name, action.message)
            self._events.record(action.regarding.as_object(), well_known.CREATION_FAILED, action.message, type="Warning")
        return response

    async def _apply_status(self, regarding: ObjectReference, status: Object) -> Object:
        body = {**regarding.as_object(), "status": status}
        resource = POD if regarding.kind == "Pod" else self._resources[regarding.kind]
        return await self._client.apply(body, resource=resource, subresource="status", force=True)


def _annotations(regarding: ObjectReference, changes: dict[str, str | None]) -> Object:
    """A metadata patch of annotations, with the uid as precondition."""
    return {"annotations": changes, **({"uid": regarding.uid} if regarding.uid else {})}
