"""The Job controller: looks at a Job and its pods, decides, and does it in an order that survives being killed anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock
from sliceworks.base.conditions import is_true
from sliceworks.kube.backoff import Backoff
from sliceworks.kube.workqueue import WorkQueue
from sliceworks.twin.controllers.loop import Change, Controller
from sliceworks.twin.workloads.hands import PodHands, selector_of, slow_start
from sliceworks.twin.workloads.jobs import decide, templates, tracking
from sliceworks.twin.workloads.jobs.backoff import Record
from sliceworks.twin.workloads.jobs.conditions import condition, ensure, is_finished
from sliceworks.twin.workloads.jobs.state import Obj, State, assess
from sliceworks.twin.workloads.pods import PODS, TRACKING, Pod, Pods
from sliceworks.twin.workloads.selecting import Selecting

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.base.errors import ApiError
    from sliceworks.twin.controllers.world import World

JOBS = "batch/jobs"
_OURS = "kubernetes.io/job-controller"
_BATCH = 1.0
"""Seconds in which changes of pods are gathered before a Job is looked at."""

Key = tuple[str, str, str]
"""`job` or `pod`, namespace, name."""


class Jobs(Controller[Key]):
    """Keeps each Job's pods, and removes the finalizer from those that no Job counts any more."""

    workers = 5
    watches = frozenset({JOBS, PODS})

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.queue = WorkQueue(Backoff(first=1.0, cap=60.0, jitter=0.0))
        self._pods = world.shared(Pods)
        self._hands = PodHands(world, "job-controller", "job-controller")
        self._records: dict[Key, Record] = {}
        self._generations: dict[Key, int] = {}
        self._selectors = Selecting()

    def observe(self, change: Change) -> None:
        if change.resource == JOBS:
            self._observe_job(change)
        else:
            self._observe_pod()

    def _observe_job(self, change: Change) -> None:
        key: Key = ("job", change.namespace, change.name)
        if change.type == "DELETED":
            self._selectors.remove(change.namespace, change.name)
            self._generations.pop(key, None)
            self.queue.add(key)
            return
        if (change.namespace, change.name) not in self._selectors:
            self._selectors.put(change.namespace, change.name, selector_of(change.obj))
        generation = change.obj["metadata"].get("generation", 0)
        if self._generations.get(key) == generation:
            # Most likely its status, which we wrote.
            self.queue.add_after(key, _BATCH)
        else:
            self._generations[key] = generation
            self.queue.add(key)

    def _observe_pod(self) -> None:
        before, after = self._pods.before, self._pods.after
        for pod in (before, after):
            if pod is not None and pod.owner_kind == "Job":
                self.queue.add_after(("job", pod.namespace, pod.owner_name), _BATCH)
        if after is None:
            return
        if after.tracked and (after.deleting or not after.owner):
            self.queue.add(("pod", after.namespace, after.name))
        if not after.owner and after.labels and (before is None or before.owner or before.labels != after.labels):
            for name in self._selectors.matching(after.namespace, after.labels):
                self.queue.add_after(("job", after.namespace, name), _BATCH)

    async def sync(self, key: Key) -> None:
        kind, namespace, name = key
        if kind == "pod":
            await self._sync_pod(namespace, name)
            return
        job = self.world.get(JOBS, namespace, name)
        if job is None or _is_foreign(job):
            self._records.pop(key, None)
        elif is_finished(job):
            self._records.pop(key, None)
            for pod in list(self._pods.owned_by(job["metadata"]["uid"])):
                if pod.tracked:
                    await self._hands.untrack(pod)
        else:
            await self._sync_job(key, job)

    async def _sync_pod(self, namespace: str, name: str) -> None:
        """Let go of a pod that no Job will count."""
        pod = self._pods.get(namespace, name)
        if pod is None or not pod.tracked or (pod.owner and pod.owner_kind != "Job"):
            return
        job = self.world.get(JOBS, namespace, pod.owner_name) if pod.owner else None
        if job is not None and job["metadata"]["uid"] == pod.owner and (_is_foreign(job) or not is_finished(job)):
            return
        await self._hands.untrack(pod)

    async def _sync_job(self, key: Key, job: Obj) -> None:
        # 1. What is there.
        before = orjson.dumps(job.get("status") or {}, option=orjson.OPT_SORT_KEYS)
        pods = await self._hands.claim(job, self._pods, finalizers=(TRACKING,))
        status: Obj = job.setdefault("status", {})
        if "startTime" not in status and not job["spec"].get("suspend"):
            status["startTime"] = clock.timestamp()
        state = assess(job, pods, _looking(self.world), clock.now(), self._records.get(key, Record()))
        # 2. Whether it ends, and what its pods need.
        outcome, error = decide.outcome(state), None
        if outcome is not None:
            active = await self._end(state)
        else:
            active, error = await self._manage(key, state)
            if decide.is_complete(state, active):
                outcome = decide.COMPLETIONS_REACHED
            elif not job["metadata"].get("deletionTimestamp"):
                await self._tell_suspension(state, status)
        # 3. Count.
        tracking.put(status, "active", active)
        status["ready"], status["terminating"] = state.ready, state.terminating
        await self._track(key, state, outcome, before)
        if error is not None:
            raise error
        if (left := decide.deadline(state)) is not None:
            self.queue.add_after(key, max(left, 0.001))

    async def _end(self, state: State) -> int:
        """Delete what still runs."""
        for pod in state.active:
            await self._hands.delete(state.job, pod)
        state.terminating += len(state.active)
        state.ready = 0
        return 0

    async def _manage(self, key: Key, state: State) -> tuple[int, ApiError | None]:
        """Make or delete pods; returns how many are active then."""
        if state.job["metadata"].get("deletionTimestamp"):
            return len(state.active), None
        work = decide.work(state)
        for pod in work.delete:
            if pod.tracked:
                await self._hands.untrack(pod)
            await self._hands.delete(state.job, pod)
            state.terminating += 1
            state.ready -= pod.ready
        if work.wait:
            self.queue.add_after(key, work.wait)
            return 0, None
        made, error = await self._make(state, work.create)
        return len(state.active) - len(work.delete) + made, error

    async def _make(self, state: State, indexes: list[int]) -> tuple[int, ApiError | None]:
        if not indexes:
            return 0, None
        job, name = state.job, state.job["metadata"]["name"]
        template = templates.indexed(job) if state.indexed else templates.plain(job)

        async def make(number: int) -> bool:
            index = indexes[number]
            if index < 0:
                return await self._hands.create(job, template)
            one = templates.at_index(template, name, index, decide.index_failures(state, index))
            return await self._hands.create(job, one, prefix=templates.prefix(name, index))

        return await slow_start(len(indexes), make)

    async def _tell_suspension(self, state: State, status: Obj) -> None:
        now, conditions = clock.timestamp(), status.setdefault("conditions", [])
        if state.suspended:
            if ensure(conditions, condition("Suspended", "True", "JobSuspended", "Job suspended", now)):
                await self._hands.recorder.normal(state.job, "Suspended", "Job suspended")
        elif ensure(conditions, condition("Suspended", "False", "JobResumed", "Job resumed", now)):
            await self._hands.recorder.normal(state.job, "Resumed", "Job resumed")
            status["startTime"] = now
        if not conditions:
            del status["conditions"]

    async def _track(self, key: Key, state: State, outcome: decide.Outcome | None, before: bytes) -> None:
        status, now = state.job["status"], clock.timestamp()
        # 1. Write down whom to count, and that it is about to end.
        ledger = tracking.ledger(state, outcome, status)
        if outcome is not None and outcome.type != "Failed" and not is_true(state.job, outcome.type):
            status.setdefault("conditions", []).append(condition(outcome.type, "True", outcome.reason, outcome.message, now))
        if orjson.dumps(status, option=orjson.OPT_SORT_KEYS) != before:
            await self._write(state.job)
            self._records[key] = state.record
        # 2. Let go of them.
        for pod in ledger.release:
            await self._hands.untrack(pod)
        # 3. Count them, and end.
        status = state.job["status"]
        written = orjson.dumps(status, option=orjson.OPT_SORT_KEYS)
        status.setdefault("uncountedTerminatedPods", {})
        released = {pod.uid for pod in ledger.release}
        tracking.count(status, {pod.uid for pod in state.pods if pod.tracked and pod.uid not in released})
        finished = outcome if not ledger.full and not status["uncountedTerminatedPods"] and not state.terminating else None
        if finished is not None:
            kind = "Complete" if finished.good else "Failed"
            ensure(status["conditions"], condition(kind, "True", finished.reason, finished.message, now))
            if finished.good:
                status["completionTime"] = now
        if orjson.dumps(status, option=orjson.OPT_SORT_KEYS) != written:
            await self._write(state.job)
        if finished is not None:
            await self._tell_end(state.job, finished)

    async def _write(self, job: Obj) -> None:
        metadata = job["metadata"]
        path = f"/apis/batch/v1/namespaces/{metadata['namespace']}/jobs/{metadata['name']}/status"
        written = await self.world.send(self._hands.user, "PUT", path, job)
        job["metadata"], job["status"] = written["metadata"], written.get("status") or {}

    async def _tell_end(self, job: Obj, outcome: decide.Outcome) -> None:
        if not outcome.good:
            await self._hands.recorder.warning(job, outcome.reason, outcome.message)
            return
        completions = job["spec"].get("completions")
        if completions is not None and job["status"].get("succeeded", 0) > completions:
            message = "Too many succeeded pods running after completion count reached"
            await self._hands.recorder.warning(job, "TooManySucceededPods", message)
        await self._hands.recorder.normal(job, "Completed", "Job completed")


def _is_foreign(job: Obj) -> bool:
    """Whether somebody else looks after a Job."""
    return bool(job["spec"].get("managedBy", _OURS) != _OURS)


def _looking(world: World) -> Callable[[Pod], dict[str, Any]]:
    """Whole pods, each read once."""
    seen: dict[str, dict[str, Any]] = {}

    def look(pod: Pod) -> dict[str, Any]:
        found = seen.get(pod.uid)
        if found is None:
            gone = {"metadata": {"namespace": pod.namespace, "name": pod.name, "creationTimestamp": pod.created}}
            found = seen[pod.uid] = world.get(PODS, pod.namespace, pod.name) or gone
        return found

    return look
