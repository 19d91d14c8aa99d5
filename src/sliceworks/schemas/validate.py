"""Says what is wrong with an object: the rules of a built-in kind, or the structural schema of a custom resource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.schemas.field_errors import FieldError, invalid
from sliceworks.schemas.invariants import embedded_errors, list_errors
from sliceworks.schemas.model import MISSING
from sliceworks.schemas.plans import plan
from sliceworks.schemas.values import value_errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.schemas.model import Check, Schema
    from sliceworks.schemas.plans import Plan

    # Runs all CEL rules of a schema: (schema, value, old value or MISSING, path).
    Cel = Callable[[Schema, Any, Any, str], list[FieldError]]

_BLOCKING = frozenset(
    {"FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid"}
)
_UNCHECKED = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"
)


def validate(schema: Schema, value: Any, path: str = "", old: Any = None, *, cel: Cel | None = None) -> list[FieldError]:
    """Everything wrong with the value. With `old`, what was wrong before and did not change is let through, as on an update.

    `cel` is called once, for a schema with rules somewhere, unless an error says that the value has not the shape they expect.
    """
    errors: list[FieldError] = []
    _check(schema, value, path, errors)
    if schema.name:
        return errors
    before = MISSING if old is None else old
    value_errors(schema, value, path, before, errors)
    errors += embedded_errors(schema, value, path)
    if old is None or not list_errors(schema, old, path):
        errors += list_errors(schema, value, path)
    ruled = plan(schema, "rules", _rules) if cel is not None else None
    if ruled is not None and cel is not None:
        if any(error.reason in _BLOCKING for error in errors):
            errors.append(invalid("", None, _UNCHECKED))
        else:
            errors += cel(schema, value, before, path)
    return errors


def _check(schema: Schema, value: Any, path: str, errors: list[FieldError]) -> None:
    wanted = plan(schema, "checks", _checks)
    if wanted is not None:
        _run_checks(wanted, value, path, errors)


def _checks(schema: Schema) -> list[Check] | None:
    return schema.checks or None


def _rules(schema: Schema) -> bool | None:
    return bool(schema.rules) or any(branch.rules for branch in schema.all_of) or None


def _run_checks(wanted: Plan[list[Check]], value: Any, path: str, errors: list[FieldError]) -> None:
    if wanted.work is not None:
        for check in wanted.work:
            errors.extend(check(value, path))
    if value.__class__ is dict:
        for field, below in wanted.fields.items():
            item = value.get(field)
            if item is not None:
                _run_checks(below, item, f"{path}.{field}" if path else field, errors)
        if wanted.values is not None:
            for key, item in value.items():
                _run_checks(wanted.values, item, f"{path}[{key}]", errors)
    elif value.__class__ is list and wanted.items is not None:
        for index, item in enumerate(value):
            _run_checks(wanted.items, item, f"{path}[{index}]", errors)
