"""Computes the phase and conditions of a pod from its container statuses, as the kubelet does."""

from __future__ import annotations

from typing import Any, NamedTuple

from sliceworks.kube.pod_requests import is_sidecar
from sliceworks.twin.controllers.runtime.pod_index import FINISHED_PHASES
from sliceworks.twin.nodes.container_status import should_restart

Obj = dict[str, Any]
_KUBELET_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
_SANDBOX_REASONS = ("ImagePullBackOff", "InvalidImageName", "CreateContainerConfigError")


class Addresses(NamedTuple):
    """The IP of a pod's node and of the pod."""

    host: str
    pod: str


NO_ADDRESSES = Addresses("", "")


def is_unobserved(pod: Obj) -> bool:
    """Whether the spec of a running pod has changed since its status was written."""
    observed = (pod.get("status") or {}).get("observedGeneration")
    return observed is not None and observed < pod["metadata"].get("generation", 0)


def compute_pod_status(
    pod: Obj,
    statuses: list[Obj],
    init: list[Obj],
    now: str,
    addresses: Addresses,
    *,
    final: bool = False,
    waits_for_sidecars: bool = False,
    overlay: Obj | None = None,
) -> Obj:
    """Compute the status of a pod.

    `final` says that no container is restarted, and `waits_for_sidecars` that the pod has not finished while one of them runs;
    `overlay` has fields with another cause than containers, such as an eviction.
    """
    old, spec = pod.get("status") or {}, pod["spec"]
    phase = (overlay or {}).get("phase") or _phase(spec, statuses, init, final=final, waits_for_sidecars=waits_for_sidecars)
    if old.get("phase") in FINISHED_PHASES:
        phase = old["phase"]
    has_sandbox = phase not in FINISHED_PHASES and any(map(_has_sandbox, (*statuses, *init)))
    status: Obj = {"phase": phase}
    if generation := pod["metadata"].get("generation"):
        status["observedGeneration"] = generation
    for name in ("reason", "message"):
        if value := (overlay or {}).get(name) or (old.get(name) if phase == old.get("phase") else None):
            status[name] = value
    status["conditions"] = _conditions(
        pod, statuses, init, phase, now, has_sandbox=has_sandbox, extra=(overlay or {}).get("conditions") or ()
    )
    if addresses.host:
        status |= {"hostIP": addresses.host, "hostIPs": [{"ip": addresses.host}]}
    address = (addresses.pod if has_sandbox else None) or old.get("podIP")
    if address:
        status |= {"podIP": address, "podIPs": [{"ip": address}]}
    status["startTime"] = old.get("startTime") or now
    if init:
        status["initContainerStatuses"] = init
    status["containerStatuses"] = statuses
    status["qosClass"] = old.get("qosClass", "BestEffort")
    return status


def _has_sandbox(container: Obj) -> bool:
    """Whether the sandbox existed before this status: it is created before images are pulled but reported afterwards."""
    return bool(container.get("containerID")) or (container["state"].get("waiting") or {}).get("reason") in _SANDBOX_REASONS


def _has_running_sidecar(spec: Obj, init: list[Obj]) -> bool:
    names = {container["name"] for container in spec.get("initContainers") or () if is_sidecar(container)}
    return any(status["name"] in names and "running" in status["state"] for status in init)


def _phase(spec: Obj, statuses: list[Obj], init: list[Obj], *, final: bool, waits_for_sidecars: bool) -> str:
    by_name = {status["name"]: status for status in (*init, *statuses)}
    if (init_phase := _init_phase(spec, by_name)) is not None:
        return init_phase
    running = int(waits_for_sidecars and _has_running_sidecar(spec, init))
    waiting = stopped = final_count = succeeded = 0
    for container in spec.get("containers") or ():
        status = by_name.get(container["name"])
        if status is None:
            return "Pending"
        state = status["state"]
        ended = state.get("terminated") or ("waiting" in state and status["lastState"].get("terminated"))
        if "running" in state:
            running += 1
        elif not ended:
            waiting += 1
        else:
            stopped += 1
            final_count += not should_restart(container, spec, ended["exitCode"])
            succeeded += "terminated" in state and ended["exitCode"] == 0
    if waiting:
        return "Pending"
    if running or (stopped != final_count and not final):
        return "Running"
    return "Succeeded" if stopped == succeeded else "Failed"


