"""Why a workload is not ready: causes and hints from its pods, Jobs and events. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base.conditions import find_condition, is_condition_true
from sliceworks.catalog import labels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Object = dict[str, Any]
_IMAGE_REASONS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
_CONFIG_REASONS = ("CreateContainerConfigError", "CreateContainerError")
_VOLUME_REASONS = ("FailedMount", "FailedAttachVolume")
_MAX_MESSAGE = 300
_CREATE_HINT = "check that its service account exists and that no quota is exceeded"


@dataclass(frozen=True, slots=True)
class Cause:
    """Why an object is not ready, and a hint."""

    object: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.object}: {self.message}"


class PendingCause(Cause):
    """Nothing has failed: the object needs more time, or an event has the cause."""


def _not_ready(_pod: Object) -> str:
    return "running but not ready yet"


def explain(
    pods: Iterable[Object], jobs: Iterable[Object], events: Iterable[Object], *, not_ready: Callable[[Object], str] = _not_ready
) -> list[Cause]:
    """The causes, those that need no action last. A cause that several pods share is listed once.

    `not_ready` describes a pod that runs but is not ready.
    """
    warnings, active = list(events), [pod for pod in pods if not _is_finished(pod)]
    failures, maybe_recovered = _create_failures(warnings, [str(pod["metadata"]["name"]) for pod in active])
    causes = [*_job_failures(jobs, active), *(cause for pod in active for cause in _pod_failures(pod)), *failures]
    causes += [cause for pod in active if not any(_pod_failures(pod)) for cause in _pending_causes(pod, warnings, not_ready)]
    by_message: dict[str, Cause] = {}
    for cause in (*causes, *maybe_recovered):
        by_message.setdefault(cause.message, cause)
    return list(by_message.values())


def _is_finished(pod: Object) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp") or (pod.get("status") or {}).get("phase") == "Succeeded")


def _pod_failures(pod: Object) -> Iterator[Cause]:
    status, name = pod.get("status") or {}, f"pod/{pod['metadata']['name']}"
    scheduled = find_condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        yield Cause(name, f"unschedulable: {scheduled.get('message', '')}", _scheduling_hint(pod))
        return
    for container in container_statuses(pod):
        if (cause := _container_failure(pod, name, container)) is not None:
            yield cause
    if status.get("reason"):
        yield Cause(name, f"{status['reason']}: {status.get('message', '')}")


def container_statuses(pod: Object) -> list[Object]:
    """The statuses of all containers of a pod, init containers first."""
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _container_failure(pod: Object, pod_name: str, status: Object) -> Cause | None:
    waiting = (status.get("state") or {}).get("waiting") or {}
    terminated = (status.get("state") or {}).get("terminated") or (status.get("lastState") or {}).get("terminated") or {}
    reason, name = waiting.get("reason", ""), status["name"]
    if reason in _IMAGE_REASONS:
        message = f"cannot pull image {status.get('image', '')}: {waiting.get('message', reason)}"
        return Cause(pod_name, message, "check the image name, and that the nodes may read the registry")
    if reason in _CONFIG_REASONS:
        message = f"container {name} cannot start: {waiting.get('message', reason)}"
        return Cause(pod_name, message, "check that the Secret or ConfigMap exists")
    if terminated.get("reason") == "OOMKilled":
        return Cause(pod_name, f"container {name} exceeded its memory limit", "raise its memory limit, or use a larger machine")
    if terminated and (reason == "CrashLoopBackOff" or terminated.get("exitCode")):
        output = _last_line(str(terminated.get("message", "")))
        message = f"container {name} exited with code {terminated.get('exitCode')}{f': {output}' if output else ''}"
        return Cause(pod_name, message, f"{_logs_command(pod_name, pod)} -c {name} --previous")
    return None


def _last_line(message: str) -> str:
    """The last line of a container's output, without the hint that ends errors of Sliceworks."""
    lines = [line for line in message.strip().split("\n") if not line.startswith("hint: ")]
    return lines[-1][:_MAX_MESSAGE] if lines else ""


def _logs_command(name: str, obj: Object) -> str:
    namespace = obj["metadata"].get("namespace")
    return f"kubectl logs {name}{f' -n {namespace}' if namespace else ''}"


def _pending_causes(pod: Object, events: list[Object], not_ready: Callable[[Object], str]) -> Iterator[Cause]:
    """Why a pod without failures is not ready: its probe fails, or it waits for a volume or its image."""
    if find_condition(pod, "Ready").get("status") != "False":
        return
    name = f"pod/{pod['metadata']['name']}"
    messages = {event.get("reason"): str(event.get("message", "")) for event in events if _is_about(event, pod)}
    states = [container.get("state") or {} for container in container_statuses(pod)]
    waiting = next((state["waiting"] for state in states if state.get("waiting")), None)
    volume = next((messages[reason] for reason in _VOLUME_REASONS if reason in messages), "")
    if "Unhealthy" in messages:
        yield Cause(name, messages["Unhealthy"], _logs_command(name, pod))
    elif waiting and volume:
        yield Cause(name, volume, "check that the Secret, ConfigMap or volume exists")
    elif waiting:
        yield PendingCause(name, f"starting ({waiting.get('reason', 'waiting')})")
    else:
        yield PendingCause(name, not_ready(pod))


def _scheduling_hint(pod: Object) -> str:
    selector = pod["spec"].get("nodeSelector") or {}
    if pool := selector.get(labels.NODE_POOL):
        return f"check that the node pool {pool} exists and has free capacity"
    if shape := selector.get(labels.TPU_TOPOLOGY) or selector.get(labels.GPU_ACCELERATOR):
        return f"check that a node pool of {shape} is free; `sliceworks slices list` shows TPU slices"
    return "check that the cluster has nodes with free capacity"


def _job_failures(jobs: Iterable[Object], pods: list[Object]) -> Iterator[Cause]:
    """Failed Jobs, each with the failure of one of its pods."""
    for job in jobs:
        if is_condition_true(job, "Failed"):
            name, failed = f"job/{job['metadata']['name']}", find_condition(job, "Failed")
            own = [pod for pod in pods if _is_owned_by(pod, job)]
            details = [cause.message for pod in own for cause in _pod_failures(pod)][:1]
            message = ": ".join(["failed", failed.get("message") or failed.get("reason", ""), *details])
            yield Cause(name, message, _logs_command(name, job))


def _is_owned_by(pod: Object, owner: Object) -> bool:
    return any(reference["uid"] == owner["metadata"].get("uid") for reference in pod["metadata"].get("ownerReferences") or ())


def _create_failures(events: list[Object], pods: list[str]) -> tuple[list[Cause], list[Cause]]:
    """Pods that could not be created, by the latest event of each workload; separately those of workloads that have pods now."""
    latest: dict[str, Cause] = {}
    for event in events:
        if event.get("reason") == "FailedCreate":
            involved = event.get("involvedObject") or {}
            name = f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}"
            latest[name] = Cause(name, str(event.get("message", "")), _CREATE_HINT)
    recovered = {name for name in latest if any(pod.startswith(f"{name.partition('/')[2]}-") for pod in pods)}
    return (
        [cause for name, cause in latest.items() if name not in recovered],
        [cause for name, cause in latest.items() if name in recovered],
    )


def _is_about(event: Object, obj: Object) -> bool:
    return bool((event.get("involvedObject") or {}).get("uid") == obj["metadata"].get("uid"))
