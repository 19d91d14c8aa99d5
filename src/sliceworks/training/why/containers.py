"""Causes inside pods: containers that cannot start, do not stay up, or have ended badly. Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from sliceworks.base.conditions import condition, is_true
from sliceworks.catalog.labels import JOBSET_NAME
from sliceworks.training.why import kinds
from sliceworks.training.why.answer import seen

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sliceworks.training.why.answer import Cause, Kind
    from sliceworks.training.why.evidence import Evidence

Object = dict[str, Any]
# What a kubelet calls a container that waits.
_WAITS: dict[str, Kind] = {
    "ErrImagePull": kinds.IMAGE,
    "ImagePullBackOff": kinds.IMAGE,
    "InvalidImageName": kinds.IMAGE,
    "ErrImageNeverPull": kinds.IMAGE,
    "RegistryUnavailable": kinds.IMAGE,
    "ImageInspectError": kinds.IMAGE,
    "CreateContainerConfigError": kinds.CONFIG,
    "CreateContainerError": kinds.CONFIG,
    "CrashLoopBackOff": kinds.CRASH_LOOP,
}
_MOUNTS = ("FailedMount", "FailedAttachVolume")
_OOM = "OOMKilled"


def troubles(evidence: Evidence) -> Iterator[Cause]:
    """What keeps pods that have a place from running: one cause for all pods with the same trouble."""
    alike: dict[tuple[str, str], list[tuple[Object, Object]]] = defaultdict(list)
    for pod in evidence.pods:
        for status in _statuses(pod):
            waiting = (status.get("state") or {}).get("waiting") or {}
            if kind := _WAITS.get(waiting.get("reason", "")):
                alike[kind.name, status["name"]].append((pod, status))
    for found in alike.values():
        yield _waiting(found)
    yield from _volumes(evidence)


def _waiting(found: list[tuple[Object, Object]]) -> Cause:
    pod, status = found[0]
    waiting = status["state"]["waiting"]
    kind, count = _WAITS[waiting["reason"]], _pods(len(found))
    where = seen(pod, f"status.containerStatuses[{status['name']}].state.waiting", "Pod")
    said = f"{waiting['reason']}: {waiting['message']}" if waiting.get("message") else waiting["reason"]
    last = ((status.get("lastState") or {}).get("terminated")) or {}
    if kind is kinds.CRASH_LOOP and last.get("reason") == _OOM:
        return _memory(pod, status, len(found))
    if kind is kinds.CRASH_LOOP:
        ended = f" with exit code {last['exitCode']}" if "exitCode" in last else ""
        words = (
            f"{status['name']} of {count} ends{ended} soon after it starts, {_times(int(status.get('restartCount') or 0))} so far."
        )
        return kind.cause(words, where, seen(pod, f"status.containerStatuses[{status['name']}].lastState", "Pod"), said=said)
    words = (
        f"{count} cannot pull {status.get('image', 'the image')}."
        if kind is kinds.IMAGE
        else f"{status['name']} of {count} cannot be made."
    )
    return kind.cause(words, where, said=said)


def _memory(pod: Object, status: Object, count: int) -> Cause:
    name = status["name"]
    spec: Object = next((each for each in pod["spec"]["containers"] if each["name"] == name), {})
    limit = ((spec.get("resources") or {}).get("limits") or {}).get("memory")
    allowed = f"; it may use {limit}" if limit else "; it has no limit of its own, so its host had no more"
    where = seen(pod, f"status.containerStatuses[{name}]", "Pod")
    return kinds.MEMORY.cause(f"{name} of {_pods(count)} was killed because it used too much memory{allowed}.", where, said=_OOM)


def ends(evidence: Evidence) -> Iterator[Cause]:
    """How pods that failed have ended: out of memory, with an exit code, or with their host."""
    alike: dict[str, list[tuple[Object, Object]]] = defaultdict(list)
    for pod in evidence.pods:
        if (pod.get("status") or {}).get("phase") != "Failed":
            continue
        if is_true(pod, "DisruptionTarget"):
            alike["lost"].append((pod, {}))
            continue
        for status in _statuses(pod):
            ended = (status.get("state") or {}).get("terminated") or {}
            if ended.get("exitCode"):
                alike["memory" if ended.get("reason") == _OOM else str(ended["exitCode"])].append((pod, status))
    for what, found in alike.items():
        yield _end(what, found)


def _end(what: str, found: list[tuple[Object, Object]]) -> Cause:
    pod, status = found[0]
    if what == "lost":
        told = condition(pod, "DisruptionTarget")
        words = f"{_pods(len(found))} lost its host." if len(found) == 1 else f"{_pods(len(found))} lost their hosts."
        return kinds.HOST_LOST.cause(words, seen(pod, "status.conditions[DisruptionTarget]", "Pod"), said=told.get("message", ""))
    if what == "memory":
        return _memory(pod, status, len(found))
    where = seen(pod, f"status.containerStatuses[{status['name']}].state.terminated", "Pod")
    ended = status["state"]["terminated"]
    words = f"{status['name']} of {_pods(len(found))} ended with exit code {what}."
    job = pod["metadata"]["labels"].get(JOBSET_NAME, "")
    remedy = f"`sliceworks train logs {job}` shows what {pod['metadata']['name']} wrote"
    return kinds.EXIT_CODE.cause(words, where, remedy=remedy, said=ended.get("message", ""))


def _volumes(evidence: Evidence) -> Iterator[Cause]:
    for pod in evidence.pods:
        if pod["status"].get("phase") != "Pending":
            continue
        for told in evidence.events_of("Pod", pod["metadata"]["name"]):
            if told["reason"] in _MOUNTS:
                named = [each for each in pod["spec"].get("volumes") or () if each["name"] in told.get("message", "")]
                kind = kinds.CONFIG if any("secret" in each or "configMap" in each for each in named) else kinds.VOLUME
                words = f"A volume of {pod['metadata']['name']} cannot be mounted."
                yield kind.cause(words, seen(pod, f"events[{told['reason']}]", "Pod"), said=told.get("message", ""))
                return


def unready(evidence: Evidence) -> Iterator[Cause]:
    """Pods that run and are not ready."""
    found = [
        pod for pod in evidence.pods if pod["status"].get("phase") == "Running" and condition(pod, "Ready").get("status") == "False"
    ]
    if found:
        told = condition(found[0], "Ready")
        yield kinds.NOT_READY.cause(
            f"{'1 pod runs and is' if len(found) == 1 else f'{len(found)} pods run and are'} not ready.",
            seen(found[0], "status.conditions[Ready]", "Pod"),
            said=told.get("message", ""),
        )


def starting(evidence: Evidence) -> Cause | None:
    """Containers that are just being made, and images that are being pulled for them."""
    found = [pod for pod in evidence.pods if pod["spec"].get("nodeName") and pod["status"].get("phase") == "Pending"]
    if not found:
        return None
    told: Object = next(iter(evidence.events_of("Pod", found[0]["metadata"]["name"])), {})
    where = seen(found[0], "status.containerStatuses", "Pod")
    if told.get("reason") != "Pulling":
        return kinds.STARTING.cause(f"The containers of {_pods(len(found))} are being made.", where)
    words = f"The containers of {_pods(len(found))} are being made, and their image is being pulled."
    return kinds.STARTING.cause(words, where, seen(found[0], "events[Pulling]", "Pod"), said=told.get("message", ""))


def _statuses(pod: Object) -> Iterable[Object]:
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
