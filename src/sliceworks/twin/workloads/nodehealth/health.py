"""What the conditions of a node say, and the taints that follow from them. Pure."""

from __future__ import annotations

from typing import Any

from sliceworks.base.conditions import condition

Obj = dict[str, Any]
NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_TAINTS = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
_OWN = frozenset({*_TAINTS.values(), UNSCHEDULABLE})
_REPORTED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_LABELS = {"kubernetes.io/os": "beta.kubernetes.io/os", "kubernetes.io/arch": "beta.kubernetes.io/arch"}


def readiness(node: Obj) -> str:
    """The status of the Ready condition; nothing when there is none."""
    return str(condition(node, "Ready").get("status", ""))


def with_no_schedule(node: Obj, now: str) -> list[Obj]:
    """The taints of a node, with those that keep new pods away as its conditions ask for."""
    spec = node.get("spec") or {}
    wanted = [_TAINTS.get((each["type"], each["status"])) for each in (node.get("status") or {}).get("conditions") or ()]
    wanted += [UNSCHEDULABLE] if spec.get("unschedulable") else []
    taints: list[Obj] = spec.get("taints") or []
    left = [each for each in taints if each["effect"] != "NoSchedule" or each["key"] not in _OWN or each["key"] in wanted]
    there = {each["key"] for each in left if each["effect"] == "NoSchedule"}
    return left + [{"key": key, "effect": "NoSchedule", "timeAdded": now} for key in wanted if key and key not in there]


def with_no_execute(node: Obj, key: str, now: str) -> list[Obj]:
    """The taints of a node, with the one of these keys that drives pods away; with none when no key is given."""
    taints: list[Obj] = (node.get("spec") or {}).get("taints") or []
    left = [each for each in taints if each["effect"] != "NoExecute" or each["key"] not in {NOT_READY, UNREACHABLE} - {key}]
    if not key or any(each["effect"] == "NoExecute" and each["key"] == key for each in left):
        return left
    return [*left, {"key": key, "effect": "NoExecute", "timeAdded": now}]


def labels(node: Obj) -> Obj:
    """The older labels that a node lacks or has wrong."""
    there = node["metadata"].get("labels") or {}
    return {old: there[new] for new, old in _LABELS.items() if new in there and there.get(old) != there[new]}


def silenced(node: Obj, now: str) -> list[Obj]:
    """The conditions of a node that has not been heard of for too long."""
    conditions = [dict(each) for each in (node.get("status") or {}).get("conditions") or ()]
    for kind in _REPORTED:
        found = next((each for each in conditions if each["type"] == kind), None)
        if found is None:
            never = {"reason": "NodeStatusNeverUpdated", "message": "Kubelet never posted node status."}
            times = {"lastHeartbeatTime": node["metadata"]["creationTimestamp"], "lastTransitionTime": now}
            conditions.append({"type": kind, "status": "Unknown", **times, **never})
        elif found["status"] != "Unknown":
            silence = {"reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
            found.update({"status": "Unknown", "lastTransitionTime": now, **silence})
    return conditions


def zone(node: Obj) -> str:
    """The zone of a node, for counting how many of it are well."""
    there = node["metadata"].get("labels") or {}
    places = [there.get(f"topology.kubernetes.io/{name}", "") for name in ("region", "zone")]
    return ":".join(places)


def pace(total: int, unready: int) -> float:
    """How many nodes of a zone may lose their pods in a second: few, and fewer or none when most of the zone is unwell."""
    if unready == total or unready <= 2 or unready / total < 0.55:
        return 0.1
    return 0.01 if total > 50 else 0.0
