"""Priority: the priority of a pod from its PriorityClass, and at most one global default."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.apiserver.admission.chain import CREATE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.apiserver.admission.chain import Admission, Obj

CLASSES = "scheduling.k8s.io/priorityclasses"
_PREEMPT = "PreemptLowerPriority"
_CRITICAL = 2_000_000_000
_COMPUTED = "must not be provided in pod spec; priority admission controller computed"


def pod_priority(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """Set the priority and preemption policy of a new pod from its PriorityClass; keep those of an old one."""
    spec = obj.setdefault("spec", {})
    if ctx.operation != CREATE:
        old_spec = (old or {}).get("spec") or {}
        for key in ("priority", "preemptionPolicy"):
            if spec.get(key) is None and old_spec.get(key) is not None:
                spec[key] = old_spec[key]
        return
    value, policy = _resolve(ctx, obj, spec)
    priority = spec.get("priority")
    if priority is not None and priority != value:
        reason = f"the integer value of priority ({priority}) {_COMPUTED} {value} from the given PriorityClass name"
        raise ctx.forbidden(obj, reason)
    spec["priority"] = value
    if policy is None:
        return
    given_policy = spec.get("preemptionPolicy")
    if given_policy is not None and given_policy != policy:
        reason = f"the string value of PreemptionPolicy ({given_policy}) {_COMPUTED} {policy} from the given PriorityClass name"
        raise ctx.forbidden(obj, reason)
    spec["preemptionPolicy"] = policy


def _resolve(ctx: Admission, obj: Obj, spec: Obj) -> tuple[int, str | None]:
    name = spec.get("priorityClassName")
    if name:
        priority_class = ctx.get(CLASSES, "", name)
        if priority_class is None:
            raise ctx.forbidden(obj, f"no PriorityClass with name {name} was found")
    else:
        priority_class = default_class(ctx)
        if priority_class is None:
            return 0, _PREEMPT
        spec["priorityClassName"] = priority_class["metadata"]["name"]
    return int(priority_class.get("value", 0)), priority_class.get("preemptionPolicy")


def default_class(ctx: Admission) -> Mapping[str, Any] | None:
    """The global default; the lowest one if a race left several."""
    defaults = [item for item in ctx.find_all(CLASSES, "") if item.get("globalDefault")]
    return min(defaults, key=lambda item: int(item.get("value", 0)), default=None)


def check_single_default(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """Reject a second global default."""
    if not obj.get("globalDefault"):
        return
    default = default_class(ctx)
    if default is not None and (ctx.operation == CREATE or default["metadata"]["name"] != obj["metadata"]["name"]):
        name = default["metadata"]["name"]
        raise ctx.forbidden(obj, f"PriorityClass {name} is already marked as default. Only one default can exist")


def system_classes() -> list[Obj]:
    """The PriorityClasses of a new cluster."""
    classes = {
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
            "description": description,
            "preemptionPolicy": _PREEMPT,
        }
        for name, (value, description) in classes.items()
    ]
