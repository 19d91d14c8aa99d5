"""Jobs that are no part of a JobSet, seen as one: a slice that is a Job. So all jobs of a day are watched alike."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]
JOBS = "batch/jobs"
JOB_NAME = "batch.kubernetes.io/job-name"
_OF_GRAPH = "kro.run/owned"
_CONDITIONS = {"Complete": "Completed", "Failed": "Failed"}


def is_plain(job: Object) -> bool:
    """Whether a Job belongs to nobody, also not to a graph, and asks for chips: others prepare something and do not train."""
    metadata, containers = job["metadata"], job["spec"]["template"]["spec"].get("containers") or ()
    owned = metadata.get("ownerReferences") or (metadata.get("labels") or {}).get(_OF_GRAPH)
    asked = (amounts for each in containers for amounts in (each.get("resources") or {}).values() if isinstance(amounts, dict))
    return not owned and any("/" in name for amounts in asked for name in amounts)


def as_jobset(job: Object) -> Object:
    """What it would be as a JobSet; pods that failed count as restarts."""
    spec, status = job["spec"], job.get("status") or {}
    conditions = [
        {**each, "type": _CONDITIONS[each["type"]]} for each in status.get("conditions") or () if each["type"] in _CONDITIONS
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
