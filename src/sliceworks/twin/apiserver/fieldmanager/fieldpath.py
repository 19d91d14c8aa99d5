"""Field sets in the form of FieldsV1.

    {"f:spec": {"f:containers": {'k:{"name":"web"}': {".": {}, "f:image": {}}}}}

Each path element maps to its children. An element whose children are `{}` or contain `"."` is itself in the set. A set is such
a dict without a `"."`; the empty dict is the empty set. Sets share parts with each other: never modify one in place.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator

Fields = dict[str, Any]
EMPTY: Fields = {}

_KINDS = {".": 0, "f": 1, "k": 2, "v": 3, "i": 4}


def union(left: Fields, right: Fields) -> Fields:
    """The fields that are in either set."""
    if not left or left is right:
        return right
    if not right:
        return left
    both = dict(left)
    for name, below in right.items():
        mine = both.get(name)
        both[name] = below if mine is None else _joined(mine, below)
    return sort_level(both) if len(both) > len(left) else both


def _joined(left: Fields, right: Fields) -> Fields:
    """The union of two nodes of the same path; an empty node or one with a dot is itself in its set."""
    if left is right or left == right:
        return left
    if not left:
        return right if "." in right else {".": {}, **right}
    if not right:
        return left if "." in left else {".": {}, **left}
    return union(left, right)


def difference(left: Fields, right: Fields) -> Fields:
    """The fields of the first set that are not in the second. A field in the second set does not remove its children."""
    rest = left
    for name, other in right.items():
        below = left.get(name)
        if below is None:
            continue
        kept = _node_difference(below, other)
        if kept is below:
            continue
        if rest is left:
            rest = dict(left)
        if kept is None:
            del rest[name]
        else:
            rest[name] = kept
    return rest


def _node_difference(left: Fields, right: Fields) -> Fields | None:
    """The difference of two nodes, or None if it is empty."""
    if not left:
        return left if right and "." not in right else None
    if not right:
        return ({name: below for name, below in left.items() if name != "."} or None) if "." in left else left
    rest = difference(left, right)
    if len(rest) == 1 and "." in rest:
        return {}
    return rest or None


def recursive_difference(left: Fields, right: Fields) -> Fields:
    """The fields of the first set that are neither in the second nor below a field of it."""
    if not left or not right:
        return left
    rest: Fields = {}
    for name, below in left.items():
        other = right.get(name)
        if other is None:
            rest[name] = below
        elif other and "." not in other:
            kept = recursive_difference(below, other) if below else below
            if kept or not below:
                rest[name] = {} if len(kept) == 1 and "." in kept else kept
    return rest


def intersection(left: Fields, right: Fields) -> Fields:
    """The fields that are in both sets."""
    both: Fields = {}
    if len(right) < len(left):
        left, right = right, left
    for name, below in left.items():
        other = right.get(name)
        if other is not None and name != ".":
            shared = _node_intersection(below, other)
            if shared is not None:
                both[name] = shared
    return both


def _node_intersection(left: Fields, right: Fields) -> Fields | None:
    itself = (not left or "." in left) and (not right or "." in right)
    below = intersection(left, right) if left and right else {}
    if itself:
        return {".": {}, **below} if below else {}
    return below or None


def leaves(fields: Fields) -> Fields:
    """The fields of a set without children in the set."""
    return {name: leaves(below) if below else below for name, below in fields.items() if name != "."}


def contains(fields: Fields, path: tuple[str, ...]) -> bool:
    """Whether the field with these path elements is in the set."""
    node = fields
    for name in path:
        below = node.get(name)
        if below is None:
            return False
        node = below
    return not node or "." in node


def single_field(path: tuple[str, ...]) -> Fields:
    """The set of one field."""
    fields: Fields = {}
    for name in reversed(path):
        fields = {name: fields}
    return fields


def format_paths(fields: Fields, prefix: str = "") -> Iterator[str]:
    """The fields of a set in the notation `.spec.ports[port=80].name`: on each level the fields first, then their children."""
    nodes = [(prefix + format_path_element(name), below) for name, below in fields.items() if name != "."]
    for path, below in nodes:
        if not below or "." in below:
            yield path
    for path, below in nodes:
        if below:
            yield from format_paths(below, path)


def format_path_element(name: str) -> str:
    """A path element in the notation of `format_paths`."""
    kind, text = name[0], name[2:]
    if kind == "f":
        return "." + text
    if kind == "k":
        return "[" + ",".join(f"{key}={_encode(value)}" for key, value in sorted(orjson.loads(text).items())) + "]"
    return f"[={_encode(orjson.loads(text))}]" if kind == "v" else f"[{text}]"


def _encode(value: Any) -> str:
    return orjson.dumps(value).decode()


def sort_level(node: Fields) -> Fields:
    """One level in Kubernetes' order: the dot, field names, keys by their values, values, indices."""
    # Sorting by string suffices: "." and "f:" sort before the other prefixes.
    return {name: node[name] for name in (sorted(node) if max(node, default="") < "g" else sorted(node, key=_rank))}


@lru_cache(maxsize=8192)
def _rank(name: str) -> tuple[Any, ...]:
    kind, text = name[0], name[2:]
    match kind:
        case "k":
            return (2, *((key, *value_rank(value)) for key, value in sorted(orjson.loads(text).items())))
        case "v":
            return (3, value_rank(orjson.loads(text)))
        case "i":
            return (4, int(text))
        case _:
            return (_KINDS[kind], text)


def value_rank(value: Any) -> tuple[int, Any]:
    """The sort key of a scalar: numbers, then strings, then booleans."""
    if isinstance(value, bool):
        return 2, value
    if isinstance(value, int | float):
        return 0, value
    return (1, value) if isinstance(value, str) else (3, orjson.dumps(value))


def parse(value: Any) -> Fields:
    """Parse and sort FieldsV1 from a client. Raises ValueError if it is invalid; path elements of unknown types are dropped."""
    if type(value) is not dict:
        raise ValueError("a set of fields is an object")
    node: Fields = {}
    for name, below in value.items():
        if name == ".":
            node["."] = {}
        elif len(name) < 2 or name[1] != ":":
            raise ValueError(f"missing colon: {name}")
        elif name[0] in "fkvi":
            _check_name(name)
            node[name] = parse(below)
    if len(node) == 1 and "." in node:
        return {}
    return sort_level(node)


def _check_name(name: str) -> None:
    value = orjson.loads(name[2:]) if name[0] != "f" else None
    if (name[0] == "k" and type(value) is not dict) or (name[0] == "i" and type(value) is not int):
        raise ValueError(f"not a path element: {name}")
