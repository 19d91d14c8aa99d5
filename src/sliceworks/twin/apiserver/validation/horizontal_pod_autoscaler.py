"""HorizontalPodAutoscalers, v1 and v2."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import names, quantity
from sliceworks.twin.apiserver.validation.error_list import NEGATIVE, NOT_POSITIVE, dns1123_label_errors, list_items
from sliceworks.twin.apiserver.validation.resource_requirements import validate_container_resource_name

if TYPE_CHECKING:
    from sliceworks.twin.apiserver.validation.defaults import Json
    from sliceworks.twin.apiserver.validation.error_list import ErrorList

_TYPES = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_MAX_WINDOW_SECONDS = 3600
_MAX_PERIOD_SECONDS = 1800


def validate_autoscaler(errors: ErrorList, obj: Json) -> None:
    spec: Json = obj.get("spec") or {}
    minimum, maximum = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    if minimum is not None and minimum < 1:
        errors.invalid("spec.minReplicas", minimum, "must be greater than or equal to 1")
    if maximum < 1:
        errors.invalid("spec.maxReplicas", maximum, "must be greater than 0")
    if minimum is not None and maximum < minimum:
        errors.invalid("spec.maxReplicas", maximum, "must be greater than or equal to `minReplicas`")
    target = spec.get("scaleTargetRef") or {}
    # Ratcheting: an existing object without the group of its target stays valid.
    is_new = not (obj.get("metadata") or {}).get("resourceVersion")
    _validate_reference(errors, target, "spec.scaleTargetRef", needs_group=is_new and target.get("kind") != "ReplicationController")
    for metric, path in list_items(spec, "spec", "metrics"):
        _validate_metric(errors, metric, path)
    if minimum == 0 and not any(metric.get("type") in ("Object", "External") for metric in spec.get("metrics") or ()):
        errors.forbidden("spec.metrics", "must specify at least one Object or External metric to support scaling to zero replicas")
    utilization = spec.get("targetCPUUtilizationPercentage")
    if utilization is not None and utilization < 1:
        errors.invalid("spec.metrics[0].resource.target.averageUtilization", utilization, "must be greater than 0")
    for side in ("scaleUp", "scaleDown"):
        if (rules := (spec.get("behavior") or {}).get(side)) is not None:
            _validate_rules(errors, rules, f"spec.behavior.{side}")


def _validate_reference(errors: ErrorList, reference: Json, path: str, *, needs_group: bool = False) -> None:
    for field in ("kind", "name"):
        errors.check_required_name(reference, path, field, names.path_segment_errors)
    version = reference.get("apiVersion") or ""
    if version.count("/") > 1:
        errors.invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}")
    elif needs_group and "/" not in version:
        errors.invalid(f"{path}.apiVersion", version, "apiVersion must specify API group")


def _validate_metric(errors: ErrorList, metric: Json, path: str) -> None:
    kind = metric.get("type") or ""
    if not kind:
        errors.required(f"{path}.type", "must specify a metric source type")
    errors.check_supported(metric, path, "type", tuple(_TYPES))
    present = [field for field in ("object", "external", "pods", "resource", "containerResource") if metric.get(field) is not None]
    if present:
        _validate_source(errors, present[0], metric[present[0]], f"{path}.{present[0]}")
    expected = _TYPES.get(kind)
    if expected and metric.get(expected) is None:
        errors.required(f"{path}.{expected}", "must populate information for the given metric source")
    if len(present) != 1:
        for field in present:
            if field != expected:
                errors.forbidden(f"{path}.{field}", "must populate the given metric source only")


def _validate_source(errors: ErrorList, kind: str, source: Json, path: str) -> None:
    target = source.get("target") or {}
    if kind == "object":
        _validate_reference(errors, source.get("describedObject") or {}, f"{path}.describedObject")
    if kind in ("resource", "containerResource"):
        _validate_resource_name(errors, kind, source, path)
    else:
        metric, absent = source.get("metric") or {}, "must specify a metric name"
        errors.check_required_name(metric, f"{path}.metric", "name", names.path_segment_errors, absent)
    _validate_target(errors, target, f"{path}.target")
    value, average, utilization = target.get("value"), target.get("averageValue"), target.get("averageUtilization")
    if kind == "object" and value is None and average is None:
        errors.required(f"{path}.target.averageValue", "must set either a target value or averageValue")
    elif kind == "pods" and average is None:
        errors.required(f"{path}.target.averageValue", "must specify a positive target averageValue")
    elif kind == "external" and (value is None) == (average is None):
        if value is None:
            errors.required(f"{path}.target.averageValue", "must set either a target value for metric or a per-pod target")
        else:
            errors.forbidden(f"{path}.target.value", "may not set both a target value for metric and a per-pod target")
    elif kind in ("resource", "containerResource") and (utilization is None) == (average is None):
        if average is None:
            errors.required(f"{path}.target.averageUtilization", "must set either a target raw value or a target utilization")
        else:
            errors.forbidden(f"{path}.target.averageValue", "may not set both a target raw value and a target utilization")


def _validate_resource_name(errors: ErrorList, kind: str, source: Json, path: str) -> None:
    if not source.get("name"):
        errors.required(f"{path}.name", "must specify a resource name")
    elif kind == "containerResource":
        validate_container_resource_name(errors, source["name"], f"{path}.name")
    if kind == "containerResource":
        errors.check_required_name(source, path, "container", dns1123_label_errors, "must specify a container")


def _validate_target(errors: ErrorList, target: Json, path: str) -> None:
    kind = target.get("type") or ""
    if not kind:
        errors.required(f"{path}.type", "must specify a metric target type")
    if kind not in ("Utilization", "Value", "AverageValue"):
        errors.invalid(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue")
    for field in ("value", "averageValue"):
        if (amount := target.get(field)) is not None and quantity.nanos(amount) <= 0:
            errors.invalid(f"{path}.{field}", amount, "must be positive")
    utilization = target.get("averageUtilization")
    if utilization is not None and utilization < 1:
        errors.invalid(f"{path}.averageUtilization", utilization, "must be greater than 0")


def _validate_rules(errors: ErrorList, rules: Json, path: str) -> None:
    window = rules.get("stabilizationWindowSeconds")
    if window is not None and window < 0:
        errors.invalid(f"{path}.stabilizationWindowSeconds", window, "must be greater than or equal to zero")
    if window is not None and window > _MAX_WINDOW_SECONDS:
        errors.invalid(f"{path}.stabilizationWindowSeconds", window, f"must be less than or equal to {_MAX_WINDOW_SECONDS}")
    errors.check_optional_enum(rules, path, "selectPolicy", ("Disabled", "Max", "Min"))
    if not rules.get("policies"):
        errors.required(f"{path}.policies", "must specify at least one Policy")
    for policy, policy_path in list_items(rules, path, "policies"):
        _validate_policy(errors, policy, policy_path)
    tolerance = rules.get("tolerance")
    if tolerance is not None and quantity.nanos(tolerance) < 0:
        errors.invalid(f"{path}.tolerance", tolerance, NEGATIVE)


def _validate_policy(errors: ErrorList, policy: Json, path: str) -> None:
    errors.check_supported(policy, path, "type", ("Percent", "Pods"))
    for field in ("value", "periodSeconds"):
        if (policy.get(field) or 0) <= 0:
            errors.invalid(f"{path}.{field}", policy.get(field) or 0, NOT_POSITIVE)
    if (policy.get("periodSeconds") or 0) > _MAX_PERIOD_SECONDS:
        errors.invalid(f"{path}.periodSeconds", policy["periodSeconds"], f"must be less than or equal to {_MAX_PERIOD_SECONDS}")
