"""Validate a whole object: built-in checks, structural schema, list types and embedded resources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import names
from sliceworks.schemas.field_errors import FieldError, RulesNotChecked, duplicate, invalid, required
from sliceworks.schemas.model import MISSING, plan
from sliceworks.schemas.pruning import is_embedded
from sliceworks.schemas.values import value_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sliceworks.schemas.model import Check, Plan, Schema

    Rule = Callable[[Schema, Any, str], Iterator[FieldError]]
    Cel = Callable[[Schema, Any, Any, str], list[FieldError]]


def list_errors(schema: Schema, value: Any, path: str) -> list[FieldError]:
    """Errors of duplicate items in lists of type `set` and `map`."""
    lists = plan(schema, "lists", _has_keys)
    errors: list[FieldError] = []
    if lists is not None:
        _walk(lists, value, path, _duplicates, errors)
    return errors


def embedded_errors(schema: Schema, value: Any, path: str) -> list[FieldError]:
    """Errors of the type and metadata of embedded resources."""
    embedded = plan(schema, "embedded", is_embedded)
    errors: list[FieldError] = []
    if embedded is not None:
        _walk(embedded, value, path, _embedded, errors)
    return errors


def _has_keys(schema: Schema) -> bool | None:
    return schema.list_type in ("set", "map") or None


def _walk(node: Plan[bool], value: Any, path: str, rule: Rule, errors: list[FieldError]) -> None:
    if node.work:
        errors.extend(rule(node.schema, value, path))
    if value.__class__ is dict:
        for key, item in value.items():
            below = node.fields.get(key)
            if below is not None:
                _walk(below, item, f"{path}.{key}" if path else key, rule, errors)
            elif node.values is not None and key not in node.schema.properties:
                _walk(node.values, item, f"{path}[{key}]", rule, errors)
    elif value.__class__ is list and node.items is not None:
        for index, item in enumerate(value):
            _walk(node.items, item, f"{path}[{index}]", rule, errors)


def _duplicates(schema: Schema, value: Any, path: str) -> Iterator[FieldError]:
    if value.__class__ is not list:
        return
    keyed = schema.list_type == "map"
    if keyed:
        odd = next((index for index, item in enumerate(value) if item is not None and not isinstance(item, dict)), None)
        if odd is not None:
            yield invalid(f"{path}[{odd}]", value[odd], "must be an object for an array of list-type map")
            return
    if len(value) < 2:
        return
    counts: dict[bytes, int] = {}
    for index, item in enumerate(value):
        key = {name: item[name] for name in schema.list_map_keys if name in item} if keyed and item is not None else item
        text = orjson.dumps(key, option=orjson.OPT_SORT_KEYS)
        counts[text] = counts.get(text, 0) + 1
        if counts[text] == 2:
            yield duplicate(f"{path}[{index}]", key)


def _embedded(schema: Schema, value: Any, path: str) -> Iterator[FieldError]:
    if value.__class__ is not dict:
        return
    prefix = f"{path}." if path else ""
    for field in ("apiVersion", "kind"):
        if field not in value:
            yield required(prefix + field)
    if "apiVersion" in value:
        yield from _api_version(value["apiVersion"], prefix + "apiVersion")
    if "kind" in value:
        yield from _kind(value["kind"], prefix + "kind")
    metadata = value.get("metadata")
    if isinstance(metadata, dict):
        yield from _metadata(metadata, prefix + "metadata")


def _api_version(value: Any, path: str) -> Iterator[FieldError]:
    if not isinstance(value, str):
        yield invalid(path, value, "must be a string")
    elif not value:
        yield invalid(path, value, "must not be empty")
    elif value.count("/") > 1:
        yield invalid(path, value, f"unexpected GroupVersion string: {value}")


def _kind(value: Any, path: str) -> Iterator[FieldError]:
    if not isinstance(value, str):
        yield invalid(path, value, "must be a string")
    elif not value:
        yield invalid(path, value, "must not be empty")
    else:
        wrong = names.dns1035_label_errors(value.lower())
        if wrong:
            yield invalid(path, value, "may have mixed case, but should otherwise match: " + ",".join(wrong))


def _metadata(metadata: dict[str, Any], path: str) -> Iterator[FieldError]:
    from sliceworks.schemas.builtins import OBJECT_META, builtin_scheme

    named = metadata if metadata.get("name") else {**metadata, "name": "fakename"}
    for check in builtin_scheme().component(OBJECT_META).checks:
        yield from check(named, path)


_BLOCKING = frozenset(
    {"FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid"}
)
_UNCHECKED = (
    "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation"
)


def validate(schema: Schema, value: Any, path: str = "", old: Any = None, *, cel: Cel | None = None) -> list[FieldError]:
    """All errors of the value. With `old`, errors of unchanged values are ignored (ratcheting), as on an update.

    `cel` is called once if the schema has CEL rules, unless an earlier error shows that the value has the wrong types for them.
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
    if cel is not None and has_rules(schema):
        if any(error.reason in _BLOCKING for error in errors):
            errors.append(RulesNotChecked("FieldValueInvalid", "", None, _UNCHECKED))
        else:
            errors += cel(schema, value, before, path)
    return errors


def _check(schema: Schema, value: Any, path: str, errors: list[FieldError]) -> None:
    checks = plan(schema, "checks", _checks)
    if checks is not None:
        _run_checks(checks, value, path, errors)


def _checks(schema: Schema) -> list[Check] | None:
    return schema.checks or None


def has_rules(schema: Schema) -> bool:
    """Whether a schema has CEL rules on any of its nodes."""
    return plan(schema, "rules", _rules) is not None


def _rules(schema: Schema) -> bool | None:
    return bool(schema.rules) or any(branch.rules for branch in schema.all_of) or None


def _run_checks(node: Plan[list[Check]], value: Any, path: str, errors: list[FieldError]) -> None:
    if node.work is not None:
        for check in node.work:
            errors.extend(check(value, path))
    if value.__class__ is dict:
        for field, below in node.fields.items():
            item = value.get(field)
            if item is not None:
                _run_checks(below, item, f"{path}.{field}" if path else field, errors)
        if node.values is not None:
            for key, item in value.items():
                _run_checks(node.values, item, f"{path}[{key}]", errors)
    elif value.__class__ is list and node.items is not None:
        for index, item in enumerate(value):
            _run_checks(node.items, item, f"{path}[{index}]", errors)
