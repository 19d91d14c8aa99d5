"""Horizontal pod autoscalers, in both versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import names, quantity
from sliceworks.schemas.field_errors import forbidden, invalid, not_supported, required
from sliceworks.schemas.rules.resources import container_resource_name
from sliceworks.schemas.rules.texts import NEGATIVE, Errors, label, named

if TYPE_CHECKING:
    from sliceworks.schemas.rules.shape import Json

_TYPES = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_POPULATE = "must populate information for the given metric source"
_SELECT = ("Disabled", "Max", "Min")
_LONGEST_WINDOW = 3600
_LONGEST_PERIOD = 1800
_EITHER = "must set either a target raw value or a target utilization"
_NOT_BOTH = "may not set both a target raw value and a target utilization"


def autoscaler_errors(obj: Json) -> Errors:
    out: Errors = []
    spec: Json = obj.get("spec") or {}
    least, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    if least is not None and least < 1:
        out.append(invalid("spec.minReplicas", least, "must be greater than or equal to 1"))
    if most < 1:
        out.append(invalid("spec.maxReplicas", most, "must be greater than 0"))
    if least is not None and most < least:
        out.append(invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`"))
    target = spec.get("scaleTargetRef") or {}
    # What was let in before may stay: only a new object must name the group of its target.
    is_new = not (obj.get("metadata") or {}).get("resourceVersion")
    _reference(out, target, "spec.scaleTargetRef", needs_group=is_new and target.get("kind") != "ReplicationController")
    metrics = spec.get("metrics") or []
    for index, metric in enumerate(metrics):
        _metric(out, metric, f"spec.metrics[{index}]")
    if least == 0 and not any(metric.get("type") in ("Object", "External") for metric in metrics):
        out.append(
            forbidden("spec.metrics", "must specify at least one Object or External metric to support scaling to zero replicas")
        )
    utilization = spec.get("targetCPUUtilizationPercentage")
    if utilization is not None and utilization < 1:
        out.append(invalid("spec.metrics[0].resource.target.averageUtilization", utilization, "must be greater than 0"))
    for side in ("scaleUp", "scaleDown"):
        if (rules := (spec.get("behavior") or {}).get(side)) is not None:
            _rules(out, rules, f"spec.behavior.{side}")
    return out


def _reference(out: Errors, reference: Json, path: str, *, needs_group: bool = False) -> None:
    for field in ("kind", "name"):
        if not reference.get(field):
            out.append(required(f"{path}.{field}"))
        else:
            named(out, reference[field], f"{path}.{field}", names.path_segment_errors)
    version = reference.get("apiVersion") or ""
    if version.count("/") > 1:
        out.append(invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}"))
    elif needs_group and "/" not in version:
        out.append(invalid(f"{path}.apiVersion", version, "apiVersion must specify API group"))


def _metric(out: Errors, metric: Json, path: str) -> None:
    kind = metric.get("type") or ""
    if not kind:
        out.append(required(f"{path}.type", "must specify a metric source type"))
    if kind not in _TYPES:
        out.append(not_supported(f"{path}.type", kind, tuple(_TYPES)))
    present = [field for field in ("object", "external", "pods", "resource", "containerResource") if metric.get(field) is not None]
    if present:
        _source(out, present[0], metric[present[0]], f"{path}.{present[0]}")
    expected = _TYPES.get(kind)
    if expected and metric.get(expected) is None:
        out.append(required(f"{path}.{expected}", _POPULATE))
    if len(present) != 1:
        for field in present:
            if field != expected:
                out.append(forbidden(f"{path}.{field}", "must populate the given metric source only"))


def _source(out: Errors, kind: str, source: Json, path: str) -> None:
    target = source.get("target") or {}
    if kind == "object":
        _reference(out, source.get("describedObject") or {}, f"{path}.describedObject")
    if kind in ("resource", "containerResource"):
        _resource_name(out, kind, source, path)
    else:
        _identifier(out, source.get("metric") or {}, f"{path}.metric")
    _target(out, target, f"{path}.target")
    value, average, utilization = target.get("value"), target.get("averageValue"), target.get("averageUtilization")
    if kind == "object" and value is None and average is None:
        out.append(required(f"{path}.target.averageValue", "must set either a target value or averageValue"))
    elif kind == "pods" and average is None:
        out.append(required(f"{path}.target.averageValue", "must specify a positive target averageValue"))
    elif kind == "external" and (value is None) == (average is None):
        if value is None:
            out.append(required(f"{path}.target.averageValue", "must set either a target value for metric or a per-pod target"))
        else:
            out.append(forbidden(f"{path}.target.value", "may not set both a target value for metric and a per-pod target"))
    elif kind in ("resource", "containerResource") and (utilization is None) == (average is None):
        if average is None:
            out.append(required(f"{path}.target.averageUtilization", _EITHER))
        else:
            out.append(forbidden(f"{path}.target.averageValue", _NOT_BOTH))


def _resource_name(out: Errors, kind: str, source: Json, path: str) -> None:
    if not source.get("name"):
        out.append(required(f"{path}.name", "must specify a resource name"))
    elif kind == "containerResource":
        container_resource_name(out, source["name"], f"{path}.name")
    if kind == "containerResource":
        if not source.get("container"):
            out.append(required(f"{path}.container", "must specify a container"))
        else:
            label(out, source["container"], f"{path}.container")


def _identifier(out: Errors, metric: Json, path: str) -> None:
    if not metric.get("name"):
        out.append(required(f"{path}.name", "must specify a metric name"))
    else:
        named(out, metric["name"], f"{path}.name", names.path_segment_errors)


def _target(out: Errors, target: Json, path: str) -> None:
    kind = target.get("type") or ""
    if not kind:
        out.append(required(f"{path}.type", "must specify a metric target type"))
    if kind not in ("Utilization", "Value", "AverageValue"):
        out.append(invalid(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue"))
    for field in ("value", "averageValue"):
        if (found := target.get(field)) is not None and quantity.nanos(found) <= 0:
            out.append(invalid(f"{path}.{field}", found, "must be positive"))
    utilization = target.get("averageUtilization")
    if utilization is not None and utilization < 1:
        out.append(invalid(f"{path}.averageUtilization", utilization, "must be greater than 0"))


def _rules(out: Errors, rules: Json, path: str) -> None:
    window, select, policies = rules.get("stabilizationWindowSeconds"), rules.get("selectPolicy"), rules.get("policies") or []
    if window is not None and window < 0:
        out.append(invalid(f"{path}.stabilizationWindowSeconds", window, "must be greater than or equal to zero"))
    if window is not None and window > _LONGEST_WINDOW:
        out.append(invalid(f"{path}.stabilizationWindowSeconds", window, f"must be less than or equal to {_LONGEST_WINDOW}"))
    if select is not None and select not in _SELECT:
        out.append(not_supported(f"{path}.selectPolicy", select, _SELECT))
    if not policies:
        out.append(required(f"{path}.policies", "must specify at least one Policy"))
    for index, policy in enumerate(policies):
        _policy(out, policy, f"{path}.policies[{index}]")
    tolerance = rules.get("tolerance")
    if tolerance is not None and quantity.nanos(tolerance) < 0:
        out.append(invalid(f"{path}.tolerance", tolerance, NEGATIVE))


def _policy(out: Errors, policy: Json, path: str) -> None:
    if policy.get("type") not in ("Pods", "Percent"):
        out.append(not_supported(f"{path}.type", policy.get("type") or "", ("Percent", "Pods")))
    for field in ("value", "periodSeconds"):
        if (policy.get(field) or 0) <= 0:
            out.append(invalid(f"{path}.{field}", policy.get(field) or 0, "must be greater than zero"))
    if (policy.get("periodSeconds") or 0) > _LONGEST_PERIOD:
        out.append(invalid(f"{path}.periodSeconds", policy["periodSeconds"], f"must be less than or equal to {_LONGEST_PERIOD}"))
