"""DefaultTolerationSeconds, RuntimeClass, TaintNodesByCondition and ExtendedResourceToleration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.apiserver.admission.chain import CREATE, UPDATE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sliceworks.twin.apiserver.admission.chain import Admission, Obj, Webhooks

_FAILURE_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOLERATION_SECONDS = 300
_NATIVE_DOMAIN = "kubernetes.io/"


def default_toleration_seconds(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """DefaultTolerationSeconds: tolerate a failed node for five minutes, unless the pod has a toleration."""
    spec = obj.setdefault("spec", {})
    tolerations = spec.get("tolerations") or []
    covered = {item.get("key", "") for item in tolerations if item.get("effect", "") in {"", "NoExecute"}}
    if "" in covered:
        return
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATION_SECONDS}
        for key in _FAILURE_TAINTS
        if key not in covered
    ]
    if added:
        spec["tolerations"] = [*tolerations, *added]


def runtime_class(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """RuntimeClass: set overhead, node selector and tolerations from the class of a pod."""
    spec = obj.setdefault("spec", {})
    name = spec.get("runtimeClassName")
    runtime = ctx.get("node.k8s.io/runtimeclasses", "", name) if name is not None else None
    if name is not None and runtime is None:
        raise ctx.forbidden(obj, f'pod rejected: RuntimeClass "{name}" not found')
    overhead = ((runtime or {}).get("overhead") or {}).get("podFixed")
    if overhead is None and spec.get("overhead") is not None:
        raise ctx.forbidden(obj, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")
    if overhead is not None:
        if spec.get("overhead") and spec["overhead"] != overhead:
            raise ctx.forbidden(obj, "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
        spec["overhead"] = dict(overhead)
    if runtime is not None and runtime.get("scheduling"):
        _add_scheduling(ctx, obj, runtime["scheduling"])


def _add_scheduling(ctx: Admission, obj: Obj, scheduling: Mapping[str, Any]) -> None:
    spec = obj["spec"]
    class_selector = scheduling.get("nodeSelector") or {}
    pod_selector = spec.get("nodeSelector") or {}
    for key, value in class_selector.items():
        if pod_selector.get(key, value) != value:
            conflict = f"runtimeClass.scheduling.nodeSelector[{key}] = {value}; pod.spec.nodeSelector[{key}] = {pod_selector[key]}"
            raise ctx.forbidden(obj, f"conflict: {conflict}")
    if class_selector:
        spec["nodeSelector"] = {**pod_selector, **class_selector}
    tolerations = spec.get("tolerations") or []
    added = [item for item in scheduling.get("tolerations") or () if item not in tolerations]
    if added:
        spec["tolerations"] = [*tolerations, *added]


def taint_new_node(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """TaintNodesByCondition: taint a new node as not ready."""
    spec = obj.setdefault("spec", {})
    taints = spec.get("taints") or []
    if not any(taint.get("key") == _FAILURE_TAINTS[0] and taint.get("effect") == "NoSchedule" for taint in taints):
        spec["taints"] = [*taints, {"key": _FAILURE_TAINTS[0], "effect": "NoSchedule"}]


def install_extended_resource_toleration(webhooks: Webhooks, enabled: Callable[[], bool]) -> None:
    """Add the ExtendedResourceToleration plugin, which acts while `enabled()` is true."""

    def admit(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
        if enabled():
            add_extended_resource_tolerations(obj)

    for operation in (CREATE, UPDATE):
        webhooks.add_mutating("/pods", operation, admit)


def add_extended_resource_tolerations(pod: Obj) -> None:
    """Tolerate the taint of each extended resource that a pod requests, in the order of their names."""
    spec = pod.get("spec") or {}
    requested = {
        name
        for kind in ("containers", "initContainers")
        for container in spec.get(kind) or ()
        for name in (container.get("resources") or {}).get("requests") or ()
        if "/" in name and _NATIVE_DOMAIN not in name and not name.startswith("requests.")
    }
    tolerations = spec.get("tolerations") or []
    needed = ({"key": name, "operator": "Exists", "effect": "NoSchedule"} for name in sorted(requested))
    added = [item for item in needed if item not in tolerations]
    if added:
        spec["tolerations"] = [*tolerations, *added]
