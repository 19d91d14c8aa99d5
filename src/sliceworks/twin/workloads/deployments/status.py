"""The status of a Deployment: what its ReplicaSets have, and how its rollout goes. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.twin.workloads.deployments import numbers
from sliceworks.twin.workloads.jobs.backoff import moment

if TYPE_CHECKING:
    from datetime import datetime

Obj = dict[str, Any]
_NEVER = (1 << 31) - 1


def condition(kind: str, status: str, reason: str, message: str) -> Obj:
    """A condition that has just come about."""
    now = clock.timestamp()
    times = {"lastUpdateTime": now, "lastTransitionTime": now}
    return {"type": kind, "status": status, **times, "reason": reason, "message": message}


def find(status: Obj, kind: str) -> Obj | None:
    return next((each for each in status.get("conditions") or () if each["type"] == kind), None)


def put(status: Obj, wanted: Obj) -> None:
    """Bring a condition into a status: at the end, unless it already says the same for the same reason."""
    current = find(status, wanted["type"])
    if current is not None and (current["status"], current.get("reason")) == (wanted["status"], wanted["reason"]):
        return
    if current is not None and current["status"] == wanted["status"]:
        wanted = {**wanted, "lastTransitionTime": current["lastTransitionTime"]}
    drop(status, wanted["type"])
    status["conditions"] = [*(status.get("conditions") or ()), wanted]


def drop(status: Obj, kind: str) -> None:
    left = [each for each in status.get("conditions") or () if each["type"] != kind]
    if left:
        status["conditions"] = left
    else:
        status.pop("conditions", None)


def has_deadline(deployment: Obj) -> bool:
    return bool(deployment["spec"].get("progressDeadlineSeconds", _NEVER) != _NEVER)


def counted(deployment: Obj, sets: list[Obj | None], newest: Obj | None) -> Obj:
    """The status by the numbers of the ReplicaSets."""
    available, old = numbers.total(sets, "availableReplicas"), deployment.get("status") or {}
    counts = {
        "observedGeneration": deployment["metadata"].get("generation", 0),
        "replicas": numbers.total(sets, "replicas"),
        "updatedReplicas": numbers.state(newest, "replicas"),
        "readyReplicas": numbers.total(sets, "readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(0, numbers.total_wanted(sets) - available),
    }
    status: Obj = {name: count for name, count in counts.items() if count}
    status["terminatingReplicas"] = numbers.total(sets, "terminatingReplicas")
    for name in ("collisionCount", "conditions"):
        if old.get(name) is not None:
            status[name] = old[name]
    if available >= numbers.wanted(deployment) - numbers.limits(deployment)[1]:
        put(status, condition("Available", "True", "MinimumReplicasAvailable", "Deployment has minimum availability."))
    else:
        message = "Deployment does not have minimum availability."
        put(status, condition("Available", "False", "MinimumReplicasUnavailable", message))
    return status


def rolled(deployment: Obj, sets: list[Obj | None], newest: Obj | None, now: datetime) -> Obj:
    """The status in a rollout: with its progress, and with what keeps ReplicaSets from making pods."""
    status, old = counted(deployment, sets, newest), deployment.get("status") or {}
    current = find(old, "Progressing")
    if not has_deadline(deployment):
        drop(status, "Progressing")
    elif not _is_settled(status, current):
        _put_progress(deployment, status, current, newest, now)
    failure = _failure([newest, *sets])
    if failure is not None:
        put(status, failure)
    else:
        drop(status, "ReplicaFailure")
    return status


def _is_settled(status: Obj, current: Obj | None) -> bool:
    all_new = status.get("replicas", 0) == status.get("updatedReplicas", 0)
    return all_new and current is not None and current.get("reason") == "NewReplicaSetAvailable"


def _put_progress(deployment: Obj, status: Obj, current: Obj | None, newest: Obj | None, now: datetime) -> None:
    name = deployment["metadata"]["name"]
    who = f'Deployment "{name}"' if newest is None else f'ReplicaSet "{newest["metadata"]["name"]}"'
    if is_complete(deployment, status):
        put(status, condition("Progressing", "True", "NewReplicaSetAvailable", f"{who} has successfully progressed."))
    elif _is_progress(deployment.get("status") or {}, status):
        found = condition("Progressing", "True", "ReplicaSetUpdated", f"{who} is progressing.")
        if current is not None and current["status"] == "True":
            found["lastTransitionTime"] = current["lastTransitionTime"]
        drop(status, "Progressing")
        put(status, found)
    elif _is_late(deployment, status, now):
        put(status, condition("Progressing", "False", "ProgressDeadlineExceeded", f"{who} has timed out progressing."))


def is_complete(deployment: Obj, status: Obj) -> bool:
    """Whether all pods are of the newest template and available, and no others are left."""
    replicas = numbers.wanted(deployment)
    seen = status.get("observedGeneration", 0) >= deployment["metadata"].get("generation", 0)
    return seen and all(status.get(name, 0) == replicas for name in ("updatedReplicas", "replicas", "availableReplicas"))


def _is_progress(old: Obj, new: Obj) -> bool:
    def outdated(status: Obj) -> int:
        return int(status.get("replicas", 0) - status.get("updatedReplicas", 0))

    more = any(new.get(name, 0) > old.get(name, 0) for name in ("updatedReplicas", "readyReplicas", "availableReplicas"))
    return more or outdated(new) < outdated(old)


def _is_late(deployment: Obj, status: Obj, now: datetime) -> bool:
    current = find(status, "Progressing")
    if current is None or current.get("reason") == "NewReplicaSetAvailable":
        return False
    if current.get("reason") == "ProgressDeadlineExceeded":
        return True
    return _age(current, now) > float(deployment["spec"]["progressDeadlineSeconds"])


def _age(current: Obj, now: datetime) -> float:
    return (now - moment(current["lastUpdateTime"])).total_seconds()


def next_look(deployment: Obj, status: Obj, now: datetime) -> float | None:
    """Seconds until a rollout that does not move is late; None when it cannot be."""
    current = find(status, "Progressing")
    if not has_deadline(deployment) or current is None or current.get("reason") == "ProgressDeadlineExceeded":
        return None
    if is_complete(deployment, status):
        return None
    return max(1.0, float(deployment["spec"]["progressDeadlineSeconds"]) - _age(current, now) + 1)


def _failure(sets: list[Obj | None]) -> Obj | None:
    for each in sets:
        for found in ((each or {}).get("status") or {}).get("conditions") or ():
            if found["type"] == "ReplicaFailure":
                return {**found, "lastUpdateTime": found["lastTransitionTime"]}
    return None
