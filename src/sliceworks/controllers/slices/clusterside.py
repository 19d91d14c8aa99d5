"""The cluster's side: writes what was decided to pods, JobSets and Workloads, each object by one write at a time."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock
from sliceworks.base.errors import Conflict, NotFound, SliceworksError
from sliceworks.controllers.slices import bodies, words
from sliceworks.controllers.slices.world import Answer, Hold, Remember, Resume, Tell
from sliceworks.kube.well_known import POD

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from sliceworks.controllers.slices.metrics import Metrics
    from sliceworks.controllers.slices.views import Subject
    from sliceworks.kube.client import Client
    from sliceworks.kube.events import EventRecorder
    from sliceworks.kube.resources import Object, Resource

log = logging.getLogger(__name__)
_AT_ONCE = 32
_SELDOM = 5.0  # seconds between two writes that are not urgent about one object
_AGAIN = 2.0  # seconds after which a failed write is worth another look
_AFTER_A_BUG = 10.0


class Cluster:
    """Performs writes in the background. `seen` is given each object as the cluster answered, so that nothing is decided twice."""

    def __init__(
        self,
        client: Client,
        events: EventRecorder,
        metrics: Metrics,
        *,
        resources: dict[str, Resource],
        seen: Callable[[Object], None],
        changed: Callable[[], None],
    ) -> None:
        self._client = client.using(field_manager=words.FIELD_MANAGER)
        self._events, self._metrics, self._seen, self._changed = events, metrics, seen, changed
        self._resources = resources
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._writing: dict[tuple[str, str, str], asyncio.Task[None]] = {}
        self._last: dict[tuple[str, str, str], float] = {}
        self._not_before: dict[tuple[str, str, str], float] = {}

    def take(self, action: Remember | Tell | Hold | Resume | Answer) -> float | None:
        """Write unless the object is being written, or was just now; else seconds after which to ask again."""
        about = action.owner if isinstance(action, Remember | Hold | Resume) else action.about
        key = (about.kind, about.namespace, about.name)
        if key in self._writing:
            return None
        now = clock.loop_time()
        earliest = self._not_before.get(key, 0.0)
        if isinstance(action, Tell | Answer) and not action.urgent:
            earliest = max(earliest, self._last.get(key, -_SELDOM) + _SELDOM)
        if earliest > now:
            return earliest - now
        self._writing[key] = asyncio.create_task(self._write(key, about, action))
        return None

    async def close(self) -> None:
        """Stop writing."""
        for task in self._writing.values():
            task.cancel()
        await asyncio.gather(*self._writing.values(), return_exceptions=True)

    async def _write(self, key: tuple[str, str, str], about: Subject, action: Remember | Tell | Hold | Resume | Answer) -> None:
        try:
            async with self._room:
                self._seen(await self._perform(about, action))
            self._last[key] = clock.loop_time()
            self._not_before.pop(key, None)
        except (NotFound, Conflict) as error:
            log.debug("%s %s: %s", about.kind, about.name, error)  # it has changed or is gone: the next look sees it
            self._not_before[key] = clock.loop_time() + _AGAIN
        except SliceworksError as error:
            log.warning("%s %s/%s cannot be written: %s", about.kind, about.namespace, about.name, error)
            self._not_before[key] = clock.loop_time() + _AGAIN
        except Exception:
            log.exception("%s %s/%s: a bug; looking again in %g s", about.kind, about.namespace, about.name, _AFTER_A_BUG)
            self._not_before[key] = clock.loop_time() + _AFTER_A_BUG
        finally:
            self._writing.pop(key, None)
            self._changed()

    def _perform(self, about: Subject, action: Remember | Tell | Hold | Resume | Answer) -> Coroutine[Any, Any, Object]:
        if isinstance(action, Tell):
            return self._tell(action)
        if isinstance(action, Remember):
            return self._remember(action)
        if isinstance(action, Hold):
            return self._hold(action)
        if isinstance(action, Resume):
            change = {"metadata": _annotations(about, {words.HELD_UNTIL: None}), "spec": {"suspend": False}}
            return self._client.patch(self._resources["JobSet"], about.name, change, about.namespace)
        return self._answer(action)

    async def _tell(self, action: Tell) -> Object:
        condition = {
            "type": action.condition,
            "status": action.status,
            "reason": action.reason,
            "message": action.message,
            "lastTransitionTime": clock.rfc3339(action.since or clock.now()),
        }
        found = await self._apply_status(action.about, {"conditions": [condition]})
        if action.event:
            log.warning("%s %s/%s: %s", action.about.kind, action.about.namespace, action.about.name, action.message)
            self._metrics.failures.add(action.reason)
            self._events.record(action.about.reference(), words.CREATION_FAILED, action.message, type="Warning")
        return found

    async def _remember(self, action: Remember) -> Object:
        kept = {job: [each.tries, round(each.not_before, 1), each.reason] for job, each in sorted(action.attempts.items())}
        note = orjson.dumps(kept).decode() if kept else None
        change = {"metadata": _annotations(action.owner, {words.ATTEMPTS: note})}
        found = await self._client.patch(self._resources["JobSet"], action.owner.name, change, action.owner.namespace)
        for why in action.again:
            self._metrics.failures.add(why.reason)
        for about, why in action.failed:
            log.warning("%s %s/%s: %s", about.kind, about.namespace, about.name, why.message)
            self._metrics.failures.add(why.reason)
            self._events.record(about.reference(), words.CREATION_FAILED, why.message, type="Warning")
            self._events.record(action.owner.reference(), words.CREATION_FAILED, why.message, type="Warning")
        return found

    async def _hold(self, action: Hold) -> Object:
        until = clock.rfc3339(bodies.moment(action.until) + timedelta(seconds=1))
        change = {"metadata": _annotations(action.owner, {words.HELD_UNTIL: until}), "spec": {"suspend": True}}
        found = await self._client.patch(self._resources["JobSet"], action.owner.name, change, action.owner.namespace)
        note = f"{action.why}: its slices are given back, and it is tried again at {until}"
        log.warning("JobSet %s/%s: %s", action.owner.namespace, action.owner.name, note)
        self._events.record(action.owner.reference(), words.SLICES_GIVEN_BACK, note, type="Warning")
        return found

    async def _answer(self, action: Answer) -> Object:
        check: Object = {"name": action.check, "state": action.state, "message": action.message}
        check["lastTransitionTime"] = clock.timestamp()
        if action.podsets:
            check["podSetUpdates"] = [{"name": name, "nodeSelector": dict(action.selector)} for name in action.podsets]
        found = await self._apply_status(action.about, {"admissionChecks": [check]})
        if action.event:
            log.warning("Workload %s/%s: %s", action.about.namespace, action.about.name, action.message)
            self._events.record(action.about.reference(), words.CREATION_FAILED, action.message, type="Warning")
        return found

    async def _apply_status(self, about: Subject, status: Object) -> Object:
        body = {**about.reference(), "status": status}
        resource = POD if about.kind == "Pod" else self._resources[about.kind]
        return await self._client.apply(body, resource=resource, subresource="status", force=True)


def _annotations(about: Subject, change: dict[str, str | None]) -> Object:
    """A change of annotations that only the object itself takes, not another of its name."""
    return {"annotations": change, **({"uid": about.uid} if about.uid else {})}
