"""Sizes of values for cost estimates: the largest that a schema allows, or those of actual values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.cel.types import escape_field_name
from sliceworks.schemas import MISSING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sliceworks.schemas import Schema

    Path = tuple[str, ...]
    Sizes = Callable[[Path], "Size | None"]

MAX_REQUEST_SIZE = 3 * 1024 * 1024
ITEMS, VALUES, KEYS, INDICES = "@items", "@values", "@keys", "@indices"
"""Steps of a path into all items of a list, and all values or keys of a map."""


class Size(NamedTuple):
    """The range of the number of characters, items or entries of a value."""

    low: int
    high: int


def schema_sizes(schema: Schema, *, resource: bool) -> Sizes:
    """The sizes that a schema's limits allow. All variables have this schema."""

    def size(path: Path) -> Size | None:
        if not path:
            return None
        node: Schema | _StringNode | None = schema
        is_resource = resource
        for name in path[1:]:
            node, is_resource = _child(node, name, is_resource)
        return Size(0, _max_size(node)) if node is not None else None

    return size


class _StringNode:
    """A string without limits of its own: a name of the resource, or a key of a map, which Kubernetes does not count."""

    def __init__(self, size: int) -> None:
        self.size = size


_NAME, _KEY, _METADATA = _StringNode(MAX_REQUEST_SIZE - 2), _StringNode(0), _StringNode(0)
_RESOURCE_FIELDS = {"apiVersion": _NAME, "kind": _NAME, "metadata": _METADATA}


def _child(node: Schema | _StringNode | None, name: str, is_resource: bool) -> tuple[Schema | _StringNode | None, bool]:
    if node is _METADATA:
        return (_NAME if name in {"name", "generateName"} else None), False
    if node is None or isinstance(node, _StringNode):
        return None, False
    if is_resource and name in _RESOURCE_FIELDS:
        return _RESOURCE_FIELDS[name], False
    below: Schema | None = None
    if name in (ITEMS, VALUES):
        below = node.items if node.type == "array" else node.additional
    elif name == KEYS:
        return (_KEY, False) if node.additional is not None and not node.properties else (None, False)
    else:
        below = next((child for real, child in node.properties.items() if name in (escape_field_name(real), real)), None)
    return below, below is not None and below.embedded_resource


def _max_size(node: Schema | _StringNode) -> int:
    if isinstance(node, _StringNode):
        return node.size
    if node.int_or_string:
        return 4 * max(node.max_length, 0) if node.max_length is not None else MAX_REQUEST_SIZE - 2
    if node.type == "array" and node.items is not None:
        return max(node.max_items, 0) if node.max_items is not None else (MAX_REQUEST_SIZE - 2) // (min_size(node.items) + 1)
    if node.type == "object" and node.additional is not None and not node.properties:
        if node.max_properties is not None:
            return max(node.max_properties, 0)
        return (MAX_REQUEST_SIZE - 2) // (min_size(node.additional) + 6)
    return _max_length(node) if node.type == "string" else 0


def _max_length(node: Schema) -> int:
    if node.format in _FORMAT_SIZES:
        return _FORMAT_SIZES[node.format][1]
    if node.max_length is not None:
        return max(node.max_length, 0) * (1 if node.format == "byte" else 4)
    if node.enum and node.format != "byte":
        return max((len(value.encode()) for value in node.enum if isinstance(value, str)), default=0)
    return MAX_REQUEST_SIZE - 2


_FORMAT_SIZES: dict[str | None, tuple[int, int]] = {"duration": (3, 32), "date": (12, 12), "date-time": (21, 32)}
_MIN_SIZES = {"array": 2, "string": 2, "boolean": 4, "number": 1, "integer": 1}


def min_size(schema: Schema) -> int:
    """The minimum number of bytes of a value in JSON."""
    if schema.int_or_string:
        return 1
    if schema.type != "object":
        return _FORMAT_SIZES[schema.format][0] if schema.type == "string" and schema.format in _FORMAT_SIZES else _json_size(schema)
    if schema.additional is not None and not schema.properties:
        return 2
    required = (name for name in schema.required if name in schema.properties and schema.properties[name].default is MISSING)
    return 2 + sum(len(name) + min_size(schema.properties[name]) + 4 for name in required if _is_visible(schema.properties[name]))


def _json_size(schema: Schema) -> int:
    return _MIN_SIZES.get(schema.type or "", 0)


def _is_visible(schema: Schema) -> bool:
    """Whether expressions can see a value."""
    if schema.type == "array":
        return schema.items is not None and _is_visible(schema.items)
    if schema.type == "object" and schema.additional is not None and not schema.properties:
        return _is_visible(schema.additional)
    return schema.int_or_string or schema.type == "object" or schema.type in _MIN_SIZES


def max_cardinality(schema: Schema) -> int:
    """How often a value of the schema fits into a request."""
    return MAX_REQUEST_SIZE // (min_size(schema) + 1)


def max_children(schema: Schema) -> int | None:
    """By how much a schema multiplies the number of its children; None without a limit."""
    if schema.type == "object" and schema.additional is not None:
        return None if schema.max_properties is None else max(schema.max_properties, 0)
    if schema.type == "array":
        return None if schema.max_items is None else max(schema.max_items, 0)
    return 1


def value_sizes(values: Mapping[str, Any], schema: Schema) -> Sizes:
    """The sizes of actual values: for each path, that of the largest one."""

    def size(path: Path) -> Size | None:
        if not path or path[0] not in values:
            return None
        values_at_path: list[Any] = [values[path[0]]]
        node: Schema | _StringNode | None = schema
        for name in path[1:]:
            values_at_path = [below for value in values_at_path for below in _below(value, name, node)]
            node, _ = _child(node, name, is_resource=False)
        return Size(
            0, max((len(value) if isinstance(value, str | bytes | list | dict) else 1 for value in values_at_path), default=0)
        )

    return size


def _below(value: Any, name: str, node: Schema | _StringNode | None) -> Iterator[Any]:
    if name == ITEMS:
        yield from value if isinstance(value, list) else ()
    elif name in (VALUES, KEYS):
        yield from (value.values() if name == VALUES else value) if isinstance(value, dict) else ()
    elif isinstance(value, dict):
        properties = node.properties if node is not None and not isinstance(node, _StringNode) else {}
        for real in (name, *(field for field in properties if escape_field_name(field) == name)):
            if real in value:
                yield value[real]
