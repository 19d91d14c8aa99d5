"""PodDisruptionBudgets, ResourceQuotas, LimitRanges, PriorityClasses and RuntimeClasses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.schemas.field_errors import duplicate, forbidden, invalid, not_supported, required
from sliceworks.twin.apiserver.validation import field_checks
from sliceworks.twin.apiserver.validation.affinity import toleration_errors
from sliceworks.twin.apiserver.validation.field_checks import (
    Errors,
    check_at_most_100_percent,
    check_dns_label,
    check_immutable,
    check_positive_int_or_percent,
    format_go_struct,
)
from sliceworks.twin.apiserver.validation.object_meta import label_errors
from sliceworks.twin.apiserver.validation.resource_requirements import (
    check_container_resource_name,
    check_quantity,
    check_quota_resource_name,
    check_resource_name,
    is_overcommit_allowed,
    is_standard_quota,
    requirement_errors,
)
from sliceworks.twin.apiserver.validation.selectors import selector_errors

if TYPE_CHECKING:
    from sliceworks.twin.apiserver.validation.defaults import Json

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
_EXISTS_WORDS = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)
_OPPOSITES = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_HIGHEST_PRIORITY = 1_000_000_000
_SYSTEM_PRIORITIES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}


def disruption_budget_errors(obj: Json) -> Errors:
    errors: Errors = []
    spec: Json = obj.get("spec") or {}
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if least is not None and most is not None:
        errors.append(
            invalid(
                "spec",
                format_go_struct(spec, "minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy"),
                "minAvailable and maxUnavailable cannot be both set",
            )
        )
    for field, value in (("minAvailable", least), ("maxUnavailable", most)):
        if value is not None:
            check_positive_int_or_percent(errors, value, f"spec.{field}")
            check_at_most_100_percent(errors, value, f"spec.{field}")
    selector_errors(errors, spec.get("selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in ("AlwaysAllow", "IfHealthyBudget"):
        errors.append(not_supported("spec.unhealthyPodEvictionPolicy", policy, ("AlwaysAllow", "IfHealthyBudget")))
    return errors


def quota_errors(obj: Json) -> Errors:
    errors: Errors = []
    spec: Json = obj.get("spec") or {}
    hard = spec.get("hard") or {}
    for name, value in hard.items():
        check_quota_resource_name(errors, name, f"spec.hard[{name}]")
        check_quantity(errors, name, value, f"spec.hard[{name}]")
    if scopes := spec.get("scopes"):
        _scopes(errors, scopes, hard)
    if (selector := spec.get("scopeSelector")) is not None:
        _scope_selector(errors, selector, spec, hard)
    return errors


def quota_update_errors(new: Json, old: Json) -> Errors:
    now, before = ((obj.get("spec") or {}).get("scopes") or [] for obj in (new, old))
    return [] if set(now) == set(before) else [invalid("spec.scopes", now or None, "field is immutable")]


def quota_status_errors(new: Json, _old: Json) -> Errors:
    errors: Errors = []
    for side in ("hard", "used"):
        for name, value in ((new.get("status") or {}).get(side) or {}).items():
            check_quota_resource_name(errors, name, f"status.{side}[{name}]")
            check_quantity(errors, name, value, f"status.{side}[{name}]")
    return errors


def limit_range_errors(obj: Json) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for index, limit in enumerate((obj.get("spec") or {}).get("limits") or ()):
        path, kind = f"spec.limits[{index}]", limit.get("type") or ""
        messages = field_checks.qualified_name_errors(kind)
        errors += [invalid(f"{path}.type", kind, message) for message in messages]
        if not messages and "/" not in kind and kind not in ("Pod", "Container", "PersistentVolumeClaim"):
            errors.append(invalid(f"{path}.type", kind, "must be a standard limit type or fully qualified"))
        if kind in seen:
            errors.append(duplicate(f"{path}.type", kind))
        seen.add(kind)
        _limit(errors, limit, kind, path)
    return errors


def priority_class_errors(obj: Json) -> Errors:
    errors: Errors = []
    name, value = (obj.get("metadata") or {}).get("name") or "", obj.get("value") or 0
    if name.startswith("system-"):
        if name not in _SYSTEM_PRIORITIES:
            problem = f"{name} is not a known system priority class"
        elif value != _SYSTEM_PRIORITIES[name]:
            problem = f"value of {name} PriorityClass must be {_SYSTEM_PRIORITIES[name]}"
        else:
            problem = f"globalDefault of {name} PriorityClass must be false" if obj.get("globalDefault") else ""
        if problem:
            words = f"priority class names with 'system-' prefix are reserved for system use only. error: {problem}"
            errors.append(forbidden("metadata.name", words))
    elif value > _HIGHEST_PRIORITY:
        errors.append(forbidden("value", f"maximum allowed value of a user defined priority is {_HIGHEST_PRIORITY}"))
    policy = obj.get("preemptionPolicy")
    if policy is not None and policy not in ("PreemptLowerPriority", "Never"):
        child_path = "preemptionPolicy"
        errors.append(not_supported(child_path, policy, ("PreemptLowerPriority", "Never")) if policy else required(child_path))
    return errors


def priority_class_update_errors(new: Json, old: Json) -> Errors:
    errors: Errors = []
    if (new.get("value") or 0) != (old.get("value") or 0):
        errors.append(forbidden("value", "may not be changed in an update."))
    check_immutable(errors, new.get("preemptionPolicy"), old.get("preemptionPolicy"), "preemptionPolicy")
    return errors


def _fits(scope: str, name: str) -> bool:
    return not is_standard_quota(name) or scope not in _SCOPES or name in _SCOPES[scope]


def _scopes(errors: Errors, scopes: list[str], hard: Json) -> None:
    for scope in scopes:
        if scope not in _SCOPES:
            errors.append(invalid("spec.scopes", scopes, "unsupported scope"))
        if not all(_fits(scope, name) for name in hard):
            errors.append(invalid("spec.scopes", scopes, "unsupported scope applied to resource"))
    if any(pair <= set(scopes) for pair in _OPPOSITES):
        errors.append(invalid("spec.scopes", scopes, "conflicting scopes"))


def _scope_selector(errors: Errors, selector: Json, spec: Json, hard: Json) -> None:
    path, seen = "spec.scopeSelector.matchExpressions", set()
    for term in selector.get("matchExpressions") or ():
        scope, operator, values = term.get("scopeName") or "", term.get("operator") or "", term.get("values") or []
        seen.add(scope)
        if scope not in _SCOPES:
            errors.append(invalid(f"{path}.scopeName", scope, "unsupported scope"))
        if not all(_fits(scope, name) for name in hard):
            errors.append(invalid(path, selector, "unsupported scope applied to resource"))
        if scope in _EXISTS_ONLY and operator != "Exists":
            errors.append(invalid(f"{path}.operator", operator, _EXISTS_WORDS))
        if operator in ("In", "NotIn"):
            if not values:
                errors.append(
                    required(f"{path}.values", "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector")
                )
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                errors.append(
                    invalid(
                        f"{path}.values", values, "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                    )
                )
        else:
            errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    if any(pair <= seen for pair in _OPPOSITES):
        errors.append(invalid(path, spec.get("scopes"), "conflicting scopes"))


def _limit(errors: Errors, limit: Json, kind: str, path: str) -> None:
    rule = check_container_resource_name if kind in ("Pod", "Container") else check_resource_name
    for field in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
        if kind == "Pod" and field.startswith("default"):
            if limit.get(field):
                errors.append(forbidden(f"{path}.{field}", "may not be specified when `type` is 'Pod'"))
            continue
        for name in limit.get(field) or ():
            rule(errors, name, f"{path}.{field}[{name}]")
    storage = [(limit.get(field) or {}).get("storage") for field in ("min", "max")]
    if kind == "PersistentVolumeClaim" and storage == [None, None]:
        detail = "either minimum or maximum storage value is required, but neither was provided"
        errors.append(required(f"{path}.limits", detail))
    tables = {field: limit.get(field) or {} for field in ("min", "max", "default", "defaultRequest", "maxLimitRequestRatio")}
    if kind == "Pod":
        tables |= {"default": {}, "defaultRequest": {}}
    for name in sorted({name for table in tables.values() for name in table}):
        _limit_order(errors, {field: table[name] for field, table in tables.items() if name in table}, name, path)


# The lower and the higher bound, the field that the error names, whose value it shows, and the words for both.
_ORDERS = (
    ("min", "max", "min", "min", "min value", "max value"),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest", "min value", "default request value"),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest", "default request value", "max value"),
    ("defaultRequest", "default", "defaultRequest", "defaultRequest", "default request value", "default limit value"),
    ("min", "default", "default", "min", "min value", "default value"),
    ("default", "max", "default", "max", "default value", "max value"),
)


def _limit_order(errors: Errors, bounds: dict[str, Any], name: str, path: str) -> None:
    for low, high, field, shown, low_words, high_words in _ORDERS:
        if low in bounds and high in bounds and quantity.compare(bounds[low], bounds[high]) > 0:
            detail = f"{low_words} {bounds[low]} is greater than {high_words} {bounds[high]}"
            errors.append(invalid(f"{path}.{field}[{name}]", bounds[shown], detail))
    ratio = bounds.get("maxLimitRequestRatio")
    if ratio is not None:
        child_path = f"{path}.maxLimitRequestRatio[{name}]"
        if quantity.compare(ratio, "1") < 0:
            errors.append(invalid(child_path, ratio, f"ratio {ratio} is less than 1"))
        if "min" in bounds and "max" in bounds and quantity.parse(bounds["min"]):
            largest = quantity.parse(bounds["max"]) / quantity.parse(bounds["min"])
            if quantity.parse(ratio) > largest:
                errors.append(invalid(child_path, ratio, f"ratio {ratio} is greater than max/min = {float(largest):f}"))
    limit, request = bounds.get("default"), bounds.get("defaultRequest")
    if limit is None or request is None or is_overcommit_allowed(name):
        return
    if quantity.compare(limit, request):
        detail = f"default value {limit} must equal to defaultRequest value {request} in {name}"
        errors.append(invalid(f"{path}.defaultRequest[{name}]", request, detail))


def runtime_class_errors(obj: Json) -> Errors:
    errors: Errors = []
    check_dns_label(errors, obj.get("handler") or "", "handler")
    if (overhead := obj.get("overhead")) is not None:
        requirement_errors(errors, {"limits": overhead.get("podFixed")}, "overhead")
    scheduling = obj.get("scheduling") or {}
    label_errors(errors, scheduling.get("nodeSelector"), "scheduling.nodeSelector")
    tolerations = scheduling.get("tolerations") or []
    toleration_errors(errors, tolerations, "scheduling.tolerations")
    keys = [tuple(item.get(field) for field in ("key", "operator", "value", "effect")) for item in tolerations]
    for index, key in enumerate(keys):
        if key in keys[:index]:
            shown = format_go_struct({**_NO_TOLERATION, **tolerations[index]}, *_NO_TOLERATION)
            errors.append(duplicate(f"scheduling.tolerations[{index}]", shown))
    return errors


def runtime_class_update_errors(new: Json, old: Json) -> Errors:
    errors: Errors = []
    check_immutable(errors, new.get("handler"), old.get("handler"), "handler")
    return errors
