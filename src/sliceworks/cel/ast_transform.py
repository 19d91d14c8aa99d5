"""Rewrites a checked tree where the engine's semantics differ from Kubernetes': list-type equality, map order, formats."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.cel import syntax
from sliceworks.cel.libraries import formats
from sliceworks.cel.libraries.functions import Function

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.cel.environment import Variable
    from sliceworks.cel.syntax import Tree
    from sliceworks.cel.types import Declarations
    from sliceworks.schemas import Schema

    Scope = Mapping[str, Schema | None]

ListShape = dict[str, Any]


def list_shape(schema: Schema | None) -> ListShape | None:
    """How lists of this schema are compared (set, map or nested), or None if plain equality applies."""
    return _list_shape(schema, frozenset())


def _list_shape(schema: Schema | None, above: frozenset[int]) -> ListShape | None:
    if schema is None or id(schema) in above:
        return None
    above |= {id(schema)}
    if schema.type == "array":
        items = _list_shape(schema.items, above)
        if schema.list_type == "map":
            return {"list": "map", "keys": list(schema.list_map_keys), "items": items}
        if schema.list_type == "set":
            return {"list": "set"}
        return {"list": "atomic", "items": items} if items else None
    fields = {name: shape for name, child in schema.properties.items() if (shape := _list_shape(child, above))}
    if fields:
        return {"fields": fields}
    values = _list_shape(schema.additional, above)
    return {"values": values} if values else None


def list_equal(left: Any, right: Any, encoded_shape: str) -> bool:
    """Whether two values are equal by the list types of their schema."""
    return _equal_values(left, right, _decode_shape(encoded_shape))


def list_concat(left: list[Any], right: list[Any], encoded_shape: str) -> list[Any]:
    """`left + right`: the union of sets; in maps a later entry replaces an earlier one with the same key."""
    merged: dict[Any, Any] = {}
    shape = _decode_shape(encoded_shape)
    for item in (*left, *right):
        key = _key(item, shape)
        if key not in merged or shape["list"] == "map":
            merged[key] = item
    return list(merged.values())


@lru_cache(maxsize=1024)
def _decode_shape(encoded_shape: str) -> ListShape:
    shape: ListShape = orjson.loads(encoded_shape)
    return shape


def _equal_values(left: Any, right: Any, shape: ListShape | None) -> bool:
    if shape is None or type(left) is not type(right):
        return bool(left == right)
    if isinstance(left, list):
        return len(left) == len(right) and _equal_items(left, right, shape)
    if not isinstance(left, dict) or left.keys() != right.keys():
        return bool(left == right)
    fields, values = shape.get("fields", {}), shape.get("values")
    return all(_equal_values(value, right[name], fields.get(name, values)) for name, value in left.items())


def _equal_items(left: list[Any], right: list[Any], shape: ListShape) -> bool:
    items = shape.get("items")
    if shape.get("list") not in ("set", "map"):
        return all(_equal_values(left_item, right_item, items) for left_item, right_item in zip(left, right, strict=True))
    by_key = {_key(item, shape): item for item in left}
    missing = object()
    return all(_equal_values(by_key.get(_key(item, shape), missing), item, items) for item in right)


def _key(item: Any, shape: ListShape) -> Any:
    """Identity of an item: the item of a set, the key fields of a map's item. 1 and true differ."""
    if shape["list"] == "set":
        return (type(item), item)
    return tuple((type(item.get(key)), item.get(key)) for key in shape["keys"])


LIST_TYPE_FUNCTIONS = [
    Function("@same", "@same(list<dyn>, list<dyn>, string)", "bool", list_equal),
    Function("@same", "@same(map<dyn, dyn>, map<dyn, dyn>, string)", "bool", list_equal),
    Function("@combined", "@combined(list<dyn>, list<dyn>, string)", "list<dyn>", list_concat),
]


def order_map_iteration(tree: Tree) -> None:
    """Make comprehensions that build a list from a possible map iterate in key order."""
    for node in syntax.walk(tree.checked.expr):
        if syntax.kind(node) == "comprehension" and _builds_list(node.comprehension) and _may_be_map(node.comprehension, tree):
            _order_loop(node, tree)


def _builds_list(loop: Any) -> bool:
    return syntax.kind(loop.init) == "list"


def _may_be_map(loop: Any, tree: Tree) -> bool:
    kind = tree.types.get(loop.range.id)
    return kind is None or kind.HasField("map") or kind.HasField("dyn")


def _order_loop(node: Any, tree: Tree) -> None:
    loop = node.comprehension
    if not loop.second:
        tree.wrap(loop.range, "@ordered", "@ordered")
        return
    # The key and value variables become items 0 and 1 of a sorted entry.
    entry = f"@entry{node.id}"
    names = {loop.variable: 0, loop.second: 1}
    tree.wrap(loop.range, "@entries", "@entries")
    loop.variable, loop.second = entry, ""
    for part in (loop.condition, loop.step):
        _replace_variables(part, names, entry, tree)


def _replace_variables(node: Any, names: dict[str, int], entry: str, tree: Tree) -> None:
    """Replace the key and value variables of a loop by items of the entry."""
    kind = syntax.kind(node)
    if kind == "ident" and node.ident.name in names:
        position = names[node.ident.name]
        node.ident.name = entry
        tree.refer(node, entry)
        tree.wrap(node, "_[_]", "index_list")
        tree.add_number(node, position)
    elif kind == "comprehension":
        loop = node.comprehension
        _replace_variables(loop.range, names, entry, tree)
        _replace_variables(loop.init, names, entry, tree)
        inner = {name: index for name, index in names.items() if name not in (loop.variable, loop.second, loop.accumulator)}
        for part in (loop.condition, loop.step, loop.result):
            _replace_variables(part, inner, entry, tree)
    else:
        for child in syntax.children(node):
            _replace_variables(child, names, entry, tree)


