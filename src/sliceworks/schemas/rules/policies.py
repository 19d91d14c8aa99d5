"""Disruption budgets, quotas, limit ranges and priority classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.schemas.field_errors import duplicate, forbidden, invalid, not_supported, required
from sliceworks.schemas.rules import name_rules
from sliceworks.schemas.rules.resources import (
    amount,
    container_resource_name,
    is_overcommit_allowed,
    is_standard_quota,
    quota_resource_name,
    resource_name,
)
from sliceworks.schemas.rules.selectors import selector_errors
from sliceworks.schemas.rules.texts import Errors, at_most_all, go_struct, immutable, positive_int_or_percent

if TYPE_CHECKING:
    from sliceworks.schemas.rules.shape import Json

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
_EXISTS_ONLY = ("BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity")
_EXISTS_WORDS = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)
_OPPOSITES = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_HIGHEST_PRIORITY = 1_000_000_000
_SYSTEM_PRIORITIES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}


def disruption_budget_errors(obj: Json) -> Errors:
    out: Errors = []
    spec: Json = obj.get("spec") or {}
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    if least is not None and most is not None:
        out.append(
            invalid(
                "spec",
                go_struct(spec, "minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy"),
                "minAvailable and maxUnavailable cannot be both set",
            )
        )
    for field, value in (("minAvailable", least), ("maxUnavailable", most)):
        if value is not None:
            positive_int_or_percent(out, value, f"spec.{field}")
            at_most_all(out, value, f"spec.{field}")
    selector_errors(out, spec.get("selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in ("AlwaysAllow", "IfHealthyBudget"):
        out.append(not_supported("spec.unhealthyPodEvictionPolicy", policy, ("AlwaysAllow", "IfHealthyBudget")))
    return out


def quota_errors(obj: Json) -> Errors:
    out: Errors = []
    spec: Json = obj.get("spec") or {}
    hard = spec.get("hard") or {}
    for name, value in hard.items():
        quota_resource_name(out, name, f"spec.hard[{name}]")
        amount(out, name, value, f"spec.hard[{name}]")
    if scopes := spec.get("scopes"):
        _scopes(out, scopes, hard)
    if (selector := spec.get("scopeSelector")) is not None:
        _scope_selector(out, selector, spec, hard)
    return out


def quota_update_errors(new: Json, old: Json) -> Errors:
    now, before = ((obj.get("spec") or {}).get("scopes") or [] for obj in (new, old))
    return [] if set(now) == set(before) else [invalid("spec.scopes", now or None, "field is immutable")]


def quota_status_errors(new: Json, _old: Json) -> Errors:
    out: Errors = []
    for side in ("hard", "used"):
        for name, value in ((new.get("status") or {}).get(side) or {}).items():
            quota_resource_name(out, name, f"status.{side}[{name}]")
            amount(out, name, value, f"status.{side}[{name}]")
    return out


def limit_range_errors(obj: Json) -> Errors:
    out: Errors = []
    seen: set[str] = set()
    for index, limit in enumerate((obj.get("spec") or {}).get("limits") or ()):
        path, kind = f"spec.limits[{index}]", limit.get("type") or ""
        found = name_rules.qualified_name_errors(kind)
        out += [invalid(f"{path}.type", kind, message) for message in found]
        if not found and "/" not in kind and kind not in ("Pod", "Container", "PersistentVolumeClaim"):
            out.append(invalid(f"{path}.type", kind, "must be a standard limit type or fully qualified"))
        if kind in seen:
            out.append(duplicate(f"{path}.type", kind))
        seen.add(kind)
        _limit(out, limit, kind, path)
    return out


def priority_class_errors(obj: Json) -> Errors:
    out: Errors = []
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
            out.append(forbidden("metadata.name", words))
    elif value > _HIGHEST_PRIORITY:
        out.append(forbidden("value", f"maximum allowed value of a user defined priority is {_HIGHEST_PRIORITY}"))
    policy = obj.get("preemptionPolicy")
    if policy is not None and policy not in ("PreemptLowerPriority", "Never"):
        place = "preemptionPolicy"
        out.append(not_supported(place, policy, ("PreemptLowerPriority", "Never")) if policy else required(place))
    return out


def priority_class_update_errors(new: Json, old: Json) -> Errors:
    out: Errors = []
    if (new.get("value") or 0) != (old.get("value") or 0):
        out.append(forbidden("value", "may not be changed in an update."))
    immutable(out, new.get("preemptionPolicy"), old.get("preemptionPolicy"), "preemptionPolicy")
    return out


def _fits(scope: str, name: str) -> bool:
    return not is_standard_quota(name) or scope not in _SCOPES or name in _SCOPES[scope]


def _scopes(out: Errors, scopes: list[str], hard: Json) -> None:
    for scope in scopes:
        if scope not in _SCOPES:
            out.append(invalid("spec.scopes", scopes, "unsupported scope"))
        if not all(_fits(scope, name) for name in hard):
            out.append(invalid("spec.scopes", scopes, "unsupported scope applied to resource"))
    if any(pair <= set(scopes) for pair in _OPPOSITES):
        out.append(invalid("spec.scopes", scopes, "conflicting scopes"))


def _scope_selector(out: Errors, selector: Json, spec: Json, hard: Json) -> None:
    path, seen = "spec.scopeSelector.matchExpressions", set()
    for term in selector.get("matchExpressions") or ():
        scope, operator, values = term.get("scopeName") or "", term.get("operator") or "", term.get("values") or []
        seen.add(scope)
        if scope not in _SCOPES:
            out.append(invalid(f"{path}.scopeName", scope, "unsupported scope"))
        if not all(_fits(scope, name) for name in hard):
            out.append(invalid(path, selector, "unsupported scope applied to resource"))
        if scope in _EXISTS_ONLY and operator != "Exists":
            out.append(invalid(f"{path}.operator", operator, _EXISTS_WORDS))
        if operator in ("In", "NotIn"):
            if not values:
                out.append(
                    required(f"{path}.values", "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector")
                )
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                out.append(
                    invalid(
                        f"{path}.values", values, "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                    )
                )
        else:
            out.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    if any(pair <= seen for pair in _OPPOSITES):
        out.append(invalid(path, spec.get("scopes"), "conflicting scopes"))


def _limit(out: Errors, limit: Json, kind: str, path: str) -> None:
    rule = container_resource_name if kind in ("Pod", "Container") else resource_name
    for field in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
        if kind == "Pod" and field.startswith("default"):
            if limit.get(field):
                out.append(forbidden(f"{path}.{field}", "may not be specified when `type` is 'Pod'"))
            continue
        for name in limit.get(field) or ():
            rule(out, name, f"{path}.{field}[{name}]")
    storage = [(limit.get(field) or {}).get("storage") for field in ("min", "max")]
    if kind == "PersistentVolumeClaim" and storage == [None, None]:
        detail = "either minimum or maximum storage value is required, but neither was provided"
        out.append(required(f"{path}.limits", detail))
    tables = {field: limit.get(field) or {} for field in ("min", "max", "default", "defaultRequest", "maxLimitRequestRatio")}
    if kind == "Pod":
        tables |= {"default": {}, "defaultRequest": {}}
    for name in sorted({name for table in tables.values() for name in table}):
        _limit_order(out, {field: table[name] for field, table in tables.items() if name in table}, name, path)


# Which of two amounts may not be larger, under which field it is reported, whose value is shown, and how both are called.
_ORDERS = (
    ("min", "max", "min", "min", "min value", "max value"),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest", "min value", "default request value"),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest", "default request value", "max value"),
    ("defaultRequest", "default", "defaultRequest", "defaultRequest", "default request value", "default limit value"),
    ("min", "default", "default", "min", "min value", "default value"),
    ("default", "max", "default", "max", "default value", "max value"),
)


def _limit_order(out: Errors, found: dict[str, Any], name: str, path: str) -> None:
    for low, high, field, shown, low_words, high_words in _ORDERS:
        if low in found and high in found and quantity.compare(found[low], found[high]) > 0:
            detail = f"{low_words} {found[low]} is greater than {high_words} {found[high]}"
            out.append(invalid(f"{path}.{field}[{name}]", found[shown], detail))
    ratio = found.get("maxLimitRequestRatio")
    if ratio is not None:
        place = f"{path}.maxLimitRequestRatio[{name}]"
        if quantity.compare(ratio, "1") < 0:
            out.append(invalid(place, ratio, f"ratio {ratio} is less than 1"))
        if "min" in found and "max" in found and quantity.parse(found["min"]):
            largest = quantity.parse(found["max"]) / quantity.parse(found["min"])
            if quantity.parse(ratio) > largest:
                out.append(invalid(place, ratio, f"ratio {ratio} is greater than max/min = {float(largest):f}"))
    limit, request = found.get("default"), found.get("defaultRequest")
    if limit is None or request is None or is_overcommit_allowed(name):
        return
    if quantity.compare(limit, request):
        detail = f"default value {limit} must equal to defaultRequest value {request} in {name}"
        out.append(invalid(f"{path}.defaultRequest[{name}]", request, detail))
