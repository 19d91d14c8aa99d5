"""Between checking and running: an expression is changed where the engine cannot run it as Kubernetes means it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.cel import equality, syntax
from sliceworks.cel.libraries import formats

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.cel.environment import Variable
    from sliceworks.cel.types import Declarations
    from sliceworks.schemas.structural import Schema

    Scope = Mapping[str, Schema | None]

_SUM_OF_DURATIONS = "list<google.protobuf.Duration>.sum()"
_OPTIONAL_VALUE = "value"


class Preparation:
    """One pass over a checked tree, children before their parents.

    On the way it keeps track of the schema that a value has in the documents, because lists that are sets or maps by their schema
    are compared and added in their own way.
    """

    def __init__(self, tree: syntax.Tree, declarations: Declarations, variables: Mapping[str, Variable]) -> None:
        self._tree = tree
        self._declarations = declarations
        self._variables = variables
        self.renamed: dict[str, str] = {}  # real names by which fields are looked up, and how the expression writes them

    def run(self) -> None:
        self._visit(self._tree.checked.expr, {name: one.schema for name, one in self._variables.items() if not one.optional})

    def _visit(self, node: Any, scope: Scope) -> Schema | None:
        """Prepare a node; the schema of its value, where that is known."""
        what = syntax.kind(node)
        if what == "ident":
            return self._ident(node, scope)
        if what == "select":
            return self._select(node.select, scope)
        if what == "call":
            return self._call(node, scope)
        if what == "comprehension":
            return self._comprehension(node.comprehension, scope)
        for child in syntax.children(node):
            self._visit(child, scope)
        return None

    def _ident(self, node: Any, scope: Scope) -> Schema | None:
        name = node.ident.name
        variable = self._variables.get(name)
        if variable is not None and variable.optional and name not in scope:
            # The engine takes no optional from outside: it is given a map that may hold the value, and selects it optionally.
            self._tree.wrap(node, "_?._", "select_optional_field")
            self._tree.add_text(node, _OPTIONAL_VALUE)
        return scope.get(name)

    def _select(self, select: Any, scope: Scope) -> Schema | None:
        operand = self._visit(select.operand, scope)
        select.field = self._real_name(self._tree.types.get(select.operand.id), select.field)
        if operand is None:
            return None
        return operand.properties.get(select.field) if operand.properties else operand.additional

    def _real_name(self, operand: Any, name: str) -> str:
        """Fields are escaped in expressions only: documents have their real names."""
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
        elif call.function in formats.GIVES_OPTIONAL:
            self._tree.wrap(node, "optional.ofNonZeroValue", "optional_ofNonZeroValue")
        elif call.function == "lists.range":
            self._tree.rename(node, "@range")
        elif call.function == "sum" and self._tree.overloads(node) == [_SUM_OF_DURATIONS]:
            self._tree.rename(node, "@sumDurations")
        elif schemas and schemas[0] is not None:
            return self._operator(node, schemas[0])
        return schemas[1] if call.function == "_?_:_" else None

    def _operator(self, node: Any, schema: Schema) -> Schema | None:
        """A call whose first argument has a known schema."""
        function = node.call.function
        shape = equality.shape(schema) if function in ("_==_", "_!=_", "_+_") else None
        if shape is not None and function == "_+_":
            self._with_shape(node, "@combined", shape)
            return schema
        if shape is not None:
            same = self._tree.wrap(node, "!_", "logical_not") if function == "_!=_" else node
            self._with_shape(same, "@same", shape)
        if function == "_[_]":
            return schema.items if schema.type == "array" else schema.additional
        return schema if function == "dyn" else None

    def _with_shape(self, node: Any, function: str, shape: equality.Shape) -> None:
        self._tree.rename(node, function)
        self._tree.add_text(node, orjson.dumps(shape).decode())

    def _comprehension(self, loop: Any, scope: Scope) -> Schema | None:
        over = self._visit(loop.range, scope)
        self._visit(loop.init, scope)
        items = over.items if over is not None and over.type == "array" else None
        inner: dict[str, Schema | None] = {**scope, loop.variable: items, loop.accumulator: None}
        if loop.second:
            inner |= {loop.variable: None, loop.second: items or (over.additional if over is not None else None)}
        for part in (loop.condition, loop.step):
            self._visit(part, inner)
        return self._visit(loop.result, {**scope, loop.accumulator: None})