def ordered(items: Any) -> list[Any]:
    """The keys of a map in order; a list unchanged."""
    return sorted(items, key=_sort_key) if isinstance(items, dict) else items


def entries(items: Any) -> list[list[Any]]:
    """The `[key, value]` pairs of a map in key order, or the `[index, item]` pairs of a list."""
    pairs = ((key, items[key]) for key in ordered(items)) if isinstance(items, dict) else enumerate(items)
    return [[key, value] for key, value in pairs]


def _sort_key(key: Any) -> tuple[str, Any]:
    return type(key).__name__, key


MAP_ORDER_FUNCTIONS = [
    Function(name, f"{name}({kind})", "list<dyn>", run)
    for name, run in (("@ordered", ordered), ("@entries", entries))
    for kind in ("map<dyn, dyn>", "list<dyn>")
]

_SUM_OF_DURATIONS = "list<google.protobuf.Duration>.sum()"
_OPTIONAL_VALUE = "value"


class AstTransformer:
    """One pass over a checked tree, children before their parents.

    It tracks the schema of each value, because lists with list type set or map are compared and concatenated differently.
    """

    def __init__(self, tree: syntax.Tree, declarations: Declarations, variables: Mapping[str, Variable]) -> None:
        self._tree = tree
        self._declarations = declarations
        self._variables = variables
        self.renamed: dict[str, str] = {}  # field names in documents, and their escaped form in the expression

    def run(self) -> None:
        self._visit(
            self._tree.checked.expr, {name: variable.schema for name, variable in self._variables.items() if not variable.optional}
        )

    def _visit(self, node: Any, scope: Scope) -> Schema | None:
        """Transform a node; returns the schema of its value if known."""
        kind = syntax.kind(node)
        if kind == "ident":
            return self._ident(node, scope)
        if kind == "select":
            return self._select(node.select, scope)
        if kind == "call":
            return self._call(node, scope)
        if kind == "comprehension":
            return self._comprehension(node.comprehension, scope)
        for child in syntax.children(node):
            self._visit(child, scope)
        return None

    def _ident(self, node: Any, scope: Scope) -> Schema | None:
        name = node.ident.name
        variable = self._variables.get(name)
        if variable is not None and variable.optional and name not in scope:
            # The engine accepts no optional values: pass a map that may hold the value, and select it optionally.
            self._tree.wrap(node, "_?._", "select_optional_field")
            self._tree.add_string(node, _OPTIONAL_VALUE)
        return scope.get(name)

    def _select(self, select: Any, scope: Scope) -> Schema | None:
        operand = self._visit(select.operand, scope)
        select.field = self._real_name(self._tree.types.get(select.operand.id), select.field)
        if operand is None or select.test:  # `has()` is a boolean, whatever the schema of the field
            return None
        return operand.properties.get(select.field) if operand.properties else operand.additional

    def _real_name(self, operand: Any, name: str) -> str:
        """Replace an escaped field name by the name that documents use."""
        if operand is not None and operand.abstract.name == "optional_type":
            operand = operand.abstract.parameters[0]
        real = self._declarations.real_name(operand.message, name) if operand is not None and operand.message else name
        if real != name:
            self.renamed[real] = name
        return real

    def _call(self, node: Any, scope: Scope) -> Schema | None:
        call = node.call
        operand = self._tree.types.get(call.args[0].id) if call.args else None
        if syntax.kind(call.target):
            self._visit(call.target, scope)
        schemas = [self._visit(argument, scope) for argument in call.args]
        if call.function == "_?._":
            call.args[1].const.string = self._real_name(operand, call.args[1].const.string)
        elif call.function in formats.RETURNS_OPTIONAL:
            self._tree.wrap(node, "optional.ofNonZeroValue", "optional_ofNonZeroValue")
        elif call.function == "lists.range":
            self._tree.rename(node, "@range")
        elif call.function == "sum" and self._tree.overloads(node) == [_SUM_OF_DURATIONS]:
            self._tree.rename(node, "@sumDurations")
        elif schemas and schemas[0] is not None:
            return self._operator(node, schemas[0])
        return schemas[1] if call.function == "_?_:_" else None

    def _operator(self, node: Any, schema: Schema) -> Schema | None:
        """Transform an operator whose first operand has a known schema."""
        function = node.call.function
        shape = list_shape(schema) if function in ("_==_", "_!=_", "_+_") else None
        if shape is not None and function == "_+_":
            self._with_shape(node, "@combined", shape)
            return schema
        if shape is not None:
            equality = self._tree.wrap(node, "!_", "logical_not") if function == "_!=_" else node
            self._with_shape(equality, "@same", shape)
        if function == "_[_]":
            return schema.items if schema.type == "array" else schema.additional
        return schema if function == "dyn" else None

    def _with_shape(self, node: Any, function: str, shape: ListShape) -> None:
        self._tree.rename(node, function)
        self._tree.add_string(node, orjson.dumps(shape).decode())

    def _comprehension(self, loop: Any, scope: Scope) -> Schema | None:
        range_schema = self._visit(loop.range, scope)
        self._visit(loop.init, scope)
        item_schema = range_schema.items if range_schema is not None and range_schema.type == "array" else None
        inner_scope: dict[str, Schema | None] = {**scope, loop.variable: item_schema, loop.accumulator: None}
        if loop.second:
            inner_scope |= {
                loop.variable: None,
                loop.second: item_schema or (range_schema.additional if range_schema is not None else None),
            }
        for part in (loop.condition, loop.step):
            self._visit(part, inner_scope)
        return self._visit(loop.result, {**scope, loop.accumulator: None})
