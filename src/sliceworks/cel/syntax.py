"""The checked syntax tree that the engine serializes, as protobuf messages, and node positions in the source."""

from __future__ import annotations

from typing import Any

from sliceworks.base.protobuf import MessagePackage

# The messages of cel.expr. Map fields are repeated entries, which have the same wire format.
_MESSAGES = MessagePackage(
    "sliceworks.cel.tree",
    {
        "Any": "type_url:string value:bytes",
        "Checked": "- references:*ReferenceEntry types:*TypeEntry expr:Expr source:Source",
        "ReferenceEntry": "key:int value:Reference",
        "Reference": "name:string - overloads:*string",
        "TypeEntry": "key:int value:Type",
        "Type": "dyn:Empty null:enum primitive:enum wrapper:enum well_known:enum list:ListType map:MapType - message:string "
        "parameter:string type:Type error:Empty - abstract:AbstractType",
        "Empty": "",
        "ListType": "element:Type",
        "MapType": "key:Type value:Type",
        "AbstractType": "name:string parameters:*Type",
        "Expr": "- id:int const:Constant ident:Ident select:Select call:Call list:List struct:Struct comprehension:Comprehension",
        "Constant": "null:enum bool:bool int:int uint:uint double:double string:string bytes:bytes",
        "Ident": "name:string",
        "Select": "operand:Expr field:string test:bool",
        "Call": "target:Expr function:string args:*Expr",
        "List": "elements:*Expr optional:*enum",
        "Struct": "message:string entries:*Entry",
        "Entry": "id:int field:string key:Expr value:Expr optional:bool",
        "Comprehension": "variable:string range:Expr accumulator:string init:Expr condition:Expr step:Expr result:Expr "
        "second:string",
        "Source": "- location:string lines:*enum positions:*PositionEntry",
        "PositionEntry": "key:int value:enum",
    },
    choices=("Constant", "Type"),
)

_CHILDREN = {
    "select": ("operand",),
    "call": ("target", "args"),
    "list": ("elements",),
    "comprehension": ("range", "init", "condition", "step", "result"),
}


def parse(serialized: bytes) -> Tree:
    """The tree in a serialized expression."""
    return Tree(_MESSAGES["Checked"].FromString(_MESSAGES["Any"].FromString(serialized).value))


def serialize(tree: Tree) -> bytes:
    """The serialized expression of a tree."""
    wrapped = _MESSAGES["Any"](type_url="type.googleapis.com/cel.expr.CheckedExpr", value=tree.checked.SerializeToString())
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
        inner = _MESSAGES["Expr"]()
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
        """Wrap a node in a member call without arguments."""
        self.wrap(node, function, overload)
        node.call.target.CopyFrom(node.call.args.pop())

    @property
    def has_optionals(self) -> bool:
        """Whether any part of the expression is an optional value."""
        return any(_is_optional(kind) for kind in self.types.values())

    def unwrap_result(self, *, or_null: bool) -> None:
        """Replace optional values in the result, also those in lists and maps that it constructs, by what they contain.

        An empty one is null, or an error.
        """
        waiting = [self.checked.expr]
        while waiting:
            node = waiting.pop()
            if _is_optional(self.types.get(node.id)):
                if or_null:
                    self.wrap_member(node, "orValue", "optional_orValue_value")
                    node.call.args.add(id=self._new_id()).const.null = 0
                else:
                    self.wrap_member(node, "value", "optional_value")
            else:
                waiting += _constructed(node)

    def add_string(self, node: Any, text: str) -> None:
        """Append a string argument to a call."""
        argument = node.call.args.add(id=self._new_id())
        argument.const.string = text

    def add_number(self, node: Any, number: int) -> None:
        """Append an integer argument to a call."""
        node.call.args.add(id=self._new_id()).const.int = number

    def set_key(self, entry: Any, key: str) -> None:
        """Set the key of an entry of a map."""
        entry.id = entry.id or self._new_id()
        entry.key.id = self._new_id()
        entry.key.const.string = key

    def set_value(self, entry: Any, text: str) -> None:
        """Set the value of an entry of a map to a string."""
        entry.value.id = self._new_id()
        entry.value.const.string = text

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


def _is_optional(type_: Any) -> bool:
    return type_ is not None and type_.abstract.name == "optional_type"


def _constructed(node: Any) -> list[Any]:
    """The nodes whose values the value of a node contains, without optional elements and entries, which are unwrapped anyway."""
    match kind(node):
        case "list":
            return [element for index, element in enumerate(node.list.elements) if index not in node.list.optional]
        case "struct":
            return [entry.value for entry in node.struct.entries if not entry.optional]
        case "comprehension":  # the step of `map` adds to a list; the result of `cel.bind` is its last argument
            return [node.comprehension.step, node.comprehension.result]
        case "call" if node.call.function in ("_?_:_", "_+_"):
            return list(node.call.args)
    return []


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
