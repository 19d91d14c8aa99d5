"""Work that is not in the cluster yet: documents turned into the Workloads that Kueue would make of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import InvalidDocument, NotFound
from sliceworks.rehearsal import submissions
from sliceworks.rehearsal.forecast.jobs import Job, job_of
from sliceworks.rehearsal.forecast.trimming import trimmed
from sliceworks.specs.documents import is_ours
from sliceworks.twin.workloads.kueue.keys import MOST_SECONDS, workload_name
from sliceworks.twin.workloads.kueue.kinds import JobKind, JobSetKind, Kind, queue_name
from sliceworks.twin.workloads.kueue.priorities import priority_of

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from sliceworks.base.yamls import Document
    from sliceworks.rehearsal.forecast.snapshot import Snapshot

Object = dict[str, Any]
_KINDS: dict[tuple[str, str], Kind] = {("jobset.x-k8s.io", "JobSet"): JobSetKind(), ("batch", "Job"): JobKind()}


def job(document: Document, folder: Path, snapshot: Snapshot, *, namespace: str = "", at: datetime | None = None) -> Job:
    """The job that a TrainingJob, a JobSet or a Job becomes when it is submitted, at a time or at once."""
    obj = submissions.take(document, folder).jobset(namespace) if is_ours(document) else document.data
    group = str(obj.get("apiVersion", "")).rpartition("/")[0]
    kind = _KINDS.get((group, str(obj.get("kind"))))
    if kind is None:
        remedy = "a TrainingJob, a JobSet or a Job is wanted"
        raise InvalidDocument(f"{document.name} is nothing that waits in a queue", place=document.place("kind"), hint=remedy)
    if not queue_name(obj):
        raise InvalidDocument(
            f"{document.name} names no queue", place=document.place("metadata"), hint="label it with kueue.x-k8s.io/queue-name"
        )
    made = workload(
        kind, {**obj, "metadata": {**obj["metadata"], **({"namespace": namespace} if namespace else {})}}, document, snapshot
    )
    made["metadata"]["creationTimestamp"] = clock.rfc3339(at or snapshot.taken)
    return job_of(trimmed("Workload", made), snapshot.taken)


def workload(kind: Kind, obj: Object, document: Document, snapshot: Snapshot) -> Object:
    """The Workload of a job's object."""
    metadata = obj["metadata"]
    classes = {each["metadata"]["name"]: each for each in snapshot.of("WorkloadPriorityClass")}
    try:
        pod_sets = kind.pod_sets(obj)
        priority = priority_of(lambda _resource, _namespace, name: classes.get(name), obj, pod_sets)
    except NotFound as error:
        name = (metadata.get("labels") or {}).get("kueue.x-k8s.io/priority-class", "")
        known = ", ".join(sorted(classes)) or "none"
        raise InvalidDocument(
            f"there is no priority {name!r}", place=document.place("spec", "priority"), hint=f"there are: {known}"
        ) from error
    except (KeyError, TypeError) as error:
        raise InvalidDocument(f"{document.name} has no whole pod templates", place=document.place("spec")) from error
    most = (metadata.get("labels") or {}).get(MOST_SECONDS, "")
    namespace, name = metadata.get("namespace") or "default", metadata["name"]
    return {
        "metadata": {
            "namespace": namespace,
            "name": workload_name(kind.name, kind.group, name, ""),
            "uid": f"new-{namespace}-{name}",
            "creationTimestamp": clock.rfc3339(snapshot.taken),
            "ownerReferences": [{"kind": kind.name, "name": name, "controller": True}],
        },
        "spec": {
            "queueName": queue_name(obj),
            **priority,
            **({"maximumExecutionTimeSeconds": int(most)} if most.isdigit() else {}),
            "podSets": pod_sets,
        },
    }
