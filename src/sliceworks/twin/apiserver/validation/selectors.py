"""Label selectors and node selectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.errors import BadRequest
from sliceworks.kube.selectors import from_label_selector
from sliceworks.twin.apiserver.validation import error_list
from sliceworks.twin.apiserver.validation.object_meta import validate_labels

if TYPE_CHECKING:
    from sliceworks.kube.selectors import LabelSelector
    from sliceworks.twin.apiserver.validation.defaults import Json
    from sliceworks.twin.apiserver.validation.error_list import ErrorList


def validate_label_selector(errors: ErrorList, selector: Json | None, path: str) -> None:
    if not selector:
        return
    if labels := selector.get("matchLabels"):
        validate_labels(errors, labels, f"{path}.matchLabels")
    for index, term in enumerate(selector.get("matchExpressions") or ()):
        _validate_requirement(errors, term, f"{path}.matchExpressions[{index}]")


def is_empty(selector: Json) -> bool:
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def parse_label_selector(selector: Json | None) -> LabelSelector | None:
    """The selector as a matcher of labels; None if it is invalid."""
    try:
        return from_label_selector(selector)
    except BadRequest:
        return None


def validate_node_selector(errors: ErrorList, selector: Json, path: str) -> None:
    terms = selector.get("nodeSelectorTerms")
    if not terms:
        errors.required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
        return
    for index, term in enumerate(terms):
        validate_node_selector_term(errors, term, f"{path}.nodeSelectorTerms[{index}]")


def validate_node_selector_term(errors: ErrorList, term: Json, path: str, *, check_values: bool = True) -> None:
    for index, requirement in enumerate(term.get("matchExpressions") or ()):
        _validate_requirement(errors, requirement, f"{path}.matchExpressions[{index}]", of_nodes=True, check_values=check_values)
    for index, requirement in enumerate(term.get("matchFields") or ()):
        _validate_field_requirement(errors, requirement, f"{path}.matchFields[{index}]")


def _validate_requirement(errors: ErrorList, term: Json, path: str, *, of_nodes: bool = False, check_values: bool = True) -> None:
    operator, values = term.get("operator") or "", term.get("values") or ()
    if operator in ("In", "NotIn"):
        if not values:
            errors.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            errors.forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
    elif of_nodes and operator in ("Gt", "Lt"):
        if len(values) != 1:
            errors.required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
    else:
        errors.invalid(f"{path}.operator", operator, "not a valid selector operator")
    errors.check_qualified_name(term.get("key") or "", f"{path}.key")
    for index, value in enumerate(values) if check_values else ():
        errors.check_name(value, f"{path}.values[{index}]", error_list.label_value_errors)


def _validate_field_requirement(errors: ErrorList, requirement: Json, path: str) -> None:
    operator, values, key = requirement.get("operator") or "", requirement.get("values") or (), requirement.get("key") or ""
    if operator not in ("In", "NotIn"):
        errors.invalid(f"{path}.operator", operator, "not a valid selector operator")
    elif len(values) != 1:
        errors.required(f"{path}.values", "must be only one value when `operator` is 'In' or 'NotIn' for node field selector")
    if key != "metadata.name":
        errors.invalid(f"{path}.key", key, "not a valid field selector key")
        return
    for index, value in enumerate(values):
        errors.check_dns_subdomain(value, f"{path}.values[{index}]")
