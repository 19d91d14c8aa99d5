"""Converts between Terraform attributes and fields of Google's APIs.

By default `some_name` becomes `someName` and a single block becomes an object; `FieldNames` lists the exceptions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sliceworks.base.names import to_camel_case
from sliceworks.infra.provider.protocol import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.infra.provider.schema import Attribute, Block, Nested

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FieldNames:
    """Exceptions to the default conversion, by path in Terraform (`node_config.taint`).

    `renamed` gives the path of the API's field relative to its siblings (`a.b` is nested); `local` attributes exist only in
    Terraform; `sent` are computed by the provider and sent anyway.
    """

    renamed: Mapping[str, str] = field(default_factory=dict)
    local: frozenset[str] = frozenset()
    sent: frozenset[str] = frozenset()
    upper: frozenset[str] = frozenset()
    """Enum attributes that the API writes in upper case."""


_LOCAL = frozenset({"deletion_policy", "id"})
"""Attributes of many types that only Terraform and the provider read."""


def to_api_body(block: Block, state: Object, names: FieldNames, at: str = "") -> Object:
    """The request body of a block's values, without unset ones."""
    body: Object = {}
    for name, attribute in block.attributes.items():
        value = state.get(name)
        path = at + name
        silent = path in names.local or path in _LOCAL or (attribute.only_computed and path not in names.sent)
        if silent or value is None or value is UNKNOWN:
            continue
        _put(body, names.renamed.get(path, to_camel_case(name)), _to_api(value))
    for name, nested in block.blocks.items():
        path = at + name
        if path in names.local or not state.get(name):
            continue
        _put(body, names.renamed.get(path, to_camel_case(name)), _to_object(nested, state[name], names, f"{path}."))
    return body


def _to_object(nested: Nested, value: Any, names: FieldNames, at: str) -> Any:
    if nested.nesting == "single":
        return to_api_body(nested.block, value, names, at)
    if nested.single:
        return to_api_body(nested.block, value[0], names, at)
    return [to_api_body(nested.block, item, names, at) for item in value]


def _to_api(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


IMPORTED = "sliceworks:imported"
"""Marks the state of a resource that is being imported: all values of the API are adopted."""


def to_state(block: Block, answer: Object, known: Object, names: FieldNames, at: str = "") -> Object:
    """The state after a response: the API's values, and the prior ones for attributes that only Terraform knows."""
    whole = bool(known.get(IMPORTED))
    state: Object = {}
    for name, attribute in block.attributes.items():
        path = at + name
        before = None if known.get(name) is UNKNOWN else known.get(name)
        value = None if path in names.local else _get(answer, names.renamed.get(path, to_camel_case(name)))
        # An optional attribute that is not configured stays null, whatever the API returns.
        is_server_default = before is None and not attribute.computed and not attribute.required and not (whole and value)
        same = _same_resource(before, value) or (path in names.upper and isinstance(before, str) and before.upper() == value)
        state[name] = before if value is None or is_server_default or same else _from_api(attribute, value)
    for name, nested in block.blocks.items():
        path = at + name
        before = known.get(name)
        value = None if path in names.local else _get(answer, names.renamed.get(path, to_camel_case(name)))
        state[name] = (
            _import_nested(nested, value, names, f"{path}.") if whole else _from_object(nested, value, before, names, f"{path}.")
        )
    return state


def _import_nested(nested: Nested, value: Any, names: FieldNames, at: str) -> Any:
    """A block from the API's value; empty blocks are omitted."""
    known = {IMPORTED: True}
    if nested.nesting == "single":
        return to_state(nested.block, value, known, names, at) if value else None
    items = [] if not value else [value] if nested.single else list(value)
    blocks = [to_state(nested.block, item, known, names, at) for item in items if isinstance(item, dict)]
    return [block_state for block_state in blocks if any(block_state.values())]


def _same_resource(left: Any, right: Any) -> bool:
    """Whether two strings name the same resource, one by path and the other by URL."""
    if not isinstance(left, str) or not isinstance(right, str):
        return False
    return "projects/" in left and left.partition("projects/")[2] == right.partition("projects/")[2]


def _from_object(nested: Nested, value: Any, before: Any, names: FieldNames, at: str) -> Any:
    if nested.nesting == "single":
        return before if value is None else to_state(nested.block, value, before or {}, names, at)
    earlier = before if isinstance(before, list) else []
    if value is None or not earlier:
        # A block that is not configured is not read from the response.
        return _without_unknown(nested, earlier)
    items = [value] if nested.single else list(value)
    if nested.nesting == "set":
        return [to_state(nested.block, item, _element(nested, item, earlier, names, at), names, at) for item in items]
    if len(items) != len(earlier):
        return [to_state(nested.block, item, {}, names, at) for item in items]
    return [
        to_state(nested.block, new_item, earlier_state, names, at) for new_item, earlier_state in zip(items, earlier, strict=True)
    ]


def _element(nested: Nested, item: Object, earlier: list[Any], names: FieldNames, at: str) -> Object:
    """The element of a set that an item of the API was created from; for a foreign item, all values of the API are adopted."""
    for element in earlier:
        sent = to_api_body(nested.block, element, names, at)
        if all(item.get(key) == value for key, value in sent.items()):
            return dict(element)
    return {IMPORTED: True}


def _without_unknown(nested: Nested, items: list[Any]) -> list[Any]:
    return [resolve_unknown(nested.block, item) for item in items]


def resolve_unknown(block: Block, values: Object) -> Object:
    """Replace values that are still unknown after the response with null."""
    resolved = {name: None if values.get(name) is UNKNOWN else values.get(name) for name in block.attributes}
    for name, nested in block.blocks.items():
        value = values.get(name)
        resolved[name] = _without_unknown(nested, value) if isinstance(value, list) else None if value is UNKNOWN else value
    return resolved


def _from_api(attribute: Attribute, value: Any) -> Any:
    kind = attribute.type
    if kind == "number" and isinstance(value, str):
        return int(value)
    if kind == "string" and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value


def quote_segment(name: str) -> str:
    """A name quoted as one path segment."""
    return quote(name, safe="")


def _put(target: Object, path: str, value: Any) -> None:
    *steps, last = path.split(".")
    for step in steps:
        target = target.setdefault(step, {})
    target[last] = value


def _get(source: Any, path: str) -> Any:
    for step in path.split("."):
        if not isinstance(source, dict):
            return None
        source = source.get(step)
    return source
