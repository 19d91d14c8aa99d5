"""The status of a Deployment: replica counts, conditions and the progress deadline. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.conditions import find_condition
from sliceworks.twin.controllers.builtin import deployment_rollout
from sliceworks.twin.controllers.builtin.pod_control import parse_time

if TYPE_CHECKING:
    from datetime import datetime

    from sliceworks.kube.resources import Object

_NO_DEADLINE = (1 << 31) - 1


def new_condition(kind: str, status: str, reason: str, message: str) -> Object:
    """A condition with the times of a new one."""
    now = clock.timestamp()
    times = {"lastUpdateTime": now, "lastTransitionTime": now}
    return {"type": kind, "status": status, **times, "reason": reason, "message": message}


def progressing_condition(status: Object) -> Object:
    """The Progressing condition of a status; empty if there is none."""
    return find_condition({"status": status}, "Progressing")


def set_condition(status: Object, condition: Object) -> None:
    """Append a condition, replacing an older one, unless that has the same status and reason."""
    current = find_condition({"status": status}, condition["type"])
    if (current.get("status"), current.get("reason")) == (condition["status"], condition["reason"]):
        return
    if current.get("status") == condition["status"]:
        condition = {**condition, "lastTransitionTime": current["lastTransitionTime"]}
    _remove_condition(status, condition["type"])
    status["conditions"] = [*(status.get("conditions") or ()), condition]


def _remove_condition(status: Object, kind: str) -> None:
    remaining = [condition for condition in status.get("conditions") or () if condition["type"] != kind]
    if remaining:
        status["conditions"] = remaining
    else:
        status.pop("conditions", None)


def has_deadline(deployment: Object) -> bool:
    return bool(deployment["spec"].get("progressDeadlineSeconds", _NO_DEADLINE) != _NO_DEADLINE)


def compute_status(deployment: Object, sets: list[Object | None], new_set: Object | None) -> Object:
    """The status with the counts of the ReplicaSets and the Available condition."""
    available, old = deployment_rollout.total_status_count(sets, "availableReplicas"), deployment.get("status") or {}
    counts = {
        "observedGeneration": deployment["metadata"].get("generation", 0),
        "replicas": deployment_rollout.total_status_count(sets, "replicas"),
        "updatedReplicas": deployment_rollout.status_count(new_set, "replicas"),
        "readyReplicas": deployment_rollout.total_status_count(sets, "readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(0, deployment_rollout.total_desired(sets) - available),
    }
    status: Object = {name: count for name, count in counts.items() if count}
    status["terminatingReplicas"] = deployment_rollout.total_status_count(sets, "terminatingReplicas")
    for name in ("collisionCount", "conditions"):
        if old.get(name) is not None:
            status[name] = old[name]
    if available >= deployment_rollout.desired_replicas(deployment) - deployment_rollout.surge_and_unavailable(deployment)[1]:
        set_condition(
            status, new_condition("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
        )
    else:
        message = "Deployment does not have minimum availability."
        set_condition(status, new_condition("Available", "False", "MinimumReplicasUnavailable", message))
    return status


def compute_rollout_status(deployment: Object, sets: list[Object | None], new_set: Object | None, now: datetime) -> Object:
    """The status during a rollout, with the Progressing and ReplicaFailure conditions."""
    status, old = compute_status(deployment, sets, new_set), deployment.get("status") or {}
    current = progressing_condition(old)
    if not has_deadline(deployment):
        _remove_condition(status, "Progressing")
    elif not _is_rolled_out(status, current):
        _set_progressing(deployment, status, current, new_set, now)
    failure = _find_failure([new_set, *sets])
    if failure is not None:
        set_condition(status, failure)
    else:
        _remove_condition(status, "ReplicaFailure")
    return status


def _is_rolled_out(status: Object, current: Object) -> bool:
    all_new = status.get("replicas", 0) == status.get("updatedReplicas", 0)
    return all_new and current.get("reason") == "NewReplicaSetAvailable"


def _set_progressing(deployment: Object, status: Object, current: Object, new_set: Object | None, now: datetime) -> None:
    name = deployment["metadata"]["name"]
    subject = f'Deployment "{name}"' if new_set is None else f'ReplicaSet "{new_set["metadata"]["name"]}"'
    if is_complete(deployment, status):
        set_condition(
            status, new_condition("Progressing", "True", "NewReplicaSetAvailable", f"{subject} has successfully progressed.")
        )
    elif _has_progressed(deployment.get("status") or {}, status):
        condition = new_condition("Progressing", "True", "ReplicaSetUpdated", f"{subject} is progressing.")
        if current.get("status") == "True":
            condition["lastTransitionTime"] = current["lastTransitionTime"]
        _remove_condition(status, "Progressing")
        set_condition(status, condition)
    elif _is_deadline_exceeded(deployment, status, now):
        set_condition(
            status, new_condition("Progressing", "False", "ProgressDeadlineExceeded", f"{subject} has timed out progressing.")
        )


def is_complete(deployment: Object, status: Object) -> bool:
    """Whether all pods have the current template and are available, and no old pods remain."""
    replicas = deployment_rollout.desired_replicas(deployment)
    seen = status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
    return seen and all(status.get(name, 0) == replicas for name in ("updatedReplicas", "replicas", "availableReplicas"))


def _has_progressed(old: Object, new: Object) -> bool:
    def outdated(status: Object) -> int:
        return int(status.get("replicas", 0) - status.get("updatedReplicas", 0))

    more = any(new.get(name, 0) > old.get(name, 0) for name in ("updatedReplicas", "readyReplicas", "availableReplicas"))
    return more or outdated(new) < outdated(old)


def _is_deadline_exceeded(deployment: Object, status: Object, now: datetime) -> bool:
    current = progressing_condition(status)
    if not current or current.get("reason") == "NewReplicaSetAvailable":
        return False
    if current.get("reason") == "ProgressDeadlineExceeded":
        return True
    return _age(current, now) > float(deployment["spec"]["progressDeadlineSeconds"])


def _age(current: Object, now: datetime) -> float:
    return (now - parse_time(current["lastUpdateTime"])).total_seconds()


def seconds_to_deadline(deployment: Object, status: Object, now: datetime) -> float | None:
    """Seconds until a rollout without progress exceeds its deadline; None if it cannot."""
    current = progressing_condition(status)
    if not has_deadline(deployment) or not current or current.get("reason") == "ProgressDeadlineExceeded":
        return None
    if is_complete(deployment, status):
        return None
    return max(1.0, float(deployment["spec"]["progressDeadlineSeconds"]) - _age(current, now) + 1)


def _find_failure(sets: list[Object | None]) -> Object | None:
    for replica_set in sets:
        if condition := find_condition(replica_set, "ReplicaFailure"):
            return {**condition, "lastUpdateTime": condition["lastTransitionTime"]}
    return None
