"""JobSets and what is around them, for tests without a cluster or on an embedded one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.workloads.jobset import keys
from sliceworks.twin.workloads.jobset.children import Child

if TYPE_CHECKING:
    from tests.support.embedded import Embedded

Obj = dict[str, Any]
JOBSETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"
JOBS = "/apis/batch/v1/namespaces/default/jobs"


def jobset(*jobs: Obj, annotations: Obj | None = None, status: Obj | None = None, **spec: Any) -> Obj:
    """A JobSet as it is stored."""
    metadata = {"name": "js", "namespace": "ns", "uid": "u", "annotations": annotations or {}}
    policy = {"successPolicy": {"operator": "All"}, "network": {"enableDNSHostnames": True}}
    return {"metadata": metadata, "spec": {**policy, "replicatedJobs": list(jobs), **spec}, "status": status or {"restarts": 0}}


def replicated(name: str, replicas: int = 1, *, pods: int = 1, **more: Any) -> Obj:
    """A replicated Job whose Jobs nobody runs: a test says itself how they stand."""
    pod = {"spec": {"containers": [{"name": "c", "image": "x"}], "restartPolicy": "Never"}}
    spec = {"parallelism": pods, "completions": pods, "managedBy": "example.com/test", "template": pod}
    return {"name": name, "groupName": "default", "replicas": replicas, "template": {"metadata": {}, "spec": spec}, **more}


def child(name: str, **more: Any) -> Child:
    """A Job that is there."""
    given: Obj = {
        "replicated_job": "a", "index": 0, "attempt": 0, "own_attempt": None, "has_own_attempt": False, "pods": 1, "ready": 0,
        "active": 1, "succeeded": 0, "suspended": False, "deleting": False, "finished": "", "failed_at": "", "reason": "",
        "message": "",
    }  # fmt: skip
    return Child(name=name, **{**given, **more})


def follower(job: str = "js-a-0", index: int = 1, *, owner: str = "job-uid") -> Obj:
    """A pod of a JobSet that is placed exclusively."""
    labels = {keys.NAME: "js", keys.REPLICATED_JOB: "a", keys.JOB_INDEX: "0", keys.JOB_KEY: "key"}
    marks = {keys.NAME: "js", keys.EXCLUSIVE: "pool", keys.COMPLETION_INDEX: str(index)}
    refs = [{"kind": "Job", "name": job, "uid": owner, "controller": True}]
    metadata = {"name": f"{job}-{index}-abcde", "labels": labels, "annotations": marks, "ownerReferences": refs}
    return {"metadata": metadata, "spec": {"priority": 0}}


class Stage:
    """An embedded cluster on which a test says how Jobs fare."""

    def __init__(self, twin: Embedded) -> None:
        self.twin = twin

    async def create(self, *jobs: Obj, name: str = "js", **spec: Any) -> None:
        body = {"metadata": {"name": name}, "spec": {"replicatedJobs": list(jobs), **spec}}
        await self.twin.do("POST", JOBSETS, {"apiVersion": keys.API_VERSION, "kind": "JobSet", **body})
        await self.twin.quiet()

    async def get(self, name: str = "js") -> Obj:
        return await self.twin.do("GET", f"{JOBSETS}/{name}")

    async def jobs(self) -> dict[str, Obj]:
        return {job["metadata"]["name"]: job for job in (await self.twin.do("GET", JOBS))["items"]}

    async def mark(self, job: str, **status: Any) -> None:
        """Write a Job's status, and let the JobSet see it."""
        await self.twin.do("PATCH", f"{JOBS}/{job}/status", {"status": status})
        await self.twin.quiet()

    async def end(self, job: str, kind: str, reason: str = "Ended") -> None:
        """A Job is complete or failed."""
        now = "2026-01-05T08:00:00Z"
        first = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[kind]
        conditions = [
            {"type": each, "status": "True", "reason": reason, "message": "m", "lastTransitionTime": now} for each in (first, kind)
        ]
        done = {"completionTime": now} if kind == "Complete" else {}
        await self.mark(job, startTime=now, conditions=conditions, **done)

    async def conditions(self) -> list[tuple[str, str, str]]:
        status = (await self.get()).get("status") or {}
        return [(each["type"], each["status"], each["reason"]) for each in status.get("conditions") or ()]
