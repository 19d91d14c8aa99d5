"""Affinity, tolerations, taints, topology spread constraints and scheduling gates."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from sliceworks.schemas.field_errors import FieldError
from sliceworks.twin.apiserver.validation import error_list
from sliceworks.twin.apiserver.validation.error_list import NOT_POSITIVE, ErrorList, format_go_struct, list_items
from sliceworks.twin.apiserver.validation.selectors import (
    validate_label_selector,
    validate_node_selector,
    validate_node_selector_term,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sliceworks.twin.apiserver.validation.defaults import Json

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_ANY_KEY = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'


def validate_affinity(errors: ErrorList, affinity: Json, path: str) -> None:
    if (node := affinity.get("nodeAffinity")) is not None:
        if (selector := node.get(_REQUIRED)) is not None:
            validate_node_selector(errors, selector, f"{path}.nodeAffinity.{_REQUIRED}")
        for term, term_path in list_items(node, f"{path}.nodeAffinity", _PREFERRED):
            _validate_weight(errors, term, term_path)
            validate_node_selector_term(errors, term.get("preference") or {}, f"{term_path}.preference", check_values=False)
    for field in ("podAffinity", "podAntiAffinity"):
        pods = affinity.get(field) or {}
        for term, term_path in list_items(pods, f"{path}.{field}", _REQUIRED):
            _validate_pod_affinity_term(errors, term, term_path)
        for term, term_path in list_items(pods, f"{path}.{field}", _PREFERRED):
            _validate_weight(errors, term, term_path)
            _validate_pod_affinity_term(errors, term.get("podAffinityTerm") or {}, f"{term_path}.podAffinityTerm")


def validate_tolerations(errors: ErrorList, tolerations: Sequence[Json], path: str) -> None:
    for index, toleration in enumerate(tolerations):
        _validate_toleration(errors, toleration, f"{path}[{index}]")


def validate_taints(errors: ErrorList, taints: Sequence[Json], path: str) -> None:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        key, value, effect = taint.get("key") or "", taint.get("value") or "", taint.get("effect") or ""
        errors.check_qualified_name(key, f"{path}[{index}].key")
        if messages := error_list.label_value_errors(value):
            errors.invalid(f"{path}[{index}].value", value, ";".join(messages))
        errors.check_enum(taint, f"{path}[{index}]", "effect", EFFECTS)
        if (effect, key) in seen:
            shown = format_go_struct({"value": "", **taint}, "key", "value", "effect", "timeAdded")
            words = "taints must be unique by key and effect pair"
            errors.append(FieldError("FieldValueDuplicate", f"{path}[{index}]", shown, words))
        seen.add((effect, key))


def validate_scheduling_gates(errors: ErrorList, gates: Sequence[Json], path: str) -> None:
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        errors.check_qualified_name(gate.get("name") or "", f"{path}[{index}]")
        errors.check_unique(seen, gate.get("name") or "", f"{path}[{index}]")


def validate_topology_spread(errors: ErrorList, constraints: Sequence[Json], path: str) -> None:
    counts = Counter((constraint.get("topologyKey"), constraint.get("whenUnsatisfiable")) for constraint in constraints)
    for index, constraint in enumerate(constraints):
        counts[constraint.get("topologyKey"), constraint.get("whenUnsatisfiable")] -= 1
        _validate_spread_constraint(errors, constraint, counts, f"{path}[{index}]")


def _validate_weight(errors: ErrorList, term: Json, path: str) -> None:
    if not 1 <= (term.get("weight") or 0) <= 100:
        errors.invalid(f"{path}.weight", term.get("weight") or 0, "must be in the range 1-100")


def _validate_pod_affinity_term(errors: ErrorList, term: Json, path: str) -> None:
    validate_label_selector(errors, term.get("labelSelector"), f"{path}.labelSelector")
    validate_label_selector(errors, term.get("namespaceSelector"), f"{path}.namespaceSelector")
    for name in term.get("namespaces") or ():
        errors.check_dns_label(name, f"{path}.namespace")
    _validate_label_keys(errors, term, path)
    key = term.get("topologyKey") or ""
    if not key:
        errors.required(f"{path}.topologyKey", "can not be empty")
    errors.check_qualified_name(key, f"{path}.topologyKey")


def _validate_label_keys(errors: ErrorList, term: Json, path: str) -> None:
    """Validate label keys whose values come from the pod. They extend `labelSelector`, which is therefore required."""
    selector = term.get("labelSelector")
    for field in ("matchLabelKeys", "mismatchLabelKeys"):
        if term.get(field) and selector is None:
            errors.forbidden(f"{path}.{field}", "must not be specified when labelSelector is not set")
            continue
        for key, key_path in list_items(term, path, field):
            errors.check_qualified_name(key, key_path)
    matched, mismatched = term.get("matchLabelKeys") or (), term.get("mismatchLabelKeys") or ()
    if selector is not None and matched:
        seen = set(selector.get("matchLabels") or ())
        for expression in selector.get("matchExpressions") or ():
            key = expression.get("key") or ""
            if key in matched and key in seen:
                errors.invalid(f"{path}[{matched.index(key)}]", key, "exists in both matchLabelKeys and labelSelector")
            seen.add(key)
    for index, key in enumerate(matched):
        if key in mismatched:
            errors.invalid(f"{path}.matchLabelKeys[{index}]", key, "exists in both matchLabelKeys and mismatchLabelKeys")


def _validate_toleration(errors: ErrorList, toleration: Json, path: str) -> None:
    key, operator = toleration.get("key") or "", toleration.get("operator") or ""
    value, effect = toleration.get("value") or "", toleration.get("effect") or ""
    if key:
        errors.check_qualified_name(key, f"{path}.key")
    elif operator != "Exists":
        errors.invalid(f"{path}.operator", operator, _ANY_KEY)
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        errors.invalid(f"{path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
    if operator in ("Equal", ""):
        if value and (messages := error_list.label_value_errors(value)):
            errors.invalid(f"{path}.operator", value, ";".join(messages))
    elif operator == "Exists":
        if value:
            errors.invalid(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'")
    else:
        allowed = ("Equal", "Exists", "Lt", "Gt") if operator in ("Lt", "Gt") else ("Equal", "Exists")
        errors.not_supported(f"{path}.operator", operator, allowed)
    if effect and effect not in EFFECTS:
        errors.not_supported(f"{path}.effect", effect, EFFECTS)


def _validate_spread_constraint(errors: ErrorList, constraint: Json, later: Counter[tuple[Any, Any]], path: str) -> None:
    skew, key = constraint.get("maxSkew") or 0, constraint.get("topologyKey") or ""
    action = constraint.get("whenUnsatisfiable") or ""
    if skew <= 0:
        errors.invalid(f"{path}.maxSkew", skew, NOT_POSITIVE)
    if not key:
        errors.required(f"{path}.topologyKey", "can not be empty")
    if action not in ("DoNotSchedule", "ScheduleAnyway"):
        errors.not_supported(f"{path}.whenUnsatisfiable", action, ("DoNotSchedule", "ScheduleAnyway"))
    if later[key, action]:
        errors.duplicate(f"{path}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
    if (domains := constraint.get("minDomains")) is not None:
        if domains <= 0:
            errors.invalid(f"{path}.minDomains", domains, NOT_POSITIVE)
        if action != "DoNotSchedule":
            detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            errors.invalid(f"{path}.minDomains", domains, detail)
    for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        errors.check_optional_enum(constraint, path, field, ("Honor", "Ignore"))
    _validate_label_keys(errors, constraint, path)
    validate_label_selector(errors, constraint.get("labelSelector"), f"{path}.labelSelector")
