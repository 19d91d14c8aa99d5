"""PodDisruptionBudgets, ResourceQuotas, LimitRanges, PriorityClasses and RuntimeClasses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.twin.apiserver.validation import error_list
from sliceworks.twin.apiserver.validation.affinity import validate_tolerations
from sliceworks.twin.apiserver.validation.error_list import format_go_struct, list_items
from sliceworks.twin.apiserver.validation.object_meta import validate_labels
from sliceworks.twin.apiserver.validation.resource_requirements import (
    is_overcommit_allowed,
    is_standard_quota,
    validate_container_resource_name,
    validate_quantity,
    validate_quota_resource_name,
    validate_resource_name,
    validate_resource_requirements,
)
from sliceworks.twin.apiserver.validation.selectors import validate_label_selector

if TYPE_CHECKING:
    from sliceworks.twin.apiserver.validation.defaults import Json
    from sliceworks.twin.apiserver.validation.error_list import ErrorList

_COMPUTE = frozenset({"cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory", "pods"})
_SCOPES: dict[str, frozenset[str]] = {
    "Terminating": _COMPUTE,
    "NotTerminating": _COMPUTE,
    "NotBestEffort": _COMPUTE,
    "PriorityClass": _COMPUTE,
    "CrossNamespacePodAffinity": _COMPUTE,
    "BestEffort": frozenset({"pods"}),
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}
_NO_TOLERATION = {"key": "", "operator": "", "value": "", "effect": "", "tolerationSeconds": None}
_EXISTS_ONLY = ("BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity")
_EXISTS_REQUIRED = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)
_OPPOSITES = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_MAX_USER_PRIORITY = 1_000_000_000
_SYSTEM_PRIORITIES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}


def validate_pod_disruption_budget(errors: ErrorList, obj: Json) -> None:
    spec: Json = obj.get("spec") or {}
    limits = {field: spec.get(field) for field in ("minAvailable", "maxUnavailable")}
    if None not in limits.values():
        shown = format_go_struct(spec, "minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy")
        errors.invalid("spec", shown, "minAvailable and maxUnavailable cannot be both set")
    for field, value in limits.items():
        if value is not None:
            errors.check_positive_int_or_percent(value, f"spec.{field}")
            errors.check_at_most_100_percent(value, f"spec.{field}")
    validate_label_selector(errors, spec.get("selector"), "spec.selector")
    errors.check_optional_enum(spec, "spec", "unhealthyPodEvictionPolicy", ("AlwaysAllow", "IfHealthyBudget"))


def validate_resource_quota(errors: ErrorList, obj: Json) -> None:
    spec: Json = obj.get("spec") or {}
    hard = spec.get("hard") or {}
    _validate_quota_amounts(errors, hard, "spec.hard")
    if scopes := spec.get("scopes"):
        _validate_scopes(errors, scopes, hard)
    if (selector := spec.get("scopeSelector")) is not None:
        _validate_scope_selector(errors, selector, spec, hard)


def validate_resource_quota_update(errors: ErrorList, new: Json, old: Json) -> None:
    now, before = ((obj.get("spec") or {}).get("scopes") or [] for obj in (new, old))
    if set(now) != set(before):
        errors.invalid("spec.scopes", now or None, "field is immutable")


def validate_resource_quota_status(errors: ErrorList, new: Json, _old: Json) -> None:
    for side in ("hard", "used"):
        _validate_quota_amounts(errors, (new.get("status") or {}).get(side) or {}, f"status.{side}")


def _validate_quota_amounts(errors: ErrorList, amounts: Json, path: str) -> None:
    for name, value in amounts.items():
        validate_quota_resource_name(errors, name, f"{path}[{name}]")
        validate_quantity(errors, name, value, f"{path}[{name}]")


def validate_limit_range(errors: ErrorList, obj: Json) -> None:
    seen: set[str] = set()
    for limit, path in list_items(obj.get("spec") or {}, "spec", "limits"):
        kind = limit.get("type") or ""
        errors.check_qualified_name(kind, f"{path}.type")
        is_name = not error_list.qualified_name_errors(kind)
        if is_name and "/" not in kind and kind not in ("Pod", "Container", "PersistentVolumeClaim"):
            errors.invalid(f"{path}.type", kind, "must be a standard limit type or fully qualified")
        errors.check_unique(seen, kind, f"{path}.type")
        _validate_limit(errors, limit, kind, path)


def validate_priority_class(errors: ErrorList, obj: Json) -> None:
    name, value = (obj.get("metadata") or {}).get("name") or "", obj.get("value") or 0
    if name.startswith("system-"):
        if name not in _SYSTEM_PRIORITIES:
            problem = f"{name} is not a known system priority class"
        elif value != _SYSTEM_PRIORITIES[name]:
            problem = f"value of {name} PriorityClass must be {_SYSTEM_PRIORITIES[name]}"
        else:
            problem = f"globalDefault of {name} PriorityClass must be false" if obj.get("globalDefault") else ""
        if problem:
            detail = f"priority class names with 'system-' prefix are reserved for system use only. error: {problem}"
            errors.forbidden("metadata.name", detail)
    elif value > _MAX_USER_PRIORITY:
        errors.forbidden("value", f"maximum allowed value of a user defined priority is {_MAX_USER_PRIORITY}")
    if obj.get("preemptionPolicy") is not None:
        errors.check_enum(obj, "", "preemptionPolicy", ("PreemptLowerPriority", "Never"))


def validate_priority_class_update(errors: ErrorList, new: Json, old: Json) -> None:
    if (new.get("value") or 0) != (old.get("value") or 0):
        errors.forbidden("value", "may not be changed in an update.")
    errors.check_unchanged(new, old, "", "preemptionPolicy")


def _fits(scope: str, name: str) -> bool:
    return not is_standard_quota(name) or scope not in _SCOPES or name in _SCOPES[scope]


def _validate_scopes(errors: ErrorList, scopes: list[str], hard: Json) -> None:
    for scope in scopes:
        if scope not in _SCOPES:
            errors.invalid("spec.scopes", scopes, "unsupported scope")
        if not all(_fits(scope, name) for name in hard):
            errors.invalid("spec.scopes", scopes, "unsupported scope applied to resource")
    if any(pair <= set(scopes) for pair in _OPPOSITES):
        errors.invalid("spec.scopes", scopes, "conflicting scopes")


def _validate_scope_selector(errors: ErrorList, selector: Json, spec: Json, hard: Json) -> None:
    path, seen = "spec.scopeSelector.matchExpressions", set()
    for term in selector.get("matchExpressions") or ():
        scope, operator, values = term.get("scopeName") or "", term.get("operator") or "", term.get("values") or []
        seen.add(scope)
        if scope not in _SCOPES:
            errors.invalid(f"{path}.scopeName", scope, "unsupported scope")
        if not all(_fits(scope, name) for name in hard):
            errors.invalid(path, selector, "unsupported scope applied to resource")
        if scope in _EXISTS_ONLY and operator != "Exists":
            errors.invalid(f"{path}.operator", operator, _EXISTS_REQUIRED)
        if operator in ("In", "NotIn"):
            if not values:
                detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                errors.required(f"{path}.values", detail)
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                errors.invalid(f"{path}.values", values, detail)
        else:
            errors.invalid(f"{path}.operator", operator, "not a valid selector operator")
    if any(pair <= seen for pair in _OPPOSITES):
        errors.invalid(path, spec.get("scopes"), "conflicting scopes")


def _validate_limit(errors: ErrorList, limit: Json, kind: str, path: str) -> None:
    validate_name = validate_container_resource_name if kind in ("Pod", "Container") else validate_resource_name
    for field in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
        if kind == "Pod" and field.startswith("default"):
            if limit.get(field):
                errors.forbidden(f"{path}.{field}", "may not be specified when `type` is 'Pod'")
            continue
        for name in limit.get(field) or ():
            validate_name(errors, name, f"{path}.{field}[{name}]")
    storage = [(limit.get(field) or {}).get("storage") for field in ("min", "max")]
    if kind == "PersistentVolumeClaim" and storage == [None, None]:
        detail = "either minimum or maximum storage value is required, but neither was provided"
        errors.required(f"{path}.limits", detail)
    tables = {field: limit.get(field) or {} for field in ("min", "max", "default", "defaultRequest", "maxLimitRequestRatio")}
    if kind == "Pod":
        tables |= {"default": {}, "defaultRequest": {}}
    for name in sorted({name for table in tables.values() for name in table}):
        _validate_limit_order(errors, {field: table[name] for field, table in tables.items() if name in table}, name, path)


# The lower and the higher bound, the field that the error names, whose value it shows, and the words for both.
_ORDERS = (
    ("min", "max", "min", "min", "min value", "max value"),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest", "min value", "default request value"),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest", "default request value", "max value"),
    ("defaultRequest", "default", "defaultRequest", "defaultRequest", "default request value", "default limit value"),
    ("min", "default", "default", "min", "min value", "default value"),
    ("default", "max", "default", "max", "default value", "max value"),
)


def _validate_limit_order(errors: ErrorList, bounds: dict[str, Any], name: str, path: str) -> None:
    for low, high, field, shown, low_words, high_words in _ORDERS:
        if low in bounds and high in bounds and quantity.compare(bounds[low], bounds[high]) > 0:
            detail = f"{low_words} {bounds[low]} is greater than {high_words} {bounds[high]}"
            errors.invalid(f"{path}.{field}[{name}]", bounds[shown], detail)
    ratio = bounds.get("maxLimitRequestRatio")
    if ratio is not None:
        child_path = f"{path}.maxLimitRequestRatio[{name}]"
        if quantity.compare(ratio, "1") < 0:
            errors.invalid(child_path, ratio, f"ratio {ratio} is less than 1")
        if "min" in bounds and "max" in bounds and quantity.parse(bounds["min"]):
            largest = quantity.parse(bounds["max"]) / quantity.parse(bounds["min"])
            if quantity.parse(ratio) > largest:
                errors.invalid(child_path, ratio, f"ratio {ratio} is greater than max/min = {float(largest):f}")
    limit, request = bounds.get("default"), bounds.get("defaultRequest")
    if limit is None or request is None or is_overcommit_allowed(name):
        return
    if quantity.compare(limit, request):
        detail = f"default value {limit} must equal to defaultRequest value {request} in {name}"
        errors.invalid(f"{path}.defaultRequest[{name}]", request, detail)


def validate_runtime_class(errors: ErrorList, obj: Json) -> None:
    errors.check_dns_label(obj.get("handler") or "", "handler")
    if (overhead := obj.get("overhead")) is not None:
        validate_resource_requirements(errors, {"limits": overhead.get("podFixed")}, "overhead")
    scheduling = obj.get("scheduling") or {}
    validate_labels(errors, scheduling.get("nodeSelector"), "scheduling.nodeSelector")
    validate_tolerations(errors, scheduling.get("tolerations") or (), "scheduling.tolerations")
    seen: set[tuple[str | None, ...]] = set()
    for toleration, path in list_items(scheduling, "scheduling", "tolerations"):
        key = tuple(toleration.get(field) for field in ("key", "operator", "value", "effect"))
        if key in seen:
            errors.duplicate(path, format_go_struct({**_NO_TOLERATION, **toleration}, *_NO_TOLERATION))
        seen.add(key)
