"""The Job controller and the TTL-after-finished controller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock
from sliceworks.base.conditions import find_true_condition, is_condition_true
from sliceworks.base.retry import Backoff
from sliceworks.kube.workqueue import WorkQueue
from sliceworks.twin.controllers.builtin import indexed_job, job_state, job_status
from sliceworks.twin.controllers.builtin.job_policy import BackoffRecord
from sliceworks.twin.controllers.builtin.job_state import JobState, compute_state
from sliceworks.twin.controllers.builtin.job_status import ensure_condition, is_job_finished, new_condition
from sliceworks.twin.controllers.builtin.pod_control import PodControl, selector_of, slow_start_batch
from sliceworks.twin.controllers.runtime.api_writer import ApiWriter
from sliceworks.twin.controllers.runtime.controller import Change, Controller
from sliceworks.twin.controllers.runtime.controller_context import NamespacedName, ObjectKey, controller_user
from sliceworks.twin.controllers.runtime.object_index import SelectorIndex
from sliceworks.twin.controllers.runtime.pod_index import TRACKING_FINALIZER, Pod, PodIndex
from sliceworks.twin.controllers.runtime.resource_keys import JOBS, PODS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sliceworks.base.errors import ApiError
    from sliceworks.kube.resources import Object
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext

_BUILTIN_MANAGER = "kubernetes.io/job-controller"
_BATCH_SECONDS = 1.0
"""Pod changes within this period are handled by one reconcile."""
_TTL_USER = controller_user("ttl-after-finished-controller")
Key = tuple[str, str, str]
"""`job` or `pod`, namespace, name."""


class JobController(Controller[Key]):
    """Creates and deletes the pods of Jobs, and removes the tracking finalizer from pods that no Job has to count."""

    workers = 5
    watches = frozenset({JOBS, PODS})

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.queue = WorkQueue(Backoff(first=1.0, cap=60.0, jitter=0.0))
        self._pods = context.shared_index(PodIndex)
        self._pod_control = PodControl(context, "job-controller", "job-controller")
        self._records: dict[Key, BackoffRecord] = {}
        self._generations: dict[Key, int] = {}
        self._selectors = SelectorIndex()

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
            # A status update, most likely by this controller.
            self.queue.add_after(key, _BATCH_SECONDS)
        else:
            self._generations[key] = generation
            self.queue.add(key)

    def _observe_pod(self) -> None:
        before, after = self._pods.before, self._pods.after
        for pod in (before, after):
            if pod is not None and pod.owner_kind == "Job":
                self.queue.add_after(("job", pod.namespace, pod.owner_name), _BATCH_SECONDS)
        if after is None:
            return
        if after.tracked and (after.deleting or not after.owner):
            self.queue.add(("pod", after.namespace, after.name))
        if not after.owner and after.labels and (before is None or before.owner or before.labels != after.labels):
            for name in self._selectors.matching(after.namespace, after.labels):
                self.queue.add_after(("job", after.namespace, name), _BATCH_SECONDS)

    async def sync(self, key: Key) -> None:
        kind, namespace, name = key
        if kind == "pod":
            await self._sync_pod(namespace, name)
            return
        job = self.context.get(JOBS, namespace, name)
        if job is None or _is_managed_externally(job):
            self._records.pop(key, None)
        elif is_job_finished(job):
            self._records.pop(key, None)
            for pod in list(self._pods.owned_by(job["metadata"]["uid"])):
                if pod.tracked:
                    await self._pod_control.remove_tracking_finalizer(pod)
        else:
            await self._sync_job(key, job)

    async def _sync_pod(self, namespace: str, name: str) -> None:
        """Remove the finalizer from a pod that no Job will count."""
        pod = self._pods.get(namespace, name)
        if pod is None or not pod.tracked or (pod.owner and pod.owner_kind != "Job"):
            return
        job = self.context.get(JOBS, namespace, pod.owner_name) if pod.owner else None
        if job is not None and job["metadata"]["uid"] == pod.owner and (_is_managed_externally(job) or not is_job_finished(job)):
            return
        await self._pod_control.remove_tracking_finalizer(pod)

    async def _sync_job(self, key: Key, job: Object) -> None:
        # 1. Claim pods and compute the state.
        before = _dump(job.get("status") or {})
        pods = await self._pod_control.claim(job, self._pods, finalizers=(TRACKING_FINALIZER,))
        status: Object = job.setdefault("status", {})
        if "startTime" not in status and not job["spec"].get("suspend"):
            status["startTime"] = clock.timestamp()
        state = compute_state(job, pods, _pod_reader(self.context), clock.now(), self._records.get(key, BackoffRecord()))
        # 2. Finish the Job, or create and delete pods.
        outcome, error = job_state.decide_outcome(state), None
        if outcome is not None:
            active = await self._delete_active(state)
        else:
            active, error = await self._manage_pods(key, state)
            if job_state.is_complete(state, active):
                outcome = job_state.COMPLETIONS_REACHED
            elif not job["metadata"].get("deletionTimestamp"):
                await self._report_suspension(state, status)
        # 3. Count finished pods and write the status.
        job_status.set_field(status, "active", active)
        status["ready"], status["terminating"] = state.ready, state.terminating
        await self._track_pods(key, state, outcome, before)
        if error is not None:
            raise error
        if (remaining := job_state.seconds_to_deadline(state)) is not None:
            self.queue.add_after(key, max(remaining, 0.001))

    async def _delete_active(self, state: JobState) -> int:
        for pod in state.active:
            await self._pod_control.delete(state.job, pod)
        state.terminating += len(state.active)
        state.ready = 0
        return 0

    async def _manage_pods(self, key: Key, state: JobState) -> tuple[int, ApiError | None]:
        """Create or delete pods; returns how many are active afterwards."""
        if state.job["metadata"].get("deletionTimestamp"):
            return len(state.active), None
        changes = job_state.plan_pods(state)
        for pod in changes.delete:
            if pod.tracked:
                await self._pod_control.remove_tracking_finalizer(pod)
            await self._pod_control.delete(state.job, pod)
            state.terminating += 1
            state.ready -= pod.ready
        if changes.wait:
            self.queue.add_after(key, changes.wait)
            return 0, None
        created, error = await self._create_pods(state, changes.create)
        return len(state.active) - len(changes.delete) + created, error

    async def _create_pods(self, state: JobState, indexes: list[int]) -> tuple[int, ApiError | None]:
        if not indexes:
            return 0, None
        job, name = state.job, state.job["metadata"]["name"]
        template = indexed_job.indexed_pod_template(job) if state.indexed else indexed_job.pod_template(job)

        async def create(number: int) -> bool:
            index = indexes[number]
            if index < 0:
                return await self._pod_control.create(job, template)
            at_index = indexed_job.pod_template_at_index(template, name, index, job_state.index_failures(state, index))
            return await self._pod_control.create(job, at_index, prefix=indexed_job.pod_name_prefix(name, index))

        return await slow_start_batch(len(indexes), create)

    async def _report_suspension(self, state: JobState, status: Object) -> None:
        now, conditions = clock.timestamp(), status.setdefault("conditions", [])
        if state.suspended:
            if ensure_condition(conditions, new_condition("Suspended", "True", "JobSuspended", "Job suspended", now)):
                await self._pod_control.recorder.normal(state.job, "Suspended", "Job suspended")
        elif ensure_condition(conditions, new_condition("Suspended", "False", "JobResumed", "Job resumed", now)):
            await self._pod_control.recorder.normal(state.job, "Resumed", "Job resumed")
            status["startTime"] = now
        if not conditions:
            del status["conditions"]

    async def _track_pods(self, key: Key, state: JobState, outcome: job_state.JobOutcome | None, before: bytes) -> None:
        status, now = state.job["status"], clock.timestamp()
        # 1. Write the pods to count into uncountedTerminatedPods, and the interim condition of a finishing Job.
        tracking = job_status.record_finished_pods(state, outcome, status)
        if outcome is not None and outcome.type != "Failed" and not is_condition_true(state.job, outcome.type):
            status.setdefault("conditions", []).append(new_condition(outcome.type, "True", outcome.reason, outcome.message, now))
        if _dump(status) != before:
            await self._update_status(state.job)
            self._records[key] = state.record
        # 2. Remove their finalizers.
        for pod in tracking.release:
            await self._pod_control.remove_tracking_finalizer(pod)
        # 3. Move them to the counters, and finish the Job.
        status = state.job["status"]
        written = _dump(status)
        status.setdefault("uncountedTerminatedPods", {})
        released = {pod.uid for pod in tracking.release}
        job_status.count_released_pods(status, {pod.uid for pod in state.pods if pod.tracked and pod.uid not in released})
        finished = outcome if not tracking.full and not status["uncountedTerminatedPods"] and not state.terminating else None
        if finished is not None:
            kind = "Complete" if finished.successful else "Failed"
            ensure_condition(status["conditions"], new_condition(kind, "True", finished.reason, finished.message, now))
            if finished.successful:
                status["completionTime"] = now
        if _dump(status) != written:
            await self._update_status(state.job)
        if finished is not None:
            await self._report_finished(state.job, finished)

    async def _update_status(self, job: Object) -> None:
        written = (await self._pod_control.writer.update_status(JOBS, job)).object()
        job["metadata"], job["status"] = written["metadata"], written.get("status") or {}

    async def _report_finished(self, job: Object, outcome: job_state.JobOutcome) -> None:
        if not outcome.successful:
            await self._pod_control.recorder.warning(job, outcome.reason, outcome.message)
            return
        completions = job["spec"].get("completions")
        if completions is not None and job["status"].get("succeeded", 0) > completions:
            message = "Too many succeeded pods running after completion count reached"
            await self._pod_control.recorder.warning(job, "TooManySucceededPods", message)
        await self._pod_control.recorder.normal(job, "Completed", "Job completed")


def _is_managed_externally(job: Object) -> bool:
    return bool(job["spec"].get("managedBy", _BUILTIN_MANAGER) != _BUILTIN_MANAGER)


def _dump(status: Object) -> bytes:
    return orjson.dumps(status, option=orjson.OPT_SORT_KEYS)


def _pod_reader(context: ControllerContext) -> Callable[[Pod], Object]:
    """A function that gets whole pods, reading each once; of a deleted pod only the indexed metadata is known."""
    cache: dict[str, Object] = {}

    def get_pod(pod: Pod) -> Object:
        obj = cache.get(pod.uid)
        if obj is None:
            metadata = {"namespace": pod.namespace, "name": pod.name, "creationTimestamp": pod.created}
            obj = cache[pod.uid] = context.get(PODS, pod.namespace, pod.name) or {"metadata": metadata}
        return obj

    return get_pod


class TTLAfterFinishedController(Controller[NamespacedName]):
    """Deletes finished Jobs after their spec.ttlSecondsAfterFinished."""

    workers = 5
    watches = frozenset({JOBS})

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._writer = ApiWriter(context, _TTL_USER)

    def observe(self, change: Change) -> None:
        if change.type != "DELETED" and seconds_to_expiry(change.obj) is not None:
            self.queue.add((change.namespace, change.name))

    async def sync(self, key: NamespacedName) -> None:
        job = self.context.get(JOBS, *key)
        remaining = seconds_to_expiry(job) if job is not None else None
        if job is None or remaining is None:
            return
        if remaining > 0:
            self.queue.add_after(key, remaining)
            return
        options = {"propagationPolicy": "Foreground", "preconditions": {"uid": job["metadata"]["uid"]}}
        await self._writer.delete_if_exists(ObjectKey(JOBS, *key), options)


def seconds_to_expiry(job: Mapping[str, Any]) -> float | None:
    """Seconds until a finished Job expires; None if it does not."""
    ttl = job["spec"].get("ttlSecondsAfterFinished")
    if ttl is None or job["metadata"].get("deletionTimestamp"):
        return None
    finished = find_true_condition(job, "Complete", "Failed")
    return float(ttl) + clock.seconds_until(finished["lastTransitionTime"]) if finished else None
