"""Where a pod may run: affinity, tolerations, topology spread, scheduling gates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.schemas.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required
from sliceworks.schemas.rules import name_rules
from sliceworks.schemas.rules.selectors import node_selector_errors, node_term_errors, selector_errors
from sliceworks.schemas.rules.texts import NOT_POSITIVE, Errors, go_struct, named, qualified, unique

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sliceworks.schemas.rules.shape import Json

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_ANY_KEY = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'


def affinity_errors(out: Errors, affinity: Json, path: str) -> None:
    if (node := affinity.get("nodeAffinity")) is not None:
        if (selector := node.get(_REQUIRED)) is not None:
            node_selector_errors(out, selector, f"{path}.nodeAffinity.{_REQUIRED}")
        for index, term in enumerate(node.get(_PREFERRED) or ()):
            place = f"{path}.nodeAffinity.{_PREFERRED}[{index}]"
            _weight(out, term, place)
            node_term_errors(out, term.get("preference") or {}, f"{place}.preference", check_values=False)
    for field in ("podAffinity", "podAntiAffinity"):
        if (pods := affinity.get(field)) is not None:
            for index, term in enumerate(pods.get(_REQUIRED) or ()):
                _pod_term(out, term, f"{path}.{field}.{_REQUIRED}[{index}]")
            for index, term in enumerate(pods.get(_PREFERRED) or ()):
                _weight(out, term, f"{path}.{field}.{_PREFERRED}[{index}]")
                _pod_term(out, term.get("podAffinityTerm") or {}, f"{path}.{field}.{_PREFERRED}[{index}].podAffinityTerm")


def toleration_errors(out: Errors, tolerations: Sequence[Json], path: str) -> None:
    for index, toleration in enumerate(tolerations):
        _toleration(out, toleration, f"{path}[{index}]")


def taint_errors(out: Errors, taints: Sequence[Json], path: str) -> None:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        key, value, effect = taint.get("key") or "", taint.get("value") or "", taint.get("effect") or ""
        qualified(out, key, f"{path}[{index}].key")
        if found := name_rules.label_value_errors(value):
            out.append(invalid(f"{path}[{index}].value", value, ";".join(found)))
        if not effect:
            out.append(required(f"{path}[{index}].effect"))
        elif effect not in EFFECTS:
            out.append(not_supported(f"{path}[{index}].effect", effect, EFFECTS))
        if (effect, key) in seen:
            shown = go_struct({"value": "", **taint}, "key", "value", "effect", "timeAdded")
            words = "taints must be unique by key and effect pair"
            out.append(FieldError("FieldValueDuplicate", f"{path}[{index}]", shown, words))
        seen.add((effect, key))


def gate_errors(out: Errors, gates: Sequence[Json], path: str) -> None:
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        qualified(out, gate.get("name") or "", f"{path}[{index}]")
        unique(out, seen, gate.get("name") or "", f"{path}[{index}]")


def spread_errors(out: Errors, constraints: Sequence[Json], path: str) -> None:
    for index, constraint in enumerate(constraints):
        _spread(out, constraint, constraints[index + 1 :], f"{path}[{index}]")


def _weight(out: Errors, term: Json, path: str) -> None:
    if not 1 <= (term.get("weight") or 0) <= 100:
        out.append(invalid(f"{path}.weight", term.get("weight") or 0, "must be in the range 1-100"))


def _pod_term(out: Errors, term: Json, path: str) -> None:
    selector_errors(out, term.get("labelSelector"), f"{path}.labelSelector")
    selector_errors(out, term.get("namespaceSelector"), f"{path}.namespaceSelector")
    for name in term.get("namespaces") or ():
        named(out, name, f"{path}.namespace", name_rules.dns1123_label_errors)
    _label_keys(out, term, path)
    key = term.get("topologyKey") or ""
    if not key:
        out.append(required(f"{path}.topologyKey", "can not be empty"))
    qualified(out, key, f"{path}.topologyKey")


def _label_keys(out: Errors, term: Json, path: str) -> None:
    """Keys whose values are taken from the pod: they add to a selector, so there must be one."""
    selector = term.get("labelSelector")
    for field in ("matchLabelKeys", "mismatchLabelKeys"):
        keys = term.get(field)
        if keys and selector is None:
            out.append(forbidden(f"{path}.{field}", "must not be specified when labelSelector is not set"))
        elif keys:
            for index, key in enumerate(keys):
                qualified(out, key, f"{path}.{field}[{index}]")
    matched, mismatched = term.get("matchLabelKeys") or (), term.get("mismatchLabelKeys") or ()
    if selector is not None and matched:
        seen = set(selector.get("matchLabels") or ())
        for expression in selector.get("matchExpressions") or ():
            key = expression.get("key") or ""
            if key in matched and key in seen:
                out.append(invalid(f"{path}[{matched.index(key)}]", key, "exists in both matchLabelKeys and labelSelector"))
            seen.add(key)
    for index, key in enumerate(matched):
        if key in mismatched:
            out.append(invalid(f"{path}.matchLabelKeys[{index}]", key, "exists in both matchLabelKeys and mismatchLabelKeys"))


def _toleration(out: Errors, toleration: Json, path: str) -> None:
    key, operator = toleration.get("key") or "", toleration.get("operator") or ""
    value, effect = toleration.get("value") or "", toleration.get("effect") or ""
    if key:
        qualified(out, key, f"{path}.key")
    elif operator != "Exists":
        out.append(invalid(f"{path}.operator", operator, _ANY_KEY))
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        out.append(invalid(f"{path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"))
    if operator in ("Equal", ""):
        if value and (found := name_rules.label_value_errors(value)):
            out.append(invalid(f"{path}.operator", value, ";".join(found)))
    elif operator == "Exists":
        if value:
            out.append(invalid(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'"))
    else:
        allowed = ("Equal", "Exists", "Lt", "Gt") if operator in ("Lt", "Gt") else ("Equal", "Exists")
        out.append(not_supported(f"{path}.operator", operator, allowed))
    if effect and effect not in EFFECTS:
        out.append(not_supported(f"{path}.effect", effect, EFFECTS))


def _spread(out: Errors, constraint: Json, later: Sequence[Json], path: str) -> None:
    skew, key, action = (
        constraint.get("maxSkew") or 0,
        constraint.get("topologyKey") or "",
        constraint.get("whenUnsatisfiable") or "",
    )
    if skew <= 0:
        out.append(invalid(f"{path}.maxSkew", skew, NOT_POSITIVE))
    if not key:
        out.append(required(f"{path}.topologyKey", "can not be empty"))
    if action not in ("DoNotSchedule", "ScheduleAnyway"):
        out.append(not_supported(f"{path}.whenUnsatisfiable", action, ("DoNotSchedule", "ScheduleAnyway")))
    if any((other.get("topologyKey"), other.get("whenUnsatisfiable")) == (key, action) for other in later):
        out.append(duplicate(f"{path}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}"))
    if (domains := constraint.get("minDomains")) is not None:
        if domains <= 0:
            out.append(invalid(f"{path}.minDomains", domains, NOT_POSITIVE))
        if action != "DoNotSchedule":
            out.append(
                invalid(f"{path}.minDomains", domains, f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}")
            )
    for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if (policy := constraint.get(field)) is not None and policy not in ("Honor", "Ignore"):
            out.append(not_supported(f"{path}.{field}", policy, ("Honor", "Ignore")))
    _label_keys(out, constraint, path)
    selector_errors(out, constraint.get("labelSelector"), f"{path}.labelSelector")
