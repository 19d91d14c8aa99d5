"""The kinds of jobs that Kueue queues, behind one face: what pods they want, how they are started, stopped and judged."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from sliceworks.twin.workloads.kueue.keys import JOBS, JOBSETS, LEAST_PODS, QUEUE, SAME_COMPLETIONS, STOPPING, Obj
from sliceworks.twin.workloads.kueue.likeness import equivalent

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sliceworks.twin.controllers.world import World

_OWN_LABELS = ("job-name", "controller-uid", "batch.kubernetes.io/job-name", "batch.kubernetes.io/controller-uid")


class Kind:
    """One kind; the objects it is asked about are dicts."""

    resource = group = version = plural = name = component = ""

    def path(self, obj: Mapping[str, Any], below: str = "") -> str:
        metadata = obj["metadata"]
        home = f"/apis/{self.group}/{self.version}/namespaces/{metadata['namespace']}/{self.plural}/{metadata['name']}"
        return f"{home}/{below}" if below else home

    def load(self, world: World, namespace: str, name: str) -> Obj | None:
        """The job as it is now."""
        return world.get(self.resource, namespace, name)

    def leaving(self, job: Mapping[str, Any]) -> bool:
        """Whether it is being deleted."""
        return "deletionTimestamp" in job["metadata"]

    def queued(self, job: Mapping[str, Any]) -> bool:
        """Whether it names a queue."""
        return bool(queue_name(job))

    def templates(self, job: Obj) -> list[Obj]:
        """Its pod templates, one for each pod set, to be read or changed."""
        raise NotImplementedError

    def matches(self, job: Obj, wanted: list[Obj], workload: Mapping[str, Any]) -> bool:
        """Whether a Workload is that of the job as it is now."""
        return equivalent(job, wanted, workload)

    def pod_sets(self, job: Obj) -> list[Obj]:
        raise NotImplementedError

    def suspended(self, job: Mapping[str, Any]) -> bool:
        return bool(job["spec"].get("suspend"))

    def active(self, job: Mapping[str, Any]) -> bool:
        raise NotImplementedError

    def finished(self, job: Mapping[str, Any]) -> tuple[bool, str] | None:
        """Whether it ended well, and its last words; None while it has not ended."""
        raise NotImplementedError

    def ready(self, job: Mapping[str, Any]) -> bool:
        raise NotImplementedError

    def reclaimable(self, job: Mapping[str, Any]) -> list[Obj]:
        raise NotImplementedError

    def resize(self, job: Obj, counts: list[int]) -> None:
        """Give it the numbers of pods that were admitted, where it allows for fewer."""

    def kept_labels(self, template: Mapping[str, Any]) -> Obj:
        """Labels of a template that stay when it is restored."""
        return {}


class JobKind(Kind):
    """Jobs of batch/v1."""

    resource, group, version, plural, name, component = JOBS, "batch", "v1", "jobs", "Job", "batch/job-kueue-controller"

    def templates(self, job: Obj) -> list[Obj]:
        return [job["spec"]["template"]]

    def pod_sets(self, job: Obj) -> list[Obj]:
        template = copy.deepcopy(job["spec"]["template"])
        labels = (template.get("metadata") or {}).get("labels") or {}
        for label in _OWN_LABELS:
            if label != "batch.kubernetes.io/job-name":
                labels.pop(label, None)
        found: Obj = {"name": "main", "template": template, "count": _pods(job["spec"])}
        least = (job["metadata"].get("annotations") or {}).get(LEAST_PODS, "")
        if least.lstrip("-").isdigit():
            found["minCount"] = int(least)
        return [found]

    def suspended(self, job: Mapping[str, Any]) -> bool:
        return super().suspended(job) and (job["metadata"].get("annotations") or {}).get(STOPPING) != "true"

    def active(self, job: Mapping[str, Any]) -> bool:
        return bool((job.get("status") or {}).get("active"))

    def finished(self, job: Mapping[str, Any]) -> tuple[bool, str] | None:
        return _ended(job, "Complete", "Failed")

    def ready(self, job: Mapping[str, Any]) -> bool:
        status = job.get("status") or {}
        uncounted = (status.get("uncountedTerminatedPods") or {}).get("succeeded") or ()
        return bool(status.get("succeeded", 0) + status.get("ready", 0) + len(uncounted) >= _pods(job["spec"]))

    def reclaimable(self, job: Mapping[str, Any]) -> list[Obj]:
        spec, succeeded = job["spec"], (job.get("status") or {}).get("succeeded", 0)
        parallelism = spec.get("parallelism", 1)
        left = spec.get("completions", parallelism) - succeeded
        if parallelism == 1 or not succeeded or left >= parallelism:
            return []
        return [{"name": "main", "count": parallelism - left}]

    def resize(self, job: Obj, counts: list[int]) -> None:
        annotations = job["metadata"].get("annotations") or {}
        if LEAST_PODS not in annotations:
            return
        job["spec"]["parallelism"] = counts[0]
        if annotations.get(SAME_COMPLETIONS) == "true":
            job["spec"]["completions"] = counts[0]

    def kept_labels(self, template: Mapping[str, Any]) -> Obj:
        labels = (template.get("metadata") or {}).get("labels") or {}
        return {label: labels[label] for label in _OWN_LABELS if label in labels}


class JobSetKind(Kind):
    """JobSets."""

    resource, group, version, plural, name = JOBSETS, "jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet"
    component = "jobset.x-k8s.io/jobset-kueue-controller"

    def templates(self, job: Obj) -> list[Obj]:
        return [one["template"]["spec"]["template"] for one in job["spec"].get("replicatedJobs") or ()]

    def pod_sets(self, job: Obj) -> list[Obj]:
        return [
            {"name": one["name"].lower(), "template": copy.deepcopy(one["template"]["spec"]["template"]), "count": _all_pods(one)}
            for one in job["spec"].get("replicatedJobs") or ()
        ]

    def active(self, job: Mapping[str, Any]) -> bool:
        return any(one.get("active") for one in _statuses(job))

    def finished(self, job: Mapping[str, Any]) -> tuple[bool, str] | None:
        return _ended(job, "Completed", "Failed")

    def ready(self, job: Mapping[str, Any]) -> bool:
        wanted = sum(one.get("replicas", 1) for one in job["spec"].get("replicatedJobs") or ())
        return bool(wanted == sum(one.get("ready", 0) + one.get("succeeded", 0) for one in _statuses(job)))

    def reclaimable(self, job: Mapping[str, Any]) -> list[Obj]:
        succeeded = {one["name"]: one.get("succeeded", 0) for one in _statuses(job)}
        return [
            {"name": one["name"].lower(), "count": succeeded[one["name"]] * _pods(one["template"]["spec"])}
            for one in job["spec"].get("replicatedJobs") or ()
            if 0 < succeeded.get(one["name"], 0) <= one.get("replicas", 1)
        ]


def queue_name(job: Mapping[str, Any]) -> str:
    """The queue that a job names; empty when it names none."""
    return str((job["metadata"].get("labels") or {}).get(QUEUE) or "")


def _pods(spec: Mapping[str, Any]) -> int:
    parallelism = spec.get("parallelism", 1)
    return int(min(parallelism, spec.get("completions", parallelism)))


def _all_pods(replicated_job: Mapping[str, Any]) -> int:
    return int(replicated_job.get("replicas", 1)) * _pods(replicated_job["template"]["spec"])


def _statuses(job: Mapping[str, Any]) -> Iterable[Obj]:
    return (job.get("status") or {}).get("replicatedJobsStatus") or ()


def _ended(job: Mapping[str, Any], well: str, badly: str) -> tuple[bool, str] | None:
    for one in (job.get("status") or {}).get("conditions") or ():
        if one["type"] in (well, badly) and one["status"] == "True":
            return one["type"] == well, one.get("message", "")
    return None
