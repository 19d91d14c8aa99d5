"""The checked syntax tree that the engine serializes, as protobuf messages, and node positions in the source."""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_Field = descriptor_pb2.FieldDescriptorProto

_SCALARS = {
    "int64": _Field.TYPE_INT64,
    "int32": _Field.TYPE_INT32,
    "uint64": _Field.TYPE_UINT64,
    "double": _Field.TYPE_DOUBLE,
    "string": _Field.TYPE_STRING,
    "bytes": _Field.TYPE_BYTES,
    "bool": _Field.TYPE_BOOL,
}

_PACKAGE = "sliceworks.cel.tree"

# message → "number name type", with * for repeated fields. Map fields are repeated entries, which have the same wire form.
_MESSAGES = {
    "Any": "1 type_url string, 2 value bytes",
    "Checked": "2 references ReferenceEntry*, 3 types TypeEntry*, 4 expr Expr, 5 source Source",
    "ReferenceEntry": "1 key int64, 2 value Reference",
    "Reference": "1 name string, 3 overloads string*",
    "TypeEntry": "1 key int64, 2 value Type",
    "Type": "1 dyn Empty, 2 null int32, 3 primitive int32, 4 wrapper int32, 5 well_known int32, 6 list ListType, 7 map MapType, "
    "9 message string, 10 parameter string, 11 type Type, 12 error Empty, 14 abstract AbstractType",
    "Empty": "",
    "ListType": "1 element Type",
    "MapType": "1 key Type, 2 value Type",
    "AbstractType": "1 name string, 2 parameters Type*",
    "Expr": "2 id int64, 3 const Constant, 4 ident Ident, 5 select Select, 6 call Call, 7 list List, 8 struct Struct, "
    "9 comprehension Comprehension",
    "Constant": "1 null int32, 2 bool bool, 3 int int64, 4 uint uint64, 5 double double, 6 string string, 7 bytes bytes",
    "Ident": "1 name string",
    "Select": "1 operand Expr, 2 field string, 3 test bool",
    "Call": "1 target Expr, 2 function string, 3 args Expr*",
    "List": "1 elements Expr*",
    "Struct": "1 message string, 2 entries Entry*",
    "Entry": "1 id int64, 2 field string, 3 key Expr, 4 value Expr",
    "Comprehension": "1 variable string, 2 range Expr, 3 accumulator string, 4 init Expr, 5 condition Expr, "
    "6 step Expr, 7 result Expr, 8 second string",
    "Source": "2 location string, 3 lines int32*, 4 positions PositionEntry*",
    "PositionEntry": "1 key int64, 2 value int32",
}

_CHILDREN = {
    "select": ("operand",),
    "call": ("target", "args"),
    "list": ("elements",),
    "comprehension": ("range", "init", "condition", "step", "result"),
}


@cache
def _classes() -> dict[str, Any]:
    pool = descriptor_pool.DescriptorPool()
    file = descriptor_pb2.FileDescriptorProto(name="tree.proto", package=_PACKAGE)
    for message, fields in _MESSAGES.items():
        described = file.message_type.add(name=message)
        for declaration in filter(None, fields.split(", ")):
            _declare(described, declaration)
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _MESSAGES}


def _declare(message: Any, declaration: str) -> None:
    number, name, kind = declaration.split(" ")
    repeated, kind = kind.endswith("*"), kind.rstrip("*")
    field = message.field.add(name=name, number=int(number), label=_Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL)
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"


def parse(serialized: bytes) -> Tree:
    """The tree in a serialized expression."""
    return Tree(_classes()["Checked"].FromString(_classes()["Any"].FromString(serialized).value))


def serialize(tree: Tree) -> bytes:
    """The serialized expression of a tree."""
    wrapped = _classes()["Any"](type_url="type.googleapis.com/cel.expr.CheckedExpr", value=tree.checked.SerializeToString())
    return bytes(wrapped.SerializeToString())


