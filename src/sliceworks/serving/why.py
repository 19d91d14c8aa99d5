"""Why a model service is not ready: from its pods, its Jobs and what was told about them, to words and a remedy. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base.conditions import condition, is_true
from sliceworks.catalog import labels
from sliceworks.serving.naming import GATEWAY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Object = dict[str, Any]
_PULLS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
_CONFIGURATION = ("CreateContainerConfigError", "CreateContainerError")
_LONGEST = 300
_MOUNTS = ("FailedMount", "FailedAttachVolume")
_REFUSED = "is its service account there, and does a quota leave room?"


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason: of which object, in words, and what to do about it."""

    object: str
    words: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.object}: {self.words}"


def explain(pods: Iterable[Object], jobs: Iterable[Object], events: Iterable[Object]) -> list[Cause]:
    """The causes, what only needs time after what does not mend itself; each is told once, of the first pod that has it."""
    told, staying = list(events), [pod for pod in pods if not _over(pod)]
    refused, old = _refusals(told, [str(pod["metadata"]["name"]) for pod in staying])
    found = [*_jobs(jobs), *(cause for pod in staying for cause in _troubles(pod)), *refused]
    found += [cause for pod in staying if not any(_troubles(pod)) for cause in _waits(pod, told)]
    once: dict[str, Cause] = {}
    for cause in (*found, *old):
        once.setdefault(cause.words, cause)
    return list(once.values())


def _over(pod: Object) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp") or (pod.get("status") or {}).get("phase") == "Succeeded")


def _troubles(pod: Object) -> Iterator[Cause]:
    status, name = pod.get("status") or {}, f"pod/{pod['metadata']['name']}"
    placed = condition(pod, "PodScheduled")
    if placed.get("status") == "False":
        yield Cause(name, f"no node takes it: {placed.get('message', '')}", _placing(pod))
        return
    for each in _containers(pod):
        if (cause := _container(pod, name, each)) is not None:
            yield cause
    if status.get("reason"):
        yield Cause(name, f"{status['reason']}: {status.get('message', '')}")


def _containers(pod: Object) -> list[Object]:
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _container(of: Object, pod: str, status: Object) -> Cause | None:
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
        last = _last_words(str(ended.get("message", "")))
        words = f"container {name} ended with exit code {ended.get('exitCode')}{f': {last}' if last else ''}"
        return Cause(pod, words, f"{_logs(pod, of)} -c {name} --previous")
    return None


def _last_words(message: str) -> str:
    """The last line of what a program said; ours end an error with a hint."""
    lines = [line for line in message.strip().split("\n") if not line.startswith("hint: ")]
    return lines[-1][:_LONGEST] if lines else ""


def _logs(name: str, obj: Object) -> str:
    place = obj["metadata"].get("namespace")
    return f"kubectl logs {name}{f' -n {place}' if place else ''}"


def _waits(pod: Object, events: list[Object]) -> Iterator[Cause]:
    """It runs: its own last word, or what the probe was told. Or it waits, for a volume or for its image."""
    if condition(pod, "Ready").get("status") != "False":
        return
    name = f"pod/{pod['metadata']['name']}"
    told = {each.get("reason"): str(each.get("message", "")) for each in events if _about(each, pod)}
    waiting = next((each["state"]["waiting"] for each in _containers(pod) if (each.get("state") or {}).get("waiting")), None)
    volume = next((told[reason] for reason in _MOUNTS if reason in told), "")
    if "Unhealthy" in told:
        yield Cause(name, told["Unhealthy"], _logs(name, pod))
    elif waiting and volume:
        yield Cause(name, volume, "is the Secret, ConfigMap or volume there?")
    elif waiting:
        yield Cause(name, f"it is starting ({waiting.get('reason', 'waiting')})")
    elif GATEWAY in (pod["metadata"].get("labels") or {}):
        yield Cause(name, "it runs and does not answer yet")
    else:
        yield Cause(name, "its server runs and does not answer yet: the model is loading")


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
            yield Cause(name, f"it failed: {failed.get('message') or failed.get('reason', '')}", _logs(name, job))


def _refusals(events: list[Object], pods: list[str]) -> tuple[list[Cause], list[Cause]]:
    """What could not even be made, such as pods beyond a quota or without their service account, in the last words about each; then
    what may have been made since."""
    last: dict[str, Cause] = {}
    for each in events:
        if each.get("reason") == "FailedCreate":
            about = each.get("involvedObject") or {}
            name = f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"
            last[name] = Cause(name, str(each.get("message", "")), _REFUSED)
    since = {name for name in last if any(pod.startswith(f"{name.partition('/')[2]}-") for pod in pods)}
    return [last[name] for name in last if name not in since], [last[name] for name in last if name in since]


def _about(event: Object, obj: Object) -> bool:
    return bool((event.get("involvedObject") or {}).get("uid") == obj["metadata"].get("uid"))
