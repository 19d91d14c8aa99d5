"""HorizontalPodAutoscalers, v1 and v2."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import names, quantity
from sliceworks.schemas.field_errors import forbidden, invalid, not_supported, required
from sliceworks.twin.apiserver.validation.field_checks import NEGATIVE, Errors, check_dns_label, check_name
from sliceworks.twin.apiserver.validation.resource_requirements import check_container_resource_name

if TYPE_CHECKING:
    from sliceworks.twin.apiserver.validation.defaults import Json

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
    errors: Errors = []
    spec: Json = obj.get("spec") or {}
    least, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    if least is not None and least < 1:
        errors.append(invalid("spec.minReplicas", least, "must be greater than or equal to 1"))
    if most < 1:
        errors.append(invalid("spec.maxReplicas", most, "must be greater than 0"))
    if least is not None and most < least:
        errors.append(invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`"))
    target = spec.get("scaleTargetRef") or {}
    # Ratcheting: an existing object without the group of its target stays valid.
    is_new = not (obj.get("metadata") or {}).get("resourceVersion")
    _reference(errors, target, "spec.scaleTargetRef", needs_group=is_new and target.get("kind") != "ReplicationController")
    metrics = spec.get("metrics") or []
    for index, metric in enumerate(metrics):
        _metric(errors, metric, f"spec.metrics[{index}]")
    if least == 0 and not any(metric.get("type") in ("Object", "External") for metric in metrics):
        errors.append(
            forbidden("spec.metrics", "must specify at least one Object or External metric to support scaling to zero replicas")
        )
    utilization = spec.get("targetCPUUtilizationPercentage")
    if utilization is not None and utilization < 1:
        errors.append(invalid("spec.metrics[0].resource.target.averageUtilization", utilization, "must be greater than 0"))
    for side in ("scaleUp", "scaleDown"):
        if (rules := (spec.get("behavior") or {}).get(side)) is not None:
            _rules(errors, rules, f"spec.behavior.{side}")
    return errors


def _reference(errors: Errors, reference: Json, path: str, *, needs_group: bool = False) -> None:
    for field in ("kind", "name"):
        if not reference.get(field):
            errors.append(required(f"{path}.{field}"))
        else:
            check_name(errors, reference[field], f"{path}.{field}", names.path_segment_errors)
    version = reference.get("apiVersion") or ""
    if version.count("/") > 1:
        errors.append(invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}"))
    elif needs_group and "/" not in version:
        errors.append(invalid(f"{path}.apiVersion", version, "apiVersion must specify API group"))


def _metric(errors: Errors, metric: Json, path: str) -> None:
    kind = metric.get("type") or ""
    if not kind:
        errors.append(required(f"{path}.type", "must specify a metric source type"))
    if kind not in _TYPES:
        errors.append(not_supported(f"{path}.type", kind, tuple(_TYPES)))
    present = [field for field in ("object", "external", "pods", "resource", "containerResource") if metric.get(field) is not None]
    if present:
        _source(errors, present[0], metric[present[0]], f"{path}.{present[0]}")
    expected = _TYPES.get(kind)
    if expected and metric.get(expected) is None:
        errors.append(required(f"{path}.{expected}", _POPULATE))
    if len(present) != 1:
        for field in present:
            if field != expected:
                errors.append(forbidden(f"{path}.{field}", "must populate the given metric source only"))


def _source(errors: Errors, kind: str, source: Json, path: str) -> None:
    target = source.get("target") or {}
    if kind == "object":
        _reference(errors, source.get("describedObject") or {}, f"{path}.describedObject")
    if kind in ("resource", "containerResource"):
        _resource_name(errors, kind, source, path)
    else:
        _identifier(errors, source.get("metric") or {}, f"{path}.metric")
    _target(errors, target, f"{path}.target")
    value, average, utilization = target.get("value"), target.get("averageValue"), target.get("averageUtilization")
    if kind == "object" and value is None and average is None:
        errors.append(required(f"{path}.target.averageValue", "must set either a target value or averageValue"))
    elif kind == "pods" and average is None:
        errors.append(required(f"{path}.target.averageValue", "must specify a positive target averageValue"))
    elif kind == "external" and (value is None) == (average is None):
        if value is None:
            errors.append(required(f"{path}.target.averageValue", "must set either a target value for metric or a per-pod target"))
        else:
            errors.append(forbidden(f"{path}.target.value", "may not set both a target value for metric and a per-pod target"))
    elif kind in ("resource", "containerResource") and (utilization is None) == (average is None):
        if average is None:
            errors.append(required(f"{path}.target.averageUtilization", _EITHER))
        else:
            errors.append(forbidden(f"{path}.target.averageValue", _NOT_BOTH))


def _resource_name(errors: Errors, kind: str, source: Json, path: str) -> None:
    if not source.get("name"):
        errors.append(required(f"{path}.name", "must specify a resource name"))
    elif kind == "containerResource":
        check_container_resource_name(errors, source["name"], f"{path}.name")
    if kind == "containerResource":
        if not source.get("container"):
            errors.append(required(f"{path}.container", "must specify a container"))
        else:
            check_dns_label(errors, source["container"], f"{path}.container")


def _identifier(errors: Errors, metric: Json, path: str) -> None:
    if not metric.get("name"):
        errors.append(required(f"{path}.name", "must specify a metric name"))
    else:
        check_name(errors, metric["name"], f"{path}.name", names.path_segment_errors)


def _target(errors: Errors, target: Json, path: str) -> None:
    kind = target.get("type") or ""
    if not kind:
        errors.append(required(f"{path}.type", "must specify a metric target type"))
    if kind not in ("Utilization", "Value", "AverageValue"):
        errors.append(invalid(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue"))
    for field in ("value", "averageValue"):
        if (amount := target.get(field)) is not None and quantity.nanos(amount) <= 0:
            errors.append(invalid(f"{path}.{field}", amount, "must be positive"))
    utilization = target.get("averageUtilization")
    if utilization is not None and utilization < 1:
        errors.append(invalid(f"{path}.averageUtilization", utilization, "must be greater than 0"))


def _rules(errors: Errors, rules: Json, path: str) -> None:
    window, select, policies = rules.get("stabilizationWindowSeconds"), rules.get("selectPolicy"), rules.get("policies") or []
    if window is not None and window < 0:
        errors.append(invalid(f"{path}.stabilizationWindowSeconds", window, "must be greater than or equal to zero"))
    if window is not None and window > _LONGEST_WINDOW:
        errors.append(invalid(f"{path}.stabilizationWindowSeconds", window, f"must be less than or equal to {_LONGEST_WINDOW}"))
    if select is not None and select not in _SELECT:
        errors.append(not_supported(f"{path}.selectPolicy", select, _SELECT))
    if not policies:
        errors.append(required(f"{path}.policies", "must specify at least one Policy"))
    for index, policy in enumerate(policies):
        _policy(errors, policy, f"{path}.policies[{index}]")
    tolerance = rules.get("tolerance")
    if tolerance is not None and quantity.nanos(tolerance) < 0:
        errors.append(invalid(f"{path}.tolerance", tolerance, NEGATIVE))


def _policy(errors: Errors, policy: Json, path: str) -> None:
    if policy.get("type") not in ("Pods", "Percent"):
        errors.append(not_supported(f"{path}.type", policy.get("type") or "", ("Percent", "Pods")))
    for field in ("value", "periodSeconds"):
        if (policy.get(field) or 0) <= 0:
            errors.append(invalid(f"{path}.{field}", policy.get(field) or 0, "must be greater than zero"))
    if (policy.get("periodSeconds") or 0) > _LONGEST_PERIOD:
        errors.append(invalid(f"{path}.periodSeconds", policy["periodSeconds"], f"must be less than or equal to {_LONGEST_PERIOD}"))