def _init_phase(spec: Obj, by_name: dict[str, Obj]) -> str | None:
    """Pending or Failed until all init containers have completed, then None."""
    for container in spec.get("initContainers") or ():
        status = by_name.get(container["name"])
        if status is None:
            return "Pending"
        state = status["state"]
        if is_sidecar(container):
            if "waiting" in state and not status["lastState"].get("terminated"):
                return "Pending"
            continue
        ended = state.get("terminated") or status["lastState"].get("terminated")
        if ended is None or "running" in state:
            return "Pending"
        if ended["exitCode"] != 0:
            return "Pending" if should_restart(container, spec, ended["exitCode"]) else "Failed"
    return None


def _conditions(
    pod: Obj, statuses: list[Obj], init: list[Obj], phase: str, now: str, *, has_sandbox: bool, extra: tuple[Obj, ...] | list[Obj]
) -> list[Obj]:
    old = {condition["type"]: condition for condition in (pod.get("status") or {}).get("conditions") or ()}
    others = {name: condition for name, condition in old.items() if name not in _KUBELET_CONDITIONS}
    for condition in extra:
        others[condition["type"]] = _condition(pod, old, now, **condition)
    conditions = list(others.values())
    conditions.append(_condition(pod, old, now, "PodReadyToStartContainers", "True" if has_sandbox else "False"))
    conditions.append(_condition(pod, old, now, "Initialized", *_initialized(pod["spec"], statuses, init, phase)))
    ready = _containers_ready(pod["spec"], statuses, init, phase)
    conditions.append(_condition(pod, old, now, "Ready", *(ready if ready[0] != "True" else _check_gates(pod, others))))
    conditions.append(_condition(pod, old, now, "ContainersReady", *ready))
    conditions.append(_condition(pod, old, now, "PodScheduled", "True"))
    return conditions


def _condition(  # noqa: PLR0917 - the last four are a condition
    pod: Obj,
    old: dict[str, Obj],
    now: str,
    type: str,  # noqa: A002 - the field's own name
    status: str,
    reason: str = "",
    message: str = "",
) -> Obj:
    before = old.get(type)
    transition = before["lastTransitionTime"] if before and before["status"] == status else now
    condition: Obj = {"type": type, "status": status, "lastProbeTime": None, "lastTransitionTime": transition or now}
    if generation := pod["metadata"].get("generation"):
        condition["observedGeneration"] = generation
    if reason:
        condition["reason"] = reason
    if message:
        condition["message"] = message
    return condition


def _initialized(spec: Obj, statuses: list[Obj], init: list[Obj], phase: str) -> tuple[str, str, str]:
    if phase == "Succeeded":
        return "True", "PodCompleted", ""
    if any(status["state"].get("running") or status["state"].get("terminated") for status in statuses):
        return "True", "", ""
    by_name = {status["name"]: status for status in init}
    missing = [
        container["name"]
        for container in spec.get("initContainers") or ()
        if not by_name[container["name"]]["started" if is_sidecar(container) else "ready"]
    ]
    if missing:
        return "False", "ContainersNotInitialized", f"containers with incomplete status: [{' '.join(missing)}]"
    return "True", "", ""


def _containers_ready(spec: Obj, statuses: list[Obj], init: list[Obj], phase: str) -> tuple[str, str, str]:
    if phase in FINISHED_PHASES:
        return "False", "PodCompleted" if phase == "Succeeded" else "PodFailed", ""
    sidecars = {container["name"] for container in spec.get("initContainers") or () if is_sidecar(container)}
    unready = [status["name"] for status in init if status["name"] in sidecars and not status["ready"]]
    unready += [status["name"] for status in statuses if not status["ready"]]
    if unready:
        return "False", "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]"
    return "True", "", ""


def _check_gates(pod: Obj, conditions: dict[str, Obj]) -> tuple[str, str, str]:
    unmet = []
    for gate in pod["spec"].get("readinessGates") or ():
        name = gate["conditionType"]
        condition = conditions.get(name)
        if condition is None:
            unmet.append(f'corresponding condition of pod readiness gate "{name}" does not exist.')
        elif condition["status"] != "True":
            unmet.append(f'the status of pod readiness gate "{name}" is not "True", but {condition["status"]}')
    return ("False", "ReadinessGatesNotReady", ", ".join(unmet)) if unmet else ("True", "", "")


def are_gates_met(pod: Obj) -> bool:
    """Whether all readiness gates of a pod are True."""
    return _check_gates(pod, {item["type"]: item for item in (pod.get("status") or {}).get("conditions") or ()})[0] == "True"
