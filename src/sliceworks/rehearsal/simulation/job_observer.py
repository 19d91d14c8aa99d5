"""Observes training jobs from submission to end: queue, slices, preemptions, restarts, and why each is pending."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.conditions import find_condition, is_condition_true
from sliceworks.base.errors import SliceworksError
from sliceworks.kube.pod_requests import pod_requests
from sliceworks.rehearsal.record import JobRecord, SpanBuilder
from sliceworks.rehearsal.simulation.pool_observer import chip_type
from sliceworks.training.status import PRIORITY_LABEL, QUEUE_LABEL, job_state, workers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from sliceworks.kube.client import Client
    from sliceworks.twin.store.watch_cache import Change

Object = dict[str, Any]
JOBS = "batch/jobs"
JOB_NAME = "batch.kubernetes.io/job-name"
_GRAPH_LABEL = "kro.run/owned"
_CONDITIONS = {"Complete": "Completed", "Failed": "Failed"}


def is_standalone(job: Object) -> bool:
    """Whether a Job has no owner, is not part of a graph, and requests chips; other Jobs do not train."""
    metadata, containers = job["metadata"], job["spec"]["template"]["spec"].get("containers") or ()
    owned = metadata.get("ownerReferences") or (metadata.get("labels") or {}).get(_GRAPH_LABEL)
    resources = (
        amounts for container in containers for amounts in (container.get("resources") or {}).values() if isinstance(amounts, dict)
    )
    return not owned and any("/" in name for amounts in resources for name in amounts)


def as_jobset(job: Object) -> Object:
    """A Job in the form of a JobSet; failed pods count as restarts."""
    spec, status = job["spec"], job.get("status") or {}
    conditions = [
        {**condition, "type": _CONDITIONS[condition["type"]]}
        for condition in status.get("conditions") or ()
        if condition["type"] in _CONDITIONS
    ]
    running = int(status.get("ready") or 0) >= int(spec.get("parallelism") or 1)
    return {
        "metadata": job["metadata"],
        "spec": {
            "suspend": spec.get("suspend"),
            "replicatedJobs": [{"name": "job", "replicas": 1, "template": {"spec": spec}}],
        },
        "status": {
            "conditions": conditions,
            "restarts": int(status.get("failed") or 0),
            "replicatedJobsStatus": [{"name": "job", "ready": int(running)}],
        },
    }


JOBSETS, WORKLOADS = "jobset.x-k8s.io/jobsets", "kueue.x-k8s.io/workloads"
_STATES = {"queued": "waiting", "restarting": "starting"}
_OUTCOMES = {"completed": "succeeded", "failed": "failed"}


@dataclass(frozen=True, slots=True)
class JobEvent:
    """An event of a job: `preempted`, `restarted`, `running`, `ended`."""

    at: float
    what: str
    job: str
    note: str = ""


@dataclass(slots=True)
class _Job:
    record: JobRecord
    spans: SpanBuilder = field(default_factory=SpanBuilder)


class JobObserver:
    """Collects job records. `team_of` maps a namespace to its team."""

    def __init__(self, team_of: Callable[[str], str]) -> None:
        self._team_of = team_of
        self._jobs: dict[tuple[str, str], _Job] = {}
        self._ended: list[_Job] = []
        self.events: list[JobEvent] = []

    def records(self, now: float) -> tuple[JobRecord, ...]:
        """All records, ordered by submission."""
        collected = [replace(item.record, spans=item.spans.until(now)) for item in (*self._ended, *self._jobs.values())]
        return tuple(sorted(collected, key=lambda record: (record.submitted, record.namespace, record.name)))

    @property
    def running(self) -> int:
        """Number of running jobs."""
        return sum(job.spans.state == "running" for job in self._jobs.values())

    @property
    def waiting(self) -> int:
        """Number of pending jobs."""
        return sum(job.spans.state == "waiting" for job in self._jobs.values())

    def list_unexplained(self) -> list[tuple[str, str]]:
        """Namespace and name of pending jobs without a reason."""
        return [key for key, job in self._jobs.items() if job.spans.state == "waiting" and not job.spans.note]

    def explain(self, namespace: str, name: str, reason: str) -> None:
        """Set the reason of a job, if it is still pending."""
        job = self._jobs.get((namespace, name))
        if job is not None and job.spans.state == "waiting":
            job.spans.explain(reason)

    def observe_jobset(self, at: float, change: Change) -> None:
        """Process a change of a JobSet."""
        self._observe(at, change, change.obj)

    def observe_job(self, at: float, change: Change) -> None:
        """Process a change of a Job; those of a JobSet are ignored."""
        if is_standalone(change.obj):
            self._observe(at, change, as_jobset(change.obj))

    def _observe(self, at: float, change: Change, obj: Object) -> None:
        key = (change.namespace, change.name)
        if key not in self._jobs:
            if change.type == "DELETED":
                return
            self._jobs[key] = _Job(self._new_record(at, obj))
        job = self._jobs[key]
        if change.type == "DELETED":
            self._close(at, key)
        elif job.record.ended is None:
            self._update(at, job, obj)

    def _new_record(self, at: float, obj: Object) -> JobRecord:
        metadata, worker = obj["metadata"], workers(obj)
        labels, spec = metadata.get("labels") or {}, worker["template"]["spec"]
        pod = spec["template"]["spec"]
        requests = pod_requests(pod)
        chips_per_pod = next((int(amount) for name, amount in requests.items() if "/" in name), 0)
        return JobRecord(
            metadata["name"],
            metadata["namespace"],
            self._team_of(metadata["namespace"]),
            labels.get(QUEUE_LABEL, ""),
            labels.get(PRIORITY_LABEL, ""),
            chip_type(pod.get("nodeSelector") or {}),
            chips_per_pod * worker.get("replicas", 1) * spec.get("parallelism", 1),
            at,
        )

    def _update(self, at: float, job: _Job, obj: Object) -> None:
        state, record, name = job_state(obj), job.record, f"{job.record.namespace}/{job.record.name}"
        restarts = int((obj.get("status") or {}).get("restarts") or 0)
        if restarts > record.restarts:
            job.record = record = replace(record, restarts=restarts)
            self.events.append(JobEvent(at, "restarted", name, f"{restarts}"))
        if state in _OUTCOMES:
            job.spans.close(at)
            job.record = replace(record, ended=at, outcome=_OUTCOMES[state])
            self.events.append(JobEvent(at, "ended", name, _OUTCOMES[state]))
            return
        now = _STATES.get(state, state)
        if job.spans.enter(at, now):
            started = record.admitted is None and now in ("starting", "running")
            job.record = replace(
                record,
                outcome=now,
                admitted=at if started else record.admitted,
                started=at if now == "running" and record.started is None else record.started,
            )
            if now == "running":
                self.events.append(JobEvent(at, "running", name))

    def _close(self, at: float, key: tuple[str, str]) -> None:
        job = self._jobs.pop(key)
        job.spans.close(at)
        if job.record.ended is None:
            job.record = replace(job.record, ended=at, outcome="deleted")
        self._ended.append(job)

    def observe_workload(self, at: float, change: Change) -> None:
        """Process a change of a Workload: admission and preemption."""
        obj, old = change.obj, change.old
        owner = next(
            (
                reference["name"]
                for reference in obj["metadata"].get("ownerReferences") or ()
                if reference["kind"] in {"JobSet", "Job"}
            ),
            "",
        )
        job = self._jobs.get((change.namespace, owner))
        if job is None or change.type == "DELETED":
            return
        if is_condition_true(obj, "Admitted") and job.record.admitted is None:
            job.record = replace(job.record, admitted=at)
        evicted = find_condition(obj, "Evicted")
        if evicted.get("status") == "True" and evicted.get("reason") == "Preempted" and evicted != find_condition(old, "Evicted"):
            message = str(find_condition(obj, "Preempted").get("message") or evicted.get("message") or "")
            job.record = replace(job.record, preemptions=job.record.preemptions + 1)
            self.events.append(JobEvent(at, "preempted", f"{job.record.namespace}/{job.record.name}", message))


_EXPLAIN_INTERVAL = 30.0
_EXPLAIN_BATCH = 20  # maximum number of jobs per interval


@asynccontextmanager
async def explain_pending_jobs(client: Client, jobs: JobObserver) -> AsyncIterator[None]:
    """Set the reasons of pending jobs while the context is open."""
    task = asyncio.create_task(_explain_pending(client, jobs), name="why")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _explain_pending(client: Client, jobs: JobObserver) -> None:
    from sliceworks.training.diagnosis.analysis import diagnose
    from sliceworks.training.diagnosis.collection import collect_evidence

    while True:
        await clock.sleep(_EXPLAIN_INTERVAL)
        for namespace, name in jobs.list_unexplained()[:_EXPLAIN_BATCH]:
            try:
                diagnosis = diagnose(await collect_evidence(client, namespace, name))
            except SliceworksError:
                continue  # the job is deleted or about to be
            if diagnosis.causes:
                jobs.explain(namespace, name, diagnosis.causes[0].message)
