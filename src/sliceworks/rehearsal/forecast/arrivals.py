"""Jobs that are not in the cluster yet: those of given documents, and those expected from past days."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import InvalidDocument, NotFound
from sliceworks.rehearsal.forecast.jobs import QUEUED, Job, job_of, trim
from sliceworks.rehearsal.forecast.trial import copy_item
from sliceworks.specs.documents import is_sliceworks_document
from sliceworks.training import submission
from sliceworks.twin.controllers.kueue.integrations import Integration, JobIntegration, JobSetIntegration
from sliceworks.twin.controllers.kueue.kueue_api import MAX_EXEC_TIME_SECONDS_LABEL, queue_name, workload_name
from sliceworks.twin.controllers.kueue.workload_writer import priority_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from pathlib import Path
    from random import Random

    from sliceworks.base.yaml_documents import Document
    from sliceworks.rehearsal.forecast.forecaster import RunTimes
    from sliceworks.rehearsal.forecast.snapshot import Snapshot
    from sliceworks.rehearsal.forecast.trial import Trial

Object = dict[str, Any]

_KINDS: dict[tuple[str, str], Integration] = {
    ("jobset.x-k8s.io", "JobSet"): JobSetIntegration(),
    ("batch", "Job"): JobIntegration(),
}


def job_from_document(
    document: Document, folder: Path, snapshot: Snapshot, *, namespace: str = "", at: datetime | None = None
) -> Job:
    """The job of a TrainingJob, JobSet or Job that is submitted at a time, or now."""
    obj = submission.from_document(document, folder).jobset(namespace) if is_sliceworks_document(document) else document.data
    group = str(obj.get("apiVersion", "")).rpartition("/")[0]
    integration = _KINDS.get((group, str(obj.get("kind"))))
    if integration is None:
        remedy = "expected a TrainingJob, JobSet or Job"
        raise InvalidDocument(f"{document.name} is not a queued workload", place=document.place("kind"), hint=remedy)
    if not queue_name(obj):
        raise InvalidDocument(
            f"{document.name} has no queue", place=document.place("metadata"), hint="label it with kueue.x-k8s.io/queue-name"
        )
    workload = build_workload(
        integration, {**obj, "metadata": {**obj["metadata"], **({"namespace": namespace} if namespace else {})}}, document, snapshot
    )
    workload["metadata"]["creationTimestamp"] = clock.rfc3339(at or snapshot.taken)
    return job_of(trim("Workload", workload), snapshot.taken)


def build_workload(integration: Integration, obj: Object, document: Document, snapshot: Snapshot) -> Object:
    """The Workload of a job's object."""
    metadata = obj["metadata"]
    classes = {item["metadata"]["name"]: item for item in snapshot.list("WorkloadPriorityClass")}
    try:
        pod_sets = integration.pod_sets(obj)
        priority = priority_of(lambda _resource, _namespace, name: classes.get(name), obj, pod_sets)
    except NotFound as error:
        name = (metadata.get("labels") or {}).get("kueue.x-k8s.io/priority-class", "")
        known = ", ".join(sorted(classes)) or "none"
        raise InvalidDocument(
            f"priority {name!r} not found", place=document.place("spec", "priority"), hint=f"known priorities: {known}"
        ) from error
    except (KeyError, TypeError) as error:
        raise InvalidDocument(f"{document.name} has incomplete pod templates", place=document.place("spec")) from error
    max_seconds = (metadata.get("labels") or {}).get(MAX_EXEC_TIME_SECONDS_LABEL, "")
    namespace, name = metadata.get("namespace") or "default", metadata["name"]
    return {
        "metadata": {
            "namespace": namespace,
            "name": workload_name(integration.name, integration.resource, name, ""),
            "uid": f"new-{namespace}-{name}",
            "creationTimestamp": clock.rfc3339(snapshot.taken),
            "ownerReferences": [{"kind": integration.name, "name": name, "controller": True}],
        },
        "spec": {
            "queueName": queue_name(obj),
            **priority,
            **({"maximumExecutionTimeSeconds": int(max_seconds)} if max_seconds.isdigit() else {}),
            "podSets": pod_sets,
        },
    }


DAY = 86_400.0
_MAX_DAYS, _MIN_JOBS = 14, 20


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Jobs of each full day before the snapshot, latest day first."""

    days: tuple[tuple[Job, ...], ...] = ()

    @classmethod
    def from_jobs(cls, jobs: Sequence[Job]) -> Arrivals:
        """Arrivals from known jobs; empty if there are too few."""
        earliest = min((job.arrived for job in jobs), default=0.0)
        count = min(int(-earliest // DAY), _MAX_DAYS)
        days: list[list[Job]] = [[] for _ in range(count)]
        for job in jobs:
            if (number := int(-job.arrived // DAY)) < count and job.arrived <= 0:
                days[number].append(job)
        return cls(tuple(map(tuple, days))) if sum(map(len, days)) >= _MIN_JOBS else cls()

    def schedule(self, trial: Trial, run_time_of: RunTimes, random: Random) -> None:
        """Schedule days sampled from the past in a trial."""
        for number in range(len(self.days)):
            trial.at(number * DAY, partial(self._schedule_day, trial, run_time_of, number, random))

    def _schedule_day(self, trial: Trial, run_time_of: RunTimes, number: int, random: Random) -> None:
        sampled_day = random.randrange(len(self.days))
        for job in self.days[sampled_day]:
            arrival = job.arrived + (sampled_day + 1 + number) * DAY
            copy = copy_job(job, arrival, number)
            trial.add(copy, run_time_of(copy))


def copy_job(job: Job, arrival: float, number: int) -> Job:
    """A copy of a job that arrives at another time."""
    item = copy_item(job.item)
    item.key, item.time, item.uid = (job.key[0], f"{job.key[1]}+{number}"), arrival, f"{item.uid}+{number}"
    item.evicted = False
    return replace(
        job,
        key=item.key,
        item=item,
        arrived=arrival,
        state=QUEUED,
        admitted_item=None,
        started=0.0,
        previous_run_time=0.0,
        requeue_at=0.0,
        problem="",
    )
