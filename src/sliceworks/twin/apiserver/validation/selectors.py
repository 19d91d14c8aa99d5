"""Label selectors and node selectors: validation and matching."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.schemas.field_errors import forbidden, invalid, required
from sliceworks.twin.apiserver.validation import field_checks
from sliceworks.twin.apiserver.validation.field_checks import Errors, check_name, check_qualified_name
from sliceworks.twin.apiserver.validation.object_meta import label_errors

if TYPE_CHECKING:
    from sliceworks.twin.apiserver.validation.defaults import Json

Labels = dict[str, str]
_VALUES_NEEDED = "must be specified when `operator` is 'In' or 'NotIn'"
_VALUES_UNWANTED = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"


def selector_errors(errors: Errors, selector: Json | None, path: str) -> None:
    if not selector:
        return
    if labels := selector.get("matchLabels"):
        label_errors(errors, labels, f"{path}.matchLabels")
    for index, term in enumerate(selector.get("matchExpressions") or ()):
        _requirement(errors, term, f"{path}.matchExpressions[{index}]")


def is_empty(selector: Json) -> bool:
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def is_usable(selector: Json | None) -> bool:
    """Whether all requirements have valid operators and values, so that the selector can match objects."""
    for term in (selector or {}).get("matchExpressions") or ():
        operator, values = term.get("operator"), term.get("values") or ()
        if operator not in ("In", "NotIn", "Exists", "DoesNotExist") or (operator in ("In", "NotIn")) != bool(values):
            return False
        if field_checks.qualified_name_errors(term.get("key") or "") or any(
            field_checks.label_value_errors(value) for value in values
        ):
            return False
    return not any(
        field_checks.qualified_name_errors(key) or field_checks.label_value_errors(value)
        for key, value in ((selector or {}).get("matchLabels") or {}).items()
    )


def matches(selector: Json | None, labels: Labels) -> bool:
    """Whether a label selector matches the labels. None matches nothing; an empty selector matches everything."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_meets(term, labels) for term in selector.get("matchExpressions") or ())


def node_selector_errors(errors: Errors, selector: Json, path: str) -> None:
    terms = selector.get("nodeSelectorTerms")
    if not terms:
        errors.append(required(f"{path}.nodeSelectorTerms", "must have at least one node selector term"))
        return
    for index, term in enumerate(terms):
        node_term_errors(errors, term, f"{path}.nodeSelectorTerms[{index}]")


def node_term_errors(errors: Errors, term: Json, path: str, *, check_values: bool = True) -> None:
    for index, need in enumerate(term.get("matchExpressions") or ()):
        _requirement(errors, need, f"{path}.matchExpressions[{index}]", of_nodes=True, check_values=check_values)
    for index, need in enumerate(term.get("matchFields") or ()):
        _field_requirement(errors, need, f"{path}.matchFields[{index}]")


def _requirement(errors: Errors, term: Json, path: str, *, of_nodes: bool = False, check_values: bool = True) -> None:
    operator, values = term.get("operator") or "", term.get("values") or ()
    if operator in ("In", "NotIn"):
        if not values:
            errors.append(required(f"{path}.values", _VALUES_NEEDED))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            errors.append(forbidden(f"{path}.values", _VALUES_UNWANTED))
    elif of_nodes and operator in ("Gt", "Lt"):
        if len(values) != 1:
            errors.append(required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'"))
    else:
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    check_qualified_name(errors, term.get("key") or "", f"{path}.key")
    for index, value in enumerate(values) if check_values else ():
        check_name(errors, value, f"{path}.values[{index}]", field_checks.label_value_errors)


def _meets(term: Json, labels: Labels) -> bool:
    operator, key = term.get("operator"), term.get("key")
    if operator == "In":
        return labels.get(key or "") in (term.get("values") or ())
    if operator == "NotIn":
        return labels.get(key or "") not in (term.get("values") or ())
    return (key in labels) == (operator == "Exists")


def _field_requirement(errors: Errors, need: Json, path: str) -> None:
    operator, values, key = need.get("operator") or "", need.get("values") or (), need.get("key") or ""
    if operator not in ("In", "NotIn"):
        errors.append(invalid(f"{path}.operator", operator, "not a valid selector operator"))
    elif len(values) != 1:
        errors.append(
            required(f"{path}.values", "must be only one value when `operator` is 'In' or 'NotIn' for node field selector")
        )
    if key != "metadata.name":
        errors.append(invalid(f"{path}.key", key, "not a valid field selector key"))
        return
    for index, value in enumerate(values):
        check_name(errors, value, f"{path}.values[{index}]", field_checks.dns1123_subdomain_errors)
