"""`anyOf`, `oneOf`, `allOf` and `not` over a value, with the errors of the branch that came nearest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.schemas.field_errors import FieldError, invalid
from sliceworks.schemas.model import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.schemas.model import Schema

    Validate = Callable[[Schema, Any, str, Any, list[FieldError]], None]

KEYWORDS = frozenset({"anyOf", "oneOf", "allOf", "not"})


def logic_errors(schema: Schema, value: Any, path: str, errors: list[FieldError], validate: Validate) -> None:
    """Appends what the logical keywords find. Their own message names no field: the path is inside the text."""
    if schema.any_of:
        _any_of(schema, value, path, errors, validate)
    if schema.one_of:
        _one_of(schema, value, path, errors, validate)
    if schema.all_of:
        _all_of(schema, value, path, errors, validate)
    if schema.negated is not None and not _found(schema.negated, value, path, validate):
        errors.append(_told(path, "must not validate the schema (not)"))


def _found(branch: Schema, value: Any, path: str, validate: Validate) -> list[FieldError]:
    errors: list[FieldError] = []
    validate(branch, value, path, MISSING, errors)
    return errors


def _any_of(schema: Schema, value: Any, path: str, errors: list[FieldError], validate: Validate) -> None:
    results = [_found(branch, value, path, validate) for branch in schema.any_of]
    if all(results):
        errors.append(_told(path, "must validate at least one schema (anyOf)"))
        errors.extend(_nearest(schema.any_of, results, value))


def _one_of(schema: Schema, value: Any, path: str, errors: list[FieldError], validate: Validate) -> None:
    results = [_found(branch, value, path, validate) for branch in schema.one_of]
    valid = sum(not result for result in results)
    if valid == 0:
        errors.append(_told(path, "must validate one and only one schema (oneOf). Found none valid"))
        errors.extend(_nearest(schema.one_of, results, value))
    elif valid > 1:
        errors.append(_told(path, f"must validate one and only one schema (oneOf). Found {valid} valid alternatives"))


def _all_of(schema: Schema, value: Any, path: str, errors: list[FieldError], validate: Validate) -> None:
    results = [_found(branch, value, path, validate) for branch in schema.all_of]
    for result in results:
        errors.extend(result)
    if any(results):
        none = ". None validated" if all(results) else ""
        errors.append(_told(path, f"must validate all the schemas (allOf){none}"))


def _nearest(branches: tuple[Schema, ...], results: list[list[FieldError]], value: Any) -> list[FieldError]:
    """The errors of the branch that looked at most of the value: kube-apiserver reports those, the first of equals."""
    reach = [_reach(branch, value) for branch in branches]
    return results[reach.index(max(reach))]


def _reach(schema: Schema, value: Any) -> int:
    """How many checks of a branch apply to the value."""
    count = 1
    if isinstance(value, dict):
        count += sum(_reach(child, value[key]) for key, child in schema.properties.items() if key in value)
    elif isinstance(value, list) and schema.items is not None:
        count += sum(_reach(schema.items, item) for item in value)
    return count + sum(bool(mark) for mark in (schema.type, schema.format))


def _told(path: str, text: str) -> FieldError:
    return invalid("", "", f'"{path}" {text}')
