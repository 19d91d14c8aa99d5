"""Causes in containers: cannot start, keep crashing, or terminated with an error. Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, duration
from sliceworks.base.conditions import find_condition, is_condition_true
from sliceworks.base.names import pluralize
from sliceworks.catalog.labels import JOBSET_NAME
from sliceworks.kube.pod_diagnosis import container_statuses
from sliceworks.training.diagnosis import cause_catalog
from sliceworks.training.diagnosis.model import field_reference

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from sliceworks.training.diagnosis.model import Cause, CauseKind, Evidence

Object = dict[str, Any]
# Reasons of waiting containers, as the kubelet names them.
_WAITING_REASONS: dict[str, CauseKind] = {
    "ErrImagePull": cause_catalog.IMAGE,
    "ImagePullBackOff": cause_catalog.IMAGE,
    "InvalidImageName": cause_catalog.IMAGE,
    "ErrImageNeverPull": cause_catalog.IMAGE,
    "RegistryUnavailable": cause_catalog.IMAGE,
    "ImageInspectError": cause_catalog.IMAGE,
    "CreateContainerConfigError": cause_catalog.CONFIG,
    "CreateContainerError": cause_catalog.CONFIG,
    "CrashLoopBackOff": cause_catalog.CRASH_LOOP,
}
_MOUNT_FAILURES = ("FailedMount", "FailedAttachVolume")
_OOM = "OOMKilled"
_DELETION_SECONDS = 15.0  # within which a kubelet reports that a pod has stopped, after its grace period
_START_SECONDS = 120.0  # within which a kubelet reports the containers of a new pod


def startup_failures(evidence: Evidence) -> Iterator[Cause]:
    """Why scheduled pods do not start: one cause for all pods with the same failure."""
    by_kind: dict[tuple[str, str], list[tuple[Object, Object]]] = defaultdict(list)
    for pod in evidence.pods:
        for status in container_statuses(pod):
            waiting = (status.get("state") or {}).get("waiting") or {}
            if kind := _WAITING_REASONS.get(waiting.get("reason", "")):
                by_kind[kind.name, status["name"]].append((pod, status))
    for failures in by_kind.values():
        yield _waiting_cause(failures)
    yield from _volumes(evidence)


def _waiting_cause(failures: list[tuple[Object, Object]]) -> Cause:
    pod, status = failures[0]
    waiting = status["state"]["waiting"]
    kind, count = _WAITING_REASONS[waiting["reason"]], pluralize(len(failures), "pod")
    where = field_reference(pod, f"status.containerStatuses[{status['name']}].state.waiting", "Pod")
    reported = f"{waiting['reason']}: {waiting['message']}" if waiting.get("message") else waiting["reason"]
    last = ((status.get("lastState") or {}).get("terminated")) or {}
    if kind is cause_catalog.CRASH_LOOP and last.get("reason") == _OOM:
        return _out_of_memory(pod, status, len(failures))
    if kind is cause_catalog.CRASH_LOOP:
        exit_code = f" with exit code {last['exitCode']}" if "exitCode" in last else ""
        restarts = int(status.get("restartCount") or 0)
        message = f"The container {status['name']} of {count} exits{exit_code} soon after it starts; restarts: {restarts}."
        return kind.cause(
            message, where, field_reference(pod, f"status.containerStatuses[{status['name']}].lastState", "Pod"), reported=reported
        )
    message = (
        f"{count} cannot pull {status.get('image', 'the image')}."
        if kind is cause_catalog.IMAGE
        else f"The container {status['name']} of {count} cannot be created."
    )
    return kind.cause(message, where, reported=reported)


def _out_of_memory(pod: Object, status: Object, count: int) -> Cause:
    name = status["name"]
    spec: Object = next((container for container in pod["spec"]["containers"] if container["name"] == name), {})
    limit = ((spec.get("resources") or {}).get("limits") or {}).get("memory")
    available = f"its limit is {limit}" if limit else "it has no limit, so its host ran out of memory"
    where = field_reference(pod, f"status.containerStatuses[{name}]", "Pod")
    message = f"The container {name} of {pluralize(count, 'pod')} was OOM-killed; {available}."
    return cause_catalog.MEMORY.cause(message, where, reported=_OOM)


def terminations(evidence: Evidence) -> Iterator[Cause]:
    """Why pods failed: out of memory, an exit code, or a lost host."""
    by_outcome: dict[str, list[tuple[Object, Object]]] = defaultdict(list)
    for pod in evidence.pods:
        if (pod.get("status") or {}).get("phase") != "Failed":
            continue
        if is_condition_true(pod, "DisruptionTarget"):
            by_outcome["lost"].append((pod, {}))
            continue
        for status in container_statuses(pod):
            terminated = (status.get("state") or {}).get("terminated") or {}
            if terminated.get("exitCode"):
                by_outcome["memory" if terminated.get("reason") == _OOM else str(terminated["exitCode"])].append((pod, status))
    for outcome, failures in by_outcome.items():
        yield _termination(outcome, failures)


def _termination(outcome: str, failures: list[tuple[Object, Object]]) -> Cause:
    pod, status = failures[0]
    count = pluralize(len(failures), "pod")
    if outcome == "lost":
        condition = find_condition(pod, "DisruptionTarget")
        message = f"{count} lost its host." if len(failures) == 1 else f"{count} lost their hosts."
        return cause_catalog.HOST_LOST.cause(
            message, field_reference(pod, "status.conditions[DisruptionTarget]", "Pod"), reported=condition.get("message", "")
        )
    if outcome == "memory":
        return _out_of_memory(pod, status, len(failures))
    where = field_reference(pod, f"status.containerStatuses[{status['name']}].state.terminated", "Pod")
    message = f"The container {status['name']} of {count} exited with code {outcome}."
    job = pod["metadata"]["labels"].get(JOBSET_NAME, "")
    remedy = f"`sliceworks train logs {job}` prints the output of {pod['metadata']['name']}"
    return cause_catalog.EXIT_CODE.cause(message, where, remedy=remedy, reported=status["state"]["terminated"].get("message", ""))


def _volumes(evidence: Evidence) -> Iterator[Cause]:
    for pod in evidence.pods:
        if pod["status"].get("phase") != "Pending":
            continue
        for event in evidence.events_of("Pod", pod["metadata"]["name"]):
            if event["reason"] in _MOUNT_FAILURES:
                reported = event.get("message", "")
                volumes = [volume for volume in pod["spec"].get("volumes") or () if volume["name"] in reported]
                kind = (
                    cause_catalog.CONFIG
                    if any("secret" in volume or "configMap" in volume for volume in volumes)
                    else cause_catalog.VOLUME
                )
                message = f"A volume of the pod {pod['metadata']['name']} cannot be mounted."
                yield kind.cause(message, field_reference(pod, f"events[{event['reason']}]", "Pod"), reported=reported)
                return


def unready(evidence: Evidence) -> Iterator[Cause]:
    """Pods that are running but not ready."""
    pods = [pod for pod in evidence.pods if pod["status"].get("phase") == "Running" and is_unready(pod)]
    if pods:
        ready = find_condition(pods[0], "Ready")
        yield cause_catalog.NOT_READY.cause(
            f"{'1 pod is' if len(pods) == 1 else f'{len(pods)} pods are'} running but not ready.",
            field_reference(pods[0], "status.conditions[Ready]", "Pod"),
            reported=ready.get("message", ""),
        )


def is_unready(pod: Object) -> bool:
    """Whether a pod is pending, or running but not ready."""
    phase = (pod.get("status") or {}).get("phase")
    return phase == "Pending" or (phase == "Running" and find_condition(pod, "Ready").get("status") == "False")


def unready_hosts(evidence: Evidence) -> Iterator[Cause]:
    """Hosts that are not ready, with pods that are not ready for this reason."""
    for name, node in evidence.hosts.items():
        ready = find_condition(node, "Ready")
        count = sum(pod["spec"].get("nodeName") == name and is_unready(pod) for pod in evidence.pods)
        if count and ready.get("status") != "True":
            yield cause_catalog.HOST_LOST.cause(
                f"The host {name} of {pluralize(count, 'pod')} is not ready since {ready.get('lastTransitionTime', '')}.",
                field_reference(node, "status.conditions[Ready]", "Node"),
                remedy="wait: Kubernetes deletes the pods of a host that stays unreachable, and the job restarts",
                reported=ready.get("message", ""),
            )


def is_deletion_overdue(pod: Object, now: datetime) -> bool:
    """Whether a pod exists although its grace period has ended."""
    due = clock.parse(pod["metadata"].get("deletionTimestamp"))
    return due is not None and (now - due).total_seconds() > _DELETION_SECONDS


def undeleted(evidence: Evidence) -> Iterator[Cause]:
    """Pods that still exist after their deletion: until their host reports that they stopped, their Job cannot end or restart."""
    if not evidence.undeleted:
        return
    pod, count = evidence.undeleted[0], len(evidence.undeleted)
    host, name = pod["spec"].get("nodeName", ""), pod["metadata"]["name"]
    more = f" and {pluralize(count - 1, 'other')}" if count > 1 else ""
    message = f"The deletion of the pod {name}{more} was due at {pod['metadata']['deletionTimestamp']}."
    sources = [field_reference(pod, "metadata.deletionTimestamp", "Pod")]
    if node := evidence.hosts.get(host):
        ready = find_condition(node, "Ready")
        if ready.get("status") != "True":
            message += f" Its host {host} is not ready since {ready.get('lastTransitionTime', '')}."
            sources.append(field_reference(node, "status.conditions[Ready]", "Node"))
    finalizers = ", ".join(pod["metadata"].get("finalizers") or ())
    yield cause_catalog.UNDELETED.cause(message + (f" It has the finalizers {finalizers}." if finalizers else ""), *sources)


def pending(evidence: Evidence) -> list[Object]:
    """The pods whose containers have not all started."""
    return [pod for pod in evidence.pods if pod["status"].get("phase") == "Pending"]


def not_started(evidence: Evidence) -> Iterator[Cause]:
    """Pods on a host that seems ready but has not even reported their containers."""
    for pod in evidence.pods:
        scheduled = find_condition(pod, "PodScheduled")
        since = clock.parse(scheduled.get("lastTransitionTime"))
        is_silent = pod["status"].get("phase") == "Pending" and not container_statuses(pod)
        if not is_silent or scheduled.get("status") != "True" or since is None:
            continue
        reported = [event for event in evidence.events_of("Pod", pod["metadata"]["name"]) if event.get("reason") != "Scheduled"]
        waited = (evidence.now - since).total_seconds()
        if waited > _START_SECONDS and not reported:
            host, name = pod["spec"].get("nodeName", ""), pod["metadata"]["name"]
            message = f"The host {host} has not reported the containers of the pod {name} for {duration.human(waited)}."
            yield cause_catalog.NOT_STARTED.cause(message, field_reference(pod, "status.containerStatuses", "Pod"))
            return


def starting(evidence: Evidence) -> Cause | None:
    """Containers that are being created, or whose images are being pulled."""
    pods = [pod for pod in pending(evidence) if pod["spec"].get("nodeName")]
    if not pods:
        return None
    event: Object = next(iter(evidence.events_of("Pod", pods[0]["metadata"]["name"])), {})
    where = field_reference(pods[0], "status.containerStatuses", "Pod")
    if event.get("reason") != "Pulling":
        return cause_catalog.STARTING.cause(f"The containers of {pluralize(len(pods), 'pod')} are being created.", where)
    message = f"The containers of {pluralize(len(pods), 'pod')} are being created; their image is being pulled."
    return cause_catalog.STARTING.cause(
        message, where, field_reference(pods[0], "events[Pulling]", "Pod"), reported=event.get("message", "")
    )
