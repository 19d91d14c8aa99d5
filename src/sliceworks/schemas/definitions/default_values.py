"""Whether the defaults in a definition's schema are themselves valid and hold nothing unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.schemas.field_errors import FieldError, invalid
from sliceworks.schemas.golang import TypeMismatch
from sliceworks.schemas.invariants import embedded_errors
from sliceworks.schemas.model import MISSING
from sliceworks.schemas.prune import prune_value
from sliceworks.schemas.values import value_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.schemas.model import Schema

_META_FIELDS = ("metadata", "apiVersion", "kind")


def default_errors(schema: Schema, path: str, *, root: bool = True) -> Iterator[FieldError]:
    """What is wrong with the defaults at and below a node. Defaults inside of metadata are not looked at."""
    if isinstance(schema.default, bytes) and not root:
        yield from _own(schema, orjson.loads(schema.default), f"{path}.default")
    if schema.items is not None:
        yield from default_errors(schema.items, f"{path}.items", root=False)
    for name, child in schema.properties.items():
        if not child.name and not ((root or schema.embedded_resource) and name in _META_FIELDS):
            yield from default_errors(child, f"{path}.properties[{name}]", root=False)


def _own(schema: Schema, value: Any, path: str) -> Iterator[FieldError]:
    pruned = orjson.loads(orjson.dumps(value))
    unknown: list[str] = []
    try:
        prune_value(schema, pruned, unknown)
    except TypeMismatch as mismatch:
        yield invalid(path, value, str(mismatch))
        return
    if unknown:
        yield invalid(path, value, "must not have unknown fields")
    errors = embedded_errors(schema, value, path)
    if errors:
        yield from errors
        return
    found: list[FieldError] = []
    value_errors(schema, value, "", MISSING, found)
    for error in found:
        yield FieldError(error.reason, f"{path}.{error.path}" if error.path else path, error.value, error.detail)
