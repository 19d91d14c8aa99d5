"""The names that JobSet puts on things and reads from them."""

from __future__ import annotations

from hashlib import sha1
from typing import Any

Obj = dict[str, Any]

GROUP = "jobset.x-k8s.io"
API_VERSION = f"{GROUP}/v1alpha2"
KIND = "JobSet"
JOBSETS = f"{GROUP}/jobsets"
JOBS = "batch/jobs"
PODS = "/pods"
NODES = "/nodes"
SERVICES = "/services"

_DOMAIN = "jobset.sigs.k8s.io/"
NAME = _DOMAIN + "jobset-name"
UID = _DOMAIN + "jobset-uid"
REPLICATED_JOB = _DOMAIN + "replicatedjob-name"
REPLICAS = _DOMAIN + "replicatedjob-replicas"
GLOBAL_REPLICAS = _DOMAIN + "global-replicas"
JOB_INDEX = _DOMAIN + "job-index"
JOB_GLOBAL_INDEX = _DOMAIN + "job-global-index"
JOB_KEY = _DOMAIN + "job-key"
RESTART_ATTEMPT = _DOMAIN + "restart-attempt"
JOB_RESTART_ATTEMPT = _DOMAIN + "job-restart-attempt"
GROUP_NAME = _DOMAIN + "group-name"
GROUP_REPLICAS = _DOMAIN + "group-replicas"
JOB_GROUP_INDEX = _DOMAIN + "job-group-index"
COORDINATOR = _DOMAIN + "coordinator"
PRIORITY = _DOMAIN + "priority"
CONTROLLER = _DOMAIN + "jobset-controller"

EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
NODE_SELECTOR = "alpha.jobset.sigs.k8s.io/node-selector"
NAMESPACED_JOB = "alpha.jobset.sigs.k8s.io/namespaced-job"
NO_SCHEDULE = "alpha.jobset.sigs.k8s.io/no-schedule"

COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"


def job_name(jobset: str, replicated_job: str, index: int) -> str:
    return f"{jobset}-{replicated_job}-{index}"


def job_key(namespace: str, job: str) -> str:
    """A name for a Job that fits into a label, whatever its length."""
    return sha1(f"{namespace}/{job}".encode(), usedforsecurity=False).hexdigest()


def subdomain(jobset: Obj) -> str:
    """Where the pods' hostnames live: the JobSet's own name unless it says otherwise."""
    return str((jobset["spec"].get("network") or {}).get("subdomain") or jobset["metadata"].get("name", ""))


def coordinator(jobset: Obj) -> str:
    """The address of the pod that the others turn to."""
    chosen = jobset["spec"]["coordinator"]
    place = f"{chosen.get('jobIndex', 0)}-{chosen.get('podIndex', 0)}"
    return f"{jobset['metadata'].get('name', '')}-{chosen['replicatedJob']}-{place}.{subdomain(jobset)}"


def replicated_jobs(jobset: Obj) -> list[Obj]:
    return jobset["spec"].get("replicatedJobs") or []


def replicas(replicated_job: Obj) -> int:
    return int(replicated_job.get("replicas", 0))


def controller_uid(metadata: Obj) -> str:
    """The UID of the owner that manages an object; empty when there is none."""
    return next((str(ref["uid"]) for ref in metadata.get("ownerReferences") or () if ref.get("controller")), "")