class Tree:
    """A mutable checked tree: new nodes get ids, and type information moves with its node."""

    def __init__(self, checked: Any) -> None:
        self.checked = checked
        self.types = {entry.key: entry.value for entry in checked.types}
        self._references = {entry.key: entry.value for entry in checked.references}
        self._last_id = max((node.id for node in walk(checked.expr)), default=0)

    def names(self) -> frozenset[str]:
        """Every variable and function in the tree."""
        return frozenset(entry.value.name for entry in self.checked.references)

    def overloads(self, node: Any) -> list[str]:
        """Overload candidates of a call."""
        known = self._references.get(node.id)
        return list(known.overloads) if known is not None else []

    def wrap(self, node: Any, function: str, overload: str) -> Any:
        """Wrap a node in a call; returns the node as the call's first argument."""
        inner = _classes()["Expr"]()
        inner.CopyFrom(node)
        inner.id = self._new_id()
        if node.id in self._references:
            known = self._references[node.id]
            self._set_reference(inner.id, known.name, *known.overloads)
        if node.id in self.types:
            self.types[inner.id] = self.types[node.id]
        node.ClearField(kind(node))
        node.call.function = function
        node.call.args.append(inner)
        self._set_reference(node.id, function, overload)
        return node.call.args[0]

    def wrap_member(self, node: Any, function: str, overload: str) -> None:
        """Wrap a node in a member call with a null argument."""
        self.wrap(node, function, overload)
        node.call.target.CopyFrom(node.call.args.pop())
        node.call.args.add(id=self._new_id()).const.null = 0

    def add_string(self, node: Any, text: str) -> None:
        """Append a string argument to a call."""
        argument = node.call.args.add(id=self._new_id())
        argument.const.string = text

    def add_number(self, node: Any, number: int) -> None:
        """Append an integer argument to a call."""
        node.call.args.add(id=self._new_id()).const.int = number

    def refer(self, node: Any, name: str) -> None:
        """Resolve a node to a variable."""
        self._set_reference(node.id, name)

    def rename(self, node: Any, function: str) -> None:
        """Change the function of a call."""
        node.call.function = function
        self._set_reference(node.id, function, function)

    def _new_id(self) -> int:
        self._last_id += 1
        return self._last_id

    def _set_reference(self, key: int, name: str, *overloads: str) -> None:
        if key not in self._references:
            entry = self.checked.references.add(key=key)
            self._references[key] = entry.value
        reference = self._references[key]
        reference.name = name
        reference.overloads[:] = overloads


def kind(node: Any) -> str:
    """The kind of a node: `const`, `ident`, `select`, `call`, `list`, `struct`, `comprehension`, or an empty string."""
    fields = node.ListFields()
    return str(fields[-1][0].name) if fields and fields[-1][0].name != "id" else ""


def children(node: Any) -> list[Any]:
    """Direct children of a node."""
    node_kind = kind(node)
    if node_kind == "struct":
        return [part for entry in node.struct.entries for part in (entry.key, entry.value) if kind(part)]
    nodes: list[Any] = []
    inner = getattr(node, node_kind) if node_kind in _CHILDREN else None
    for name in _CHILDREN.get(node_kind, ()):
        part = getattr(inner, name)
        nodes.extend(part if name in ("args", "elements") else [part] if kind(part) else [])
    return nodes


def walk(node: Any) -> list[Any]:
    """Every node in pre-order."""
    nodes, stack = [], [node]
    while stack:
        current = stack.pop()
        nodes.append(current)
        stack.extend(reversed(children(current)))
    return nodes


class Positions:
    """Source positions of a tree's nodes."""

    def __init__(self, checked: Any, text: str) -> None:
        self._offsets = {entry.key: entry.value for entry in checked.source.positions}
        self._text = text

    def issue(self, node: Any, message: str) -> tuple[int, str]:
        """The offset for sorting, and the issue with its source line and a caret."""
        offset = self._offsets.get(node.id, 0)
        before = self._text[:offset]
        line, column = before.count("\n") + 1, offset - (before.rfind("\n") + 1)
        shown = self._text.split("\n")[line - 1]
        return offset, f"ERROR: <input>:{line}:{column + 1}: {message}\n | {shown}\n | {'.' * column}^"
