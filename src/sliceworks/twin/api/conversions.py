"""Objects between the versions of a kind.

Custom resources change only their apiVersion, as strategy None says. Built-in kinds with two faces are the events (core and
events.k8s.io show the same objects) and the HorizontalPodAutoscaler (v1 is v2 with one CPU metric).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.twin.api.resources import Resource

Obj = dict[str, Any]

_EVENT_FIELDS = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_CORE_EVENT_FIELDS = {core: new for new, core in _EVENT_FIELDS.items()}


def from_storage(resource: Resource, obj: Obj, version: str) -> Obj:
    """A stored object as a version of its resource shows it; the argument is used up."""
    special = _SHOWN.get((resource.key, version))
    return special(obj) if special is not None else _labelled(resource, obj, version)


def to_storage(resource: Resource, obj: Obj) -> Obj:
    """An object of any version as it is stored; the argument is used up."""
    special = _STORED.get((resource.key, str(obj["apiVersion"]).rpartition("/")[2]))
    return special(obj) if special is not None else _labelled(resource, obj, resource.storage_version)


def _labelled(resource: Resource, obj: Obj, version: str) -> Obj:
    obj["apiVersion"] = resource.api_version(version)
    return obj


def _renamed(api_version: str, fields: dict[str, str]) -> Callable[[Obj], Obj]:
    def rename(obj: Obj) -> Obj:
        renamed = {fields.get(key, key): value for key, value in obj.items()}
        renamed["apiVersion"] = api_version
        return renamed

    return rename


_HPA_METRICS, _HPA_BEHAVIOR = "autoscaling.alpha.kubernetes.io/metrics", "autoscaling.alpha.kubernetes.io/behavior"


def _hpa_to_v2(obj: Obj) -> Obj:
    import orjson

    obj["apiVersion"] = "autoscaling/v2"
    spec = obj.get("spec", {})
    annotations = obj["metadata"].get("annotations") or {}
    metrics = orjson.loads(annotations.pop(_HPA_METRICS, "[]"))
    target = spec.pop("targetCPUUtilizationPercentage", None)
    if target is not None:
        metrics.insert(
            0, {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": target}}}
        )
    if metrics:
        spec["metrics"] = metrics
    behavior = annotations.pop(_HPA_BEHAVIOR, None)
    if behavior:
        spec["behavior"] = orjson.loads(behavior)
    if "annotations" in obj["metadata"] and not annotations:
        del obj["metadata"]["annotations"]
    status = obj.get("status") or {}
    current = status.pop("currentCPUUtilizationPercentage", None)
    if current is not None:
        status["currentMetrics"] = [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": current}}}]
    return obj


def _hpa_to_v1(obj: Obj) -> Obj:
    import orjson

    obj["apiVersion"] = "autoscaling/v1"
    spec = obj.get("spec", {})
    others = []
    for metric in spec.pop("metrics", None) or ():
        resource = metric.get("resource") or {}
        target = resource.get("target") or {}
        if metric.get("type") == "Resource" and resource.get("name") == "cpu" and target.get("averageUtilization") is not None:
            spec["targetCPUUtilizationPercentage"] = target["averageUtilization"]
        else:
            others.append(metric)
    behavior = spec.pop("behavior", None)
    annotations = obj["metadata"].get("annotations") or {}
    if others:
        annotations[_HPA_METRICS] = orjson.dumps(others).decode()
    if behavior:
        annotations[_HPA_BEHAVIOR] = orjson.dumps(behavior).decode()
    if annotations:
        obj["metadata"]["annotations"] = annotations
    status = obj.get("status") or {}
    status.pop("conditions", None)
    for metric in status.pop("currentMetrics", None) or ():
        resource = metric.get("resource") or {}
        if resource.get("name") == "cpu":
            status["currentCPUUtilizationPercentage"] = (resource.get("current") or {}).get("averageUtilization")
    status.setdefault("currentReplicas", 0)
    return obj


_SHOWN: dict[tuple[str, str], Callable[[Obj], Obj]] = {
    ("events.k8s.io/events", "v1"): _renamed("events.k8s.io/v1", _CORE_EVENT_FIELDS),
    ("autoscaling/horizontalpodautoscalers", "v1"): _hpa_to_v1,
}
_STORED: dict[tuple[str, str], Callable[[Obj], Obj]] = {
    ("events.k8s.io/events", "v1"): _renamed("v1", _EVENT_FIELDS),
    ("autoscaling/horizontalpodautoscalers", "v1"): _hpa_to_v2,
}


def special(resource: str, version: str, *, shown: Callable[[Obj], Obj], stored: Callable[[Obj], Obj]) -> None:
    """Convert a version of an installed resource with these, which use their argument up, where more than its name differs."""
    _SHOWN[resource, version] = shown
    _STORED[resource, version] = stored
