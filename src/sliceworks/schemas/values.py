"""Validate one value against its schema: types, limits, enums, anyOf/oneOf/allOf/not, and items correlated with the old list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.schemas import formats, patterns
from sliceworks.schemas.field_errors import (
    FieldError,
    go_number,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
    type_invalid,
)
from sliceworks.schemas.model import MISSING

if TYPE_CHECKING:
    from sliceworks.schemas.model import Schema


def correlate_items(schema: Schema, value: list[Any], old: Any) -> list[Any]:
    """For each item of `value`, the item of `old` with the same keys, or MISSING."""
    if schema.list_type != "map" or old.__class__ is not list:
        return [MISSING] * len(value)
    before: dict[bytes, Any] = {}
    for item in old:
        before.setdefault(_item_key(schema, item), item)
    return [before.get(_item_key(schema, item), MISSING) for item in value]


def _item_key(schema: Schema, item: Any) -> bytes:
    """The identity of an item in a list of type `map`."""
    if not isinstance(item, dict):
        return b""
    return orjson.dumps([item.get(key, _default(schema, key)) for key in schema.list_map_keys], option=orjson.OPT_SORT_KEYS)


def _default(schema: Schema, key: str) -> Any:
    child = schema.items.properties.get(key) if schema.items is not None else None
    return orjson.loads(child.default) if child is not None and isinstance(child.default, bytes) and not child.name else None


_LOGICAL = frozenset({"anyOf", "oneOf", "allOf", "not"})


def _logic_errors(schema: Schema, value: Any, path: str, errors: list[FieldError]) -> None:
    """Append the errors of the logical keywords. Their FieldError has no path: the message contains it."""
    if schema.any_of:
        _any_of(schema, value, path, errors)
    if schema.one_of:
        _one_of(schema, value, path, errors)
    if schema.all_of:
        _all_of(schema, value, path, errors)
    if schema.negated is not None and not _branch_errors(schema.negated, value, path):
        errors.append(_logic_error(path, "must not validate the schema (not)"))


def _branch_errors(branch: Schema, value: Any, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    value_errors(branch, value, path, MISSING, errors)
    return errors


def _any_of(schema: Schema, value: Any, path: str, errors: list[FieldError]) -> None:
    results = [_branch_errors(branch, value, path) for branch in schema.any_of]
    if all(results):
        errors.append(_logic_error(path, "must validate at least one schema (anyOf)"))
        errors.extend(_nearest(schema.any_of, results, value))


def _one_of(schema: Schema, value: Any, path: str, errors: list[FieldError]) -> None:
    results = [_branch_errors(branch, value, path) for branch in schema.one_of]
    valid = sum(not result for result in results)
    if valid == 0:
        errors.append(_logic_error(path, "must validate one and only one schema (oneOf). Found none valid"))
        errors.extend(_nearest(schema.one_of, results, value))
    elif valid > 1:
        errors.append(_logic_error(path, f"must validate one and only one schema (oneOf). Found {valid} valid alternatives"))


def _all_of(schema: Schema, value: Any, path: str, errors: list[FieldError]) -> None:
    results = [_branch_errors(branch, value, path) for branch in schema.all_of]
    for result in results:
        errors.extend(result)
    if any(results):
        none = ". None validated" if all(results) else ""
        errors.append(_logic_error(path, f"must validate all the schemas (allOf){none}"))


def _nearest(branches: tuple[Schema, ...], results: list[list[FieldError]], value: Any) -> list[FieldError]:
    """The errors of the branch with the most applicable checks, the first on a tie: those that kube-apiserver reports."""
    reach = [_reach(branch, value) for branch in branches]
    return results[reach.index(max(reach))]


def _reach(schema: Schema, value: Any) -> int:
    """The number of checks of a branch that apply to the value."""
    count = 1
    if isinstance(value, dict):
        count += sum(_reach(child, value[key]) for key, child in schema.properties.items() if key in value)
    elif isinstance(value, list) and schema.items is not None:
        count += sum(_reach(schema.items, item) for item in value)
    return count + sum(bool(mark) for mark in (schema.type, schema.format))


def _logic_error(path: str, text: str) -> FieldError:
    return invalid("", "", f'"{path}" {text}')


_KINDS: dict[type, str] = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
_FORMATS: dict[type, str] = {int: "int64", float: "float64"}


def value_errors(schema: Schema, value: Any, path: str, old: Any, errors: list[FieldError]) -> None:
    """Append the errors of the value and its children. Values unchanged since `old` are not validated (ratcheting)."""
    if old is not MISSING and old == value:
        return
    if value is None:
        _null(schema, path, errors)
        return
    kind = value.__class__
    if schema.type is not None or schema.int_or_string:
        _type(schema, value, kind, path, errors)
    if schema.node.keys() & _LOGICAL:
        _logic_errors(schema, value, path, errors)
    if kind is str:
        _string(schema, value, path, errors)
    elif kind is int or kind is float:
        _number(schema, value, path, errors)
    elif kind is list:
        _list(schema, value, path, old, errors)
    if schema.enum is not None and not any(_same(value, allowed) for allowed in schema.enum):
        errors.append(_not_in_enum(schema, value, path))
    if kind is dict:
        _map(schema, value, path, old, errors)


def _null(schema: Schema, path: str, errors: list[FieldError]) -> None:
    types = _types(schema)
    if types and not schema.nullable:
        errors.append(_wrong_type(path, ",".join(types), "null"))
    if schema.enum is not None:
        errors.append(_not_in_enum(schema, None, path))


def _types(schema: Schema) -> tuple[str, ...]:
    if schema.int_or_string:
        return ("integer", "string")
    return (schema.type,) if schema.type else ()


def _type(schema: Schema, value: Any, kind: type, path: str, errors: list[FieldError]) -> None:
    actual = _KINDS[kind]
    if actual == schema.type:
        return
    types = _types(schema)
    is_integral = "integer" in types and kind is float and abs(value) < 2**63 and value == int(value)
    if actual in types or is_integral or (kind is int and "number" in types):
        return
    form = formats.normalize(schema.format)
    if form is not None and kind is not str and kind is not list:
        errors.append(_wrong_type(path, form, _FORMATS.get(kind, "")))
    elif form is None or "number" in types or "integer" in types or kind not in (str, list):
        errors.append(_wrong_type(path, ",".join(types), actual))


def _wrong_type(path: str, expected: str, actual: str) -> FieldError:
    return type_invalid(path, actual, f'{path} in body must be of type {expected}: "{actual}"')


def _string(schema: Schema, value: str, path: str, errors: list[FieldError]) -> None:
    if schema.max_length is not None and len(value) > schema.max_length:
        errors.append(too_long(path, schema.max_length))
    elif schema.min_length is not None and len(value) < schema.min_length:
        errors.append(invalid(path, value, f"{path} in body should be at least {schema.min_length} chars long"))
    elif schema.pattern and not (is_match := patterns.matches(schema.pattern, value)):
        problem = f"should match '{schema.pattern}'" if is_match is not None else "is too long for its pattern"
        errors.append(invalid(path, value, f"{path} in body {problem}"))
    form = formats.normalize(schema.format)
    if form is not None and not formats.is_valid(form, value):
        errors.append(type_invalid(path, value, f"{path} in body must be of type {form}: {_quoted(value)}"))


def _number(schema: Schema, value: float, path: str, errors: list[FieldError]) -> None:
    factor, low, high = schema.multiple_of, schema.minimum, schema.maximum
    if factor is not None and not _is_multiple(value, factor):
        errors.append(invalid(path, value, f"{path} in body should be a multiple of {_format_limit(factor, value)}"))
    if low is not None and (value <= low if schema.exclusive_minimum else value < low):
        bound = "greater than" if schema.exclusive_minimum else "greater than or equal to"
        errors.append(invalid(path, value, f"{path} in body should be {bound} {_format_limit(low, value)}"))
    if high is not None and (value >= high if schema.exclusive_maximum else value > high):
        bound = "less than" if schema.exclusive_maximum else "less than or equal to"
        errors.append(invalid(path, value, f"{path} in body should be {bound} {_format_limit(high, value)}"))


def _is_multiple(value: float, factor: float) -> bool:
    if isinstance(value, int) and int(factor) != 0:
        return value % int(factor) == 0
    quotient = value / factor
    return abs(quotient - round(quotient)) < 1e-9 * max(1.0, abs(quotient))


def _format_limit(limit: float, value: float) -> str:
    """A limit as Go prints it: truncated to an integer if the schema type is integer."""
    return str(int(limit)) if isinstance(value, int) else go_number(float(limit))


def _list(schema: Schema, value: list[Any], path: str, old: Any, errors: list[FieldError]) -> None:
    below = schema.items
    if below is not None:
        before = correlate_items(schema, value, old) if old is not MISSING else None
        for index, item in enumerate(value):
            if item.__class__ is not below.plain:
                value_errors(below, item, f"{path}[{index}]", before[index] if before else MISSING, errors)
    size = len(value)
    if schema.min_items is not None and size < schema.min_items:
        errors.append(invalid(path, size, f"{path} in body should have at least {schema.min_items} items"))
    if schema.max_items is not None and size > schema.max_items:
        errors.append(too_many(path, size, schema.max_items))
    if schema.unique_items and len({orjson.dumps(item, option=orjson.OPT_SORT_KEYS) for item in value}) != size:
        errors.append(invalid(path, "", f"{path} in body shouldn't contain duplicates"))


def _map(schema: Schema, value: dict[str, Any], path: str, old: Any, errors: list[FieldError]) -> None:
    size = len(value)
    if schema.min_properties is not None and size < schema.min_properties:
        errors.append(invalid(path, size, f"{path} in body should have at least {schema.min_properties} properties"))
    if schema.max_properties is not None and size > schema.max_properties:
        errors.append(too_many(path, size, schema.max_properties))
    before = old if old.__class__ is dict else {}
    prefix = f"{path}." if path else ""
    properties, additional = schema.properties, schema.additional
    for key, item in value.items():
        child = properties.get(key, additional)
        if child is None or item.__class__ is child.plain:
            continue
        if not child.name:
            value_errors(child, item, prefix + key, before.get(key, MISSING), errors)
        else:
            for branch in child.all_of:
                value_errors(branch, item, prefix + key, before.get(key, MISSING), errors)
    if schema.required:
        errors.extend(required(prefix + key) for key in schema.required if key not in value)


def _not_in_enum(schema: Schema, value: Any, path: str) -> FieldError:
    allowed = [item if isinstance(item, str) else orjson.dumps(item).decode() for item in schema.enum or ()]
    return not_supported(path, value, allowed)


def _same(left: Any, right: Any) -> bool:
    return bool(left == right) and isinstance(left, bool) == isinstance(right, bool)


def _quoted(text: str) -> str:
    return orjson.dumps(text).decode()
