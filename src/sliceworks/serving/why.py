"""Why a model service is not ready: from its pods, its Jobs and what was told about them, to words and a remedy. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base.conditions import condition, is_true
from sliceworks.catalog import labels

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Object = dict[str, Any]
_PULLS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
_CONFIGURATION = ("CreateContainerConfigError", "CreateContainerError")
_LONGEST = 300
_MOUNTS = ("FailedMount", "FailedAttachVolume")


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason: of which object, in words, and what to do about it."""

    object: str
    words: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.object}: {self.words}"


def explain(pods: Iterable[Object], jobs: Iterable[Object], events: Iterable[Object]) -> list[Cause]:
    """The causes, the worst first; each is told once, of the first pod that has it."""
    told = list(events)
    found = [*_jobs(jobs), *(cause for pod in pods for cause in _pod(pod, told)), *_refusals(told)]
    once: dict[str, Cause] = {}
    for cause in found:
        once.setdefault(cause.words, cause)
    return list(once.values())


def _pod(pod: Object, events: list[Object]) -> Iterator[Cause]:
    status, name = pod.get("status") or {}, f"pod/{pod['metadata']['name']}"
    if pod["metadata"].get("deletionTimestamp") or status.get("phase") == "Succeeded":
        return
    placed = condition(pod, "PodScheduled")
    if placed.get("status") == "False":
        yield Cause(name, f"no node takes it: {placed.get('message', '')}", _placing(pod))
        return
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    causes = [cause for each in containers if (cause := _container(name, each)) is not None]
    if status.get("reason"):
        causes.append(Cause(name, f"{status['reason']}: {status.get('message', '')}"))
    if not causes and condition(pod, "Ready").get("status") == "False":
        causes = [_not_ready(pod, name, containers, events)]
    yield from causes


def _container(pod: str, status: Object) -> Cause | None:
    waiting = (status.get("state") or {}).get("waiting") or {}
    ended = (status.get("state") or {}).get("terminated") or (status.get("lastState") or {}).get("terminated") or {}
    reason, name = waiting.get("reason", ""), status["name"]
    if reason in _PULLS:
        remedy = "is the name right, and may the nodes read the registry?"
        return Cause(pod, f"the image {status.get('image', '')} cannot be pulled: {waiting.get('message', reason)}", remedy)
    if reason in _CONFIGURATION:
        return Cause(pod, f"container {name} cannot start: {waiting.get('message', reason)}", "is the Secret or ConfigMap there?")
    if ended.get("reason") == "OOMKilled":
        return Cause(pod, f"container {name} needs more memory than it may have", "give spec.memory, or a larger machine")
    if ended and (reason == "CrashLoopBackOff" or ended.get("exitCode")):
        last = str(ended.get("message", "")).strip().rpartition("\n")[2][:_LONGEST]
        words = f"container {name} ended with exit code {ended.get('exitCode')}{f': {last}' if last else ''}"
        return Cause(pod, words, f"kubectl logs {pod} -c {name} --previous")
    return None


def _not_ready(pod: Object, name: str, containers: list[Object], events: list[Object]) -> Cause:
    """It runs: its own last word, or what the probe was told. Or it waits, for a volume or for its image."""
    told = {each.get("reason"): str(each.get("message", "")) for each in events if _about(each, pod)}
    if "Unhealthy" in told:
        return Cause(name, told["Unhealthy"], f"kubectl logs {name}")
    waiting = next((each["state"]["waiting"] for each in containers if (each.get("state") or {}).get("waiting")), None)
    volume = next((told[reason] for reason in _MOUNTS if reason in told), "")
    if waiting and volume:
        return Cause(name, volume, "is the Secret, ConfigMap or volume there?")
    if waiting:
        return Cause(name, f"it is starting ({waiting.get('reason', 'waiting')})")
    return Cause(name, "its server runs and does not answer yet: the model is loading")


def _placing(pod: Object) -> str:
    wanted = pod["spec"].get("nodeSelector") or {}
    pool = wanted.get(labels.NODE_POOL)
    if pool:
        return f"is there a node pool {pool} with room in it?"
    shape = wanted.get(labels.TPU_TOPOLOGY) or wanted.get(labels.GPU_ACCELERATOR)
    return (
        f"is there a free node pool of {shape}? `sliceworks slices list` shows those of TPUs"
        if shape
        else "are there nodes with room?"
    )


def _jobs(jobs: Iterable[Object]) -> Iterator[Cause]:
    for job in jobs:
        if is_true(job, "Failed"):
            name, failed = f"job/{job['metadata']['name']}", condition(job, "Failed")
            yield Cause(name, f"it failed: {failed.get('message') or failed.get('reason', '')}", f"kubectl logs {name}")


def _refusals(events: list[Object]) -> Iterator[Cause]:
    """What could not even be made, such as pods beyond a quota or without their service account."""
    for each in reversed(events):
        if each.get("reason") == "FailedCreate":
            about = each.get("involvedObject") or {}
            yield Cause(f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}", str(each.get("message", "")))


def _about(event: Object, obj: Object) -> bool:
    return bool((event.get("involvedObject") or {}).get("uid") == obj["metadata"].get("uid"))
