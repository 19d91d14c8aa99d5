"""Priority: a pod's number comes from its class, and only one class may be the default."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.admission.context import CREATE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.admission.context import Admission, Obj

CLASSES = "scheduling.k8s.io/priorityclasses"
_PREEMPT = "PreemptLowerPriority"
_CRITICAL = 2_000_000_000
_COMPUTED = "must not be provided in pod spec; priority admission controller computed"


def pod_priority(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    spec = obj.setdefault("spec", {})
    if ctx.operation != CREATE:
        before = (old or {}).get("spec") or {}
        for key in ("priority", "preemptionPolicy"):
            if spec.get(key) is None and before.get(key) is not None:
                spec[key] = before[key]
        return
    value, policy = _resolve(ctx, obj, spec)
    given = spec.get("priority")
    if given is not None and given != value:
        why = f"the integer value of priority ({given}) {_COMPUTED} {value} from the given PriorityClass name"
        raise ctx.forbidden(obj, why)
    spec["priority"] = value
    if policy is None:
        return
    given = spec.get("preemptionPolicy")
    if given is not None and given != policy:
        why = f"the string value of PreemptionPolicy ({given}) {_COMPUTED} {policy} from the given PriorityClass name"
        raise ctx.forbidden(obj, why)
    spec["preemptionPolicy"] = policy


def _resolve(ctx: Admission, obj: Obj, spec: Obj) -> tuple[int, str | None]:
    name = spec.get("priorityClassName")
    if name:
        found = ctx.get(CLASSES, "", name)
        if found is None:
            raise ctx.forbidden(obj, f"no PriorityClass with name {name} was found")
    else:
        found = default_class(ctx)
        if found is None:
            return 0, _PREEMPT
        spec["priorityClassName"] = found["metadata"]["name"]
    return int(found.get("value", 0)), found.get("preemptionPolicy")


def default_class(ctx: Admission) -> Mapping[str, Any] | None:
    """The default class; of several, which a race may leave, the lowest."""
    marked = [each for each in ctx.find_all(CLASSES, "") if each.get("globalDefault")]
    return min(marked, key=lambda each: int(each.get("value", 0))) if marked else None


def one_default(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    if not obj.get("globalDefault"):
        return
    found = default_class(ctx)
    if found is not None and (ctx.operation == CREATE or found["metadata"]["name"] != obj["metadata"]["name"]):
        name = found["metadata"]["name"]
        raise ctx.forbidden(obj, f"PriorityClass {name} is already marked as default. Only one default can exist")


def system_classes() -> list[Obj]:
    """The classes that every cluster starts with."""
    texts = {
        "system-node-critical": (
            _CRITICAL + 1000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
        "system-cluster-critical": (
            _CRITICAL,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
    }
    return [
        {
            "kind": "PriorityClass",
            "apiVersion": "scheduling.k8s.io/v1",
            "metadata": {"name": name, "generation": 1},
            "value": value,
            "description": text,
            "preemptionPolicy": _PREEMPT,
        }
        for name, (value, text) in texts.items()
    ]
