"""A TrainingJob turned into one JobSet: a Job for each slice, a pod for each host, and the helpers beside them. Pure."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from sliceworks.catalog.labels import NODE_POOL
from sliceworks.specs.training import SLICE
from sliceworks.training import failures, helpers, pods
from sliceworks.training.shapes import Ask, ask
from sliceworks.training.states import workers
from sliceworks.training.words import PRIORITY, QUEUE, TYPE

if TYPE_CHECKING:
    from sliceworks.specs.training import TrainingJob

__all__ = ["PRIORITY", "QUEUE", "TYPE", "jobset", "workers"]

Object = dict[str, Any]
_EXCLUSIVE = {"alpha.jobset.sigs.k8s.io/exclusive-topology": NODE_POOL}


def jobset(job: TrainingJob, *, namespace: str = "", script: str = "") -> Object:
    """The JobSet. `script` is the text of the document's script; Kueue itself suspends and starts it."""
    asked, spec = ask(job.spec.slices), job.spec
    place = namespace or job.metadata.namespace
    labels = {**job.metadata.labels, TYPE: asked.shape.type_name, QUEUE: spec.queue}
    if spec.priority:
        labels[PRIORITY] = spec.priority
    metadata: Object = {"name": job.metadata.name, **({"namespace": place} if place else {}), "labels": labels}
    if job.metadata.annotations:
        metadata["annotations"] = dict(job.metadata.annotations)
    beside, before, after = helpers.replicated_jobs(job), helpers.steps(job, spec.before), helpers.steps(job, spec.after)
    found: Object = {}
    if asked.joined:
        found["coordinator"] = {"replicatedJob": SLICE, "jobIndex": 0, "podIndex": 0}
    if beside:
        ends = [SLICE, *(each["name"] for each in after)]
        found["successPolicy"] = {"operator": "All", "targetReplicatedJobs": ends}
    found["failurePolicy"] = failures.of_job(spec)
    if spec.time_to_live is not None:
        found["ttlSecondsAfterFinished"] = int(spec.time_to_live)
    found["replicatedJobs"] = [*_in_order([*before, _slices(job, asked, script), *after]), *beside]
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": found}


def _in_order(jobs: list[Object]) -> list[Object]:
    """Each begins when the one before it is complete."""
    found = jobs[:1]
    for earlier, later in itertools.pairwise(jobs):
        follows = {"dependsOn": [{"name": earlier["name"], "status": "Complete"}]}
        found.append({"name": later["name"], "replicas": later["replicas"], **follows, "template": later["template"]})
    return found


def _slices(job: TrainingJob, asked: Ask, script: str) -> Object:
    """One Job for each slice. Only slices of several hosts have node pools of their own, which nobody else may share."""
    hosts = asked.shape.hosts
    spec: Object = {"parallelism": hosts, "completions": hosts, "completionMode": "Indexed", "backoffLimit": 0}
    if job.spec.deadline is not None:
        spec["activeDeadlineSeconds"] = int(job.spec.deadline)
    policy = failures.of_pods(job.spec, pods.CONTAINER)
    if policy:
        spec["podFailurePolicy"] = policy
    spec["template"] = pods.template(job, asked, script)
    exclusive = {"metadata": {"annotations": dict(_EXCLUSIVE)}} if asked.shape.multi_host else {}
    return {"name": SLICE, "replicas": asked.count, "template": {**exclusive, "spec": spec}}
