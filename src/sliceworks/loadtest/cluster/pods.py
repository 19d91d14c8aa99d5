"""What pods of a test tell about themselves: whether they run, why they do not, and why they will not any more. Pure."""

from __future__ import annotations

from typing import Any

from sliceworks.base.conditions import condition

Object = dict[str, Any]
_INDEX = "batch.kubernetes.io/job-completion-index"
_HOPELESS = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "CreateContainerError", "RunContainerError"})


def index(pod: Object) -> int:
    """Which pod of the Job it is."""
    return int((pod["metadata"].get("annotations") or {}).get(_INDEX, 0))


def runs(pod: Object) -> bool:
    """Whether it can be asked."""
    status = pod.get("status") or {}
    return status.get("phase") == "Running" and bool(status.get("podIP"))


def over(pod: Object) -> str:
    """Why it will not answer any more; nothing while it may."""
    status = pod.get("status") or {}
    phase, name = status.get("phase"), pod["metadata"]["name"]
    if phase not in ("Failed", "Succeeded"):
        return ""
    if told := status.get("message") or status.get("reason"):
        return f"pod/{name}: {told}"
    ended: Object = next((each["state"]["terminated"] for each in _containers(pod) if "terminated" in each["state"]), {})
    reason, code = ended.get("reason") or phase, ended.get("exitCode", "unknown")
    return f"pod/{name} has ended: {reason}, exit code {code}"


def waits_for(pod: Object) -> str:
    """Why it does not run yet."""
    told = condition(pod, "PodScheduled")
    if told.get("status") == "False":
        return f"pod/{pod['metadata']['name']}: {told.get('message') or told.get('reason', '')}"
    for each in _containers(pod):
        if waiting := each["state"].get("waiting"):
            words = f"{waiting.get('reason', '')} {waiting.get('message', '')}".strip()
            return f"pod/{pod['metadata']['name']}: {words}"
    return f"pod/{pod['metadata']['name']} has not started"


def hopeless(pod: Object) -> bool:
    """Whether waiting longer would not help."""
    return any((each["state"].get("waiting") or {}).get("reason") in _HOPELESS for each in _containers(pod))


def _containers(pod: Object) -> list[Object]:
    return [each for each in (pod.get("status") or {}).get("containerStatuses") or () if each.get("state")]
