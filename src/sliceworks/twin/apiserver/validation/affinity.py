"""Affinity, tolerations, taints, topology spread constraints and scheduling gates."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from sliceworks.schemas.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required
from sliceworks.twin.apiserver.validation import field_checks
from sliceworks.twin.apiserver.validation.field_checks import (
    NOT_POSITIVE,
    Errors,
    check_name,
    check_qualified_name,
    check_unique,
    format_go_struct,
)
from sliceworks.twin.apiserver.validation.selectors import node_selector_errors, node_term_errors, selector_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sliceworks.twin.apiserver.validation.defaults import Json

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_ANY_KEY = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'


def affinity_errors(errors: Errors, affinity: Json, path: str) -> None:
    if (node := affinity.get("nodeAffinity")) is not None:
        if (selector := node.get(_REQUIRED)) is not None:
            node_selector_errors(errors, selector, f"{path}.nodeAffinity.{_REQUIRED}")
        for index, term in enumerate(node.get(_PREFERRED) or ()):
            child_path = f"{path}.nodeAffinity.{_PREFERRED}[{index}]"
            _weight(errors, term, child_path)
            node_term_errors(errors, term.get("preference") or {}, f"{child_path}.preference", check_values=False)
    for field in ("podAffinity", "podAntiAffinity"):
        if (pods := affinity.get(field)) is not None:
            for index, term in enumerate(pods.get(_REQUIRED) or ()):
                _pod_term(errors, term, f"{path}.{field}.{_REQUIRED}[{index}]")
            for index, term in enumerate(pods.get(_PREFERRED) or ()):
                _weight(errors, term, f"{path}.{field}.{_PREFERRED}[{index}]")
                _pod_term(errors, term.get("podAffinityTerm") or {}, f"{path}.{field}.{_PREFERRED}[{index}].podAffinityTerm")


def toleration_errors(errors: Errors, tolerations: Sequence[Json], path: str) -> None:
    for index, toleration in enumerate(tolerations):
        _toleration(errors, toleration, f"{path}[{index}]")


def taint_errors(errors: Errors, taints: Sequence[Json], path: str) -> None:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        key, value, effect = taint.get("key") or "", taint.get("value") or "", taint.get("effect") or ""
        check_qualified_name(errors, key, f"{path}[{index}].key")
        if messages := field_checks.label_value_errors(value):
            errors.append(invalid(f"{path}[{index}].value", value, ";".join(messages)))
        if not effect:
            errors.append(required(f"{path}[{index}].effect"))
        elif effect not in EFFECTS:
            errors.append(not_supported(f"{path}[{index}].effect", effect, EFFECTS))
        if (effect, key) in seen:
            shown = format_go_struct({"value": "", **taint}, "key", "value", "effect", "timeAdded")
            words = "taints must be unique by key and effect pair"
            errors.append(FieldError("FieldValueDuplicate", f"{path}[{index}]", shown, words))
        seen.add((effect, key))


def gate_errors(errors: Errors, gates: Sequence[Json], path: str) -> None:
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        check_qualified_name(errors, gate.get("name") or "", f"{path}[{index}]")
        check_unique(errors, seen, gate.get("name") or "", f"{path}[{index}]")


def spread_errors(errors: Errors, constraints: Sequence[Json], path: str) -> None:
    counts = Counter((constraint.get("topologyKey"), constraint.get("whenUnsatisfiable")) for constraint in constraints)
    for index, constraint in enumerate(constraints):
        counts[constraint.get("topologyKey"), constraint.get("whenUnsatisfiable")] -= 1
        _spread(errors, constraint, counts, f"{path}[{index}]")


def _weight(errors: Errors, term: Json, path: str) -> None:
    if not 1 <= (term.get("weight") or 0) <= 100:
        errors.append(invalid(f"{path}.weight", term.get("weight") or 0, "must be in the range 1-100"))


def _pod_term(errors: Errors, term: Json, path: str) -> None:
    selector_errors(errors, term.get("labelSelector"), f"{path}.labelSelector")
    selector_errors(errors, term.get("namespaceSelector"), f"{path}.namespaceSelector")
    for name in term.get("namespaces") or ():
        check_name(errors, name, f"{path}.namespace", field_checks.dns1123_label_errors)
    _label_keys(errors, term, path)
    key = term.get("topologyKey") or ""
    if not key:
        errors.append(required(f"{path}.topologyKey", "can not be empty"))
    check_qualified_name(errors, key, f"{path}.topologyKey")


def _label_keys(errors: Errors, term: Json, path: str) -> None:
    """Label keys whose values come from the pod. They extend `labelSelector`, which is therefore required."""
    selector = term.get("labelSelector")
    for field in ("matchLabelKeys", "mismatchLabelKeys"):
        keys = term.get(field)
        if keys and selector is None:
            errors.append(forbidden(f"{path}.{field}", "must not be specified when labelSelector is not set"))
        elif keys:
            for index, key in enumerate(keys):
                check_qualified_name(errors, key, f"{path}.{field}[{index}]")
    matched, mismatched = term.get("matchLabelKeys") or (), term.get("mismatchLabelKeys") or ()
    if selector is not None and matched:
        seen = set(selector.get("matchLabels") or ())
        for expression in selector.get("matchExpressions") or ():
            key = expression.get("key") or ""
            if key in matched and key in seen:
                errors.append(invalid(f"{path}[{matched.index(key)}]", key, "exists in both matchLabelKeys and labelSelector"))
            seen.add(key)
    for index, key in enumerate(matched):
        if key in mismatched:
            errors.append(invalid(f"{path}.matchLabelKeys[{index}]", key, "exists in both matchLabelKeys and mismatchLabelKeys"))


def _toleration(errors: Errors, toleration: Json, path: str) -> None:
    key, operator = toleration.get("key") or "", toleration.get("operator") or ""
    value, effect = toleration.get("value") or "", toleration.get("effect") or ""
    if key:
        check_qualified_name(errors, key, f"{path}.key")
    elif operator != "Exists":
        errors.append(invalid(f"{path}.operator", operator, _ANY_KEY))
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        errors.append(invalid(f"{path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"))
    if operator in ("Equal", ""):
        if value and (messages := field_checks.label_value_errors(value)):
            errors.append(invalid(f"{path}.operator", value, ";".join(messages)))
    elif operator == "Exists":
        if value:
            errors.append(invalid(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'"))
    else:
        allowed = ("Equal", "Exists", "Lt", "Gt") if operator in ("Lt", "Gt") else ("Equal", "Exists")
        errors.append(not_supported(f"{path}.operator", operator, allowed))
    if effect and effect not in EFFECTS:
        errors.append(not_supported(f"{path}.effect", effect, EFFECTS))


def _spread(errors: Errors, constraint: Json, later: Counter[tuple[str | None, str | None]], path: str) -> None:
    skew, key, action = (
        constraint.get("maxSkew") or 0,
        constraint.get("topologyKey") or "",
        constraint.get("whenUnsatisfiable") or "",
    )
    if skew <= 0:
        errors.append(invalid(f"{path}.maxSkew", skew, NOT_POSITIVE))
    if not key:
        errors.append(required(f"{path}.topologyKey", "can not be empty"))
    if action not in ("DoNotSchedule", "ScheduleAnyway"):
        errors.append(not_supported(f"{path}.whenUnsatisfiable", action, ("DoNotSchedule", "ScheduleAnyway")))
    if later[key, action]:
        errors.append(duplicate(f"{path}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}"))
    if (domains := constraint.get("minDomains")) is not None:
        if domains <= 0:
            errors.append(invalid(f"{path}.minDomains", domains, NOT_POSITIVE))
        if action != "DoNotSchedule":
            errors.append(
                invalid(f"{path}.minDomains", domains, f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}")
            )
    for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if (policy := constraint.get(field)) is not None and policy not in ("Honor", "Ignore"):
            errors.append(not_supported(f"{path}.{field}", policy, ("Honor", "Ignore")))
    _label_keys(errors, constraint, path)
    selector_errors(errors, constraint.get("labelSelector"), f"{path}.labelSelector")
