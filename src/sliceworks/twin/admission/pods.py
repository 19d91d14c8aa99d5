"""What else changes a pod on its way in: tolerations for failing nodes, and what its RuntimeClass asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.admission.context import Admission, Obj

_FAILING = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_SECONDS = 300


def toleration_seconds(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """DefaultTolerationSeconds: stay five minutes on a node that fails, unless the pod says otherwise."""
    spec = obj.setdefault("spec", {})
    given = spec.get("tolerations") or []
    covered = {each.get("key", "") for each in given if each.get("effect", "") in {"", "NoExecute"}}
    if "" in covered:
        return
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _SECONDS}
        for key in _FAILING
        if key not in covered
    ]
    if added:
        spec["tolerations"] = [*given, *added]


def runtime_class(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """RuntimeClass: overhead, node selector and tolerations of the class a pod names."""
    spec = obj.setdefault("spec", {})
    name = spec.get("runtimeClassName")
    found = ctx.get("node.k8s.io/runtimeclasses", "", name) if name is not None else None
    if name is not None and found is None:
        raise ctx.forbidden(obj, f'pod rejected: RuntimeClass "{name}" not found')
    overhead = ((found or {}).get("overhead") or {}).get("podFixed")
    if overhead is None and spec.get("overhead") is not None:
        raise ctx.forbidden(obj, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
    if overhead is not None:
        if spec.get("overhead") and spec["overhead"] != overhead:
            raise ctx.forbidden(obj, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
        spec["overhead"] = dict(overhead)
    if found is not None and found.get("scheduling"):
        _schedule(ctx, obj, found["scheduling"])


def _schedule(ctx: Admission, obj: Obj, scheduling: Mapping[str, Any]) -> None:
    spec = obj["spec"]
    wanted = scheduling.get("nodeSelector") or {}
    own = spec.get("nodeSelector") or {}
    for key, value in wanted.items():
        if own.get(key, value) != value:
            left, right = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}", f"pod.spec.nodeSelector[{key}] = {own[key]}"
            raise ctx.forbidden(obj, f"conflict: {left}; {right}")
    if wanted:
        spec["nodeSelector"] = {**own, **wanted}
    tolerations = spec.get("tolerations") or []
    extra = [each for each in scheduling.get("tolerations") or () if each not in tolerations]
    if extra:
        spec["tolerations"] = [*tolerations, *extra]


def taint_new_node(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """TaintNodesByCondition: a new node is not ready until somebody says that it is."""
    spec = obj.setdefault("spec", {})
    taints = spec.get("taints") or []
    if not any(taint.get("key") == _FAILING[0] and taint.get("effect") == "NoSchedule" for taint in taints):
        spec["taints"] = [*taints, {"key": _FAILING[0], "effect": "NoSchedule"}]
