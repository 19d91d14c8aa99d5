"""JobSets, child Jobs and pods for tests without a cluster or on an embedded one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.controllers.jobset import jobset_api
from sliceworks.twin.controllers.jobset.child_jobs import ChildJob
from sliceworks.twin.controllers.runtime.pod_index import COMPLETION_INDEX

if TYPE_CHECKING:
    from tests.support.embedded_twin import EmbeddedTwin

Obj = dict[str, Any]
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"
JOBS = "/apis/batch/v1/namespaces/default/jobs"


def jobset(*jobs: Obj, annotations: Obj | None = None, status: Obj | None = None, **spec: Any) -> Obj:
    """A stored JobSet."""
    metadata = {"name": "js", "namespace": "ns", "uid": "u", "annotations": annotations or {}}
    policy = {"successPolicy": {"operator": "All"}, "network": {"enableDNSHostnames": True}}
    return {"metadata": metadata, "spec": {**policy, "replicatedJobs": list(jobs), **spec}, "status": status or {"restarts": 0}}


def replicated(name: str, replicas: int = 1, *, pods: int = 1, **more: Any) -> Obj:
    """A replicated Job whose Jobs no controller runs: the test sets their status."""
    pod = {"spec": {"containers": [{"name": "c", "image": "x"}], "restartPolicy": "Never"}}
    spec = {"parallelism": pods, "completions": pods, "managedBy": "example.com/test", "template": pod}
    return {"name": name, "groupName": "default", "replicas": replicas, "template": {"metadata": {}, "spec": spec}, **more}


def child(name: str, **more: Any) -> ChildJob:
    """An active child Job."""
    fields: Obj = {
        "replicated_job": "a", "index": 0, "restart_attempt": 0, "job_restart_attempt": None, "has_job_restart_attempt": False,
        "pods": 1, "ready": 0, "active": 1, "succeeded": 0, "suspended": False, "deleting": False, "finished": "", "failed_at": "",
        "reason": "", "message": "",
    }  # fmt: skip
    return ChildJob(name=name, **{**fields, **more})


def follower(job: str = "js-a-0", index: int = 1, *, owner: str = "job-uid") -> Obj:
    """A pod of an exclusively placed JobSet; with index 0 it is the leader."""
    labels = {jobset_api.NAME_LABEL: "js", jobset_api.REPLICATED_JOB: "a", jobset_api.JOB_INDEX: "0", jobset_api.JOB_KEY: "key"}
    annotations = {jobset_api.NAME_LABEL: "js", jobset_api.EXCLUSIVE_TOPOLOGY: "pool", COMPLETION_INDEX: str(index)}
    refs = [{"kind": "Job", "name": job, "uid": owner, "controller": True}]
    metadata = {"name": f"{job}-{index}-abcde", "labels": labels, "annotations": annotations, "ownerReferences": refs}
    return {"metadata": metadata, "spec": {"priority": 0}}


class JobSetHarness:
    """An embedded cluster whose Jobs' status the test sets."""

    def __init__(self, twin: EmbeddedTwin) -> None:
        self.twin = twin

    async def create(self, *jobs: Obj, name: str = "js", **spec: Any) -> None:
        body = {"metadata": {"name": name}, "spec": {"replicatedJobs": list(jobs), **spec}}
        await self.twin.do("POST", JOBSETS, {"apiVersion": jobset_api.API_VERSION, "kind": "JobSet", **body})
        await self.twin.quiet()

    async def get(self, name: str = "js") -> Obj:
        return await self.twin.do("GET", f"{JOBSETS}/{name}")

    async def jobs(self) -> dict[str, Obj]:
        return {job["metadata"]["name"]: job for job in (await self.twin.do("GET", JOBS))["items"]}

    async def mark(self, job: str, **status: Any) -> None:
        """Patch a Job's status and wait until the controllers are idle."""
        await self.twin.do("PATCH", f"{JOBS}/{job}/status", {"status": status})
        await self.twin.quiet()

    async def end(self, job: str, kind: str, reason: str = "Ended") -> None:
        """Set a Job to Complete or Failed."""
        now = "2026-01-05T08:00:00Z"
        first = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[kind]
        conditions = [
            {"type": type_, "status": "True", "reason": reason, "message": "m", "lastTransitionTime": now}
            for type_ in (first, kind)
        ]
        done = {"completionTime": now} if kind == "Complete" else {}
        await self.mark(job, startTime=now, conditions=conditions, **done)

    async def conditions(self) -> list[tuple[str, str, str]]:
        status = (await self.get()).get("status") or {}
        return [(condition["type"], condition["status"], condition["reason"]) for condition in status.get("conditions") or ()]
