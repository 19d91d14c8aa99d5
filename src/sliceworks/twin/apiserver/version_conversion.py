"""Convert objects between the versions of a kind.

Custom resources change only their apiVersion (conversion strategy None), unless an installed system registers a conversion, or
their definition has a webhook (`conversion_webhook`).
Two built-in kinds convert fields: events (core and events.k8s.io serve the same objects) and HorizontalPodAutoscalers (v1 is v2
with one CPU metric).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from sliceworks import schemas
from sliceworks.schemas import builtins
from sliceworks.twin.apiserver.registry.resources import Conversion
from sliceworks.twin.store.entry import Entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.twin.apiserver.registry.resources import Resource

Obj = dict[str, Any]
T = TypeVar("T", list[Any], dict[str, Any])

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


class ConvertedEntry(Entry):
    """A stored object that a webhook has converted to the version that a call asks for."""

    __slots__ = ()


def from_storage(resource: Resource, obj: Obj, version: str) -> Obj:
    """A stored object in a served version; changes its argument."""
    conversion = _find(resource, version)
    return conversion.from_storage(obj) if conversion is not None else _set_version(resource, obj, version)


def to_storage(resource: Resource, obj: Obj) -> Obj:
    """An object of any version in the storage version; changes its argument."""
    conversion = _find(resource, str(obj["apiVersion"]).rpartition("/")[2])
    return conversion.to_storage(obj) if conversion is not None else _set_version(resource, obj, resource.storage_version)


def _find(resource: Resource, version: str) -> Conversion | None:
    return resource.strategy.conversions.get(version) or _registered.get((resource.key, version))


def _set_version(resource: Resource, obj: Obj, version: str) -> Obj:
    obj["apiVersion"] = resource.api_version(version)
    return obj


def _rename_fields(api_version: str, fields: dict[str, str]) -> Callable[[Obj], Obj]:
    def rename(obj: Obj) -> Obj:
        renamed = {fields.get(key, key): value for key, value in obj.items()}
        renamed["apiVersion"] = api_version
        return renamed

    return rename


_HPA_METRICS, _HPA_BEHAVIOR = "autoscaling.alpha.kubernetes.io/metrics", "autoscaling.alpha.kubernetes.io/behavior"


def _decode_annotation(annotations: dict[str, str], name: str, component: str, kind: type[T]) -> T | None:
    """Remove an annotation and return its value, an object or a list of objects; like Kubernetes, ignores one of another type."""
    schema = builtins.builtin_scheme().component(f"io.k8s.api.autoscaling.v2.{component}")
    try:
        value = orjson.loads(annotations.pop(name, "null"))
        for item in value if isinstance(value, list) else [value]:
            schemas.decode(schema, item, [])
    except (orjson.JSONDecodeError, schemas.TypeMismatch):
        return None
    return value if isinstance(value, kind) else None


def _hpa_to_v2(obj: Obj) -> Obj:
    obj["apiVersion"] = "autoscaling/v2"
    spec = obj.get("spec", {})
    annotations = obj["metadata"].get("annotations") or {}
    metrics = _decode_annotation(annotations, _HPA_METRICS, "MetricSpec", list) or []
    target = spec.pop("targetCPUUtilizationPercentage", None)
    if target is not None:
        metrics.insert(
            0, {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": target}}}
        )
    if metrics:
        spec["metrics"] = metrics
    behavior = _decode_annotation(annotations, _HPA_BEHAVIOR, "HorizontalPodAutoscalerBehavior", dict)
    if behavior:
        spec["behavior"] = behavior
    if "annotations" in obj["metadata"] and not annotations:
        del obj["metadata"]["annotations"]
    status = obj.get("status") or {}
    current = status.pop("currentCPUUtilizationPercentage", None)
    if current is not None:
        status["currentMetrics"] = [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": current}}}]
    return obj


def _hpa_to_v1(obj: Obj) -> Obj:
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


EVENTS_V1 = Conversion(_rename_fields("events.k8s.io/v1", _CORE_EVENT_FIELDS), _rename_fields("v1", _EVENT_FIELDS))
AUTOSCALER_V1 = Conversion(_hpa_to_v1, _hpa_to_v2)
_registered: dict[tuple[str, str], Conversion] = {}


def register_conversion(resource: str, version: str, *, shown: Callable[[Obj], Obj], stored: Callable[[Obj], Obj]) -> None:
    """Convert a version of an installed custom resource with these functions, which may change their argument."""
    _registered[resource, version] = Conversion(shown, stored)
