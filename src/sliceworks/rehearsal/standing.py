"""How an object stands, in a few words: what a person would look for first in its status."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Object = dict[str, Any]


def standing(obj: Object) -> str:
    """`2/2 ready`, `Active`, `Established`; empty for objects that have no state."""
    status: Object = obj.get("status") or {}
    told = _BY_KIND.get(str(obj.get("kind")))
    if told is not None:
        return told(obj.get("spec") or {}, status)
    return str(status.get("phase") or ", ".join(held_conditions(obj)))


def held_conditions(obj: Object) -> list[str]:
    """The conditions that are true."""
    conditions = (obj.get("status") or {}).get("conditions") or []
    return [str(item.get("type")) for item in conditions if item.get("status") == "True"]


def _replicas(spec: Object, status: Object) -> str:
    return f"{status.get('readyReplicas') or 0}/{spec.get('replicas', 1)} ready"


def _job(spec: Object, status: Object) -> str:
    if spec.get("suspend"):
        return "suspended"
    ended = [name for name in held_conditions({"status": status}) if name in {"Complete", "Failed"}]
    return ended[0] if ended else f"{status.get('succeeded') or 0}/{spec.get('completions') or 1} succeeded"


def _quota(spec: Object, status: Object) -> str:
    used, hard = status.get("used") or {}, spec.get("hard") or {}
    return ", ".join(f"{name.removeprefix('requests.')} {used.get(name, 0)}/{most}" for name, most in hard.items())


def _node(_spec: Object, status: Object) -> str:
    return "Ready" if "Ready" in held_conditions({"status": status}) else "NotReady"


def _autoscaler(spec: Object, status: Object) -> str:
    limits = f"{spec.get('minReplicas', 1)} to {spec.get('maxReplicas')}"
    hindered = [str(each.get("reason")) for each in status.get("conditions") or () if _hinders(each)]
    return ", ".join([f"{status.get('currentReplicas') or 0} of {limits}", *hindered])


def _hinders(condition: Object) -> bool:
    return condition.get("type") in {"AbleToScale", "ScalingActive"} and condition.get("status") == "False"


def _budget(_spec: Object, status: Object) -> str:
    return f"{status.get('disruptionsAllowed') or 0} may go"


_BY_KIND: dict[str, Callable[[Object, Object], str]] = {
    "Deployment": _replicas,
    "HorizontalPodAutoscaler": _autoscaler,
    "Job": _job,
    "Node": _node,
    "PodDisruptionBudget": _budget,
    "ReplicaSet": _replicas,
    "ResourceQuota": _quota,
    "StatefulSet": _replicas,
}
