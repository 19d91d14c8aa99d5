"""Rewrites the source of a graph expression where the engine's parser differs from kro's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sliceworks.cel.libraries.kro import CONDITION_FIELDS
from sliceworks.cel.libraries.standard import REVERSE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_TOKEN = re.compile(
    r"(?P<string>[rRbB]{0,2}(?:\"{3}(?:[^\\]|\\.)*?\"{3}|'{3}(?:[^\\]|\\.)*?'{3}|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'))"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<space>\s+|//[^\n]*)|(?P<other>.)",
    re.DOTALL,
)
_NEW_CONDITION = ("runtime", ".", "newCondition", "(")
_OPENING, _CLOSING = "([{", ")]}"
TYPE_NAMES = frozenset({"bool", "bytes", "double", "dyn", "int", "list", "map", "string", "type", "uint"})
"""Names that the engine declares; in kro, variables can shadow them."""


class InvalidCall(ValueError):
    """A call of runtime.newCondition with an invalid argument."""


def rewrite(expression: str) -> str:
    """The expression rewritten for the engine; InvalidCall if the keys of a condition are invalid."""
    if "reverse" not in expression and "newCondition" not in expression:
        return expression
    tokens = [(match.lastgroup or "", match[0]) for match in _TOKEN.finditer(expression)]
    significant = [index for index, (kind, _) in enumerate(tokens) if kind != "space"]
    changed = [token for _, token in tokens]
    for position in range(len(significant)):
        upcoming = tuple(tokens[token][1] for token in significant[position : position + 4])
        if upcoming == _NEW_CONDITION and (position == 0 or tokens[significant[position - 1]][1] != "."):
            for key in _condition_keys(tokens, significant[position + 4 :]):
                changed[key] = f'"{tokens[key][1]}"'
        if upcoming[:1] == (".",) and upcoming[1:3] == ("reverse", "("):
            changed[significant[position + 1]] = REVERSE
    return "".join(changed)


def rename_type_variables(expression: str, names: Collection[str]) -> str:
    """Rename variables that the engine reserves as types, such as `type` and `string`.

    A name after a dot is a field and one before a parenthesis is a function: neither is renamed.
    """
    tokens = [(match.lastgroup or "", match[0]) for match in _TOKEN.finditer(expression)]
    significant = [index for index, (kind, _) in enumerate(tokens) if kind != "space"]
    around = ["", "", *(tokens[index][1] for index in significant), ""]
    changed = [token for _, token in tokens]
    for position, index in enumerate(significant):
        before, last, after = around[position], around[position + 1], around[position + 3]
        is_field = last == "." or (before, last) == (".", "?")
        if tokens[index][0] == "name" and tokens[index][1] in names and not is_field and after != "(":
            changed[index] = engine_name(tokens[index][1])
    return "".join(changed)


def engine_name(name: str) -> str:
    """The engine's name of a variable. Names in a graph have no underscore, so a suffix is unambiguous."""
    return f"{name}__" if name in TYPE_NAMES else name


def graph_name(name: str) -> str:
    """The variable with this name in the engine."""
    plain = name.removesuffix("__")
    return plain if plain in TYPE_NAMES else name


def _condition_keys(tokens: list[tuple[str, str]], significant: list[int]) -> list[int]:
    """Tokens of the keys of the map literal at this position."""
    if not significant or tokens[significant[0]][1] != "{":
        raise InvalidCall("runtime.newCondition requires a map literal: {type: …, status: …}")
    keys = list(_entry_starts(tokens, significant[1:]))
    names = [tokens[key][1] for key in keys]
    for key, name in zip(keys, names, strict=True):
        if tokens[key][0] != "name":
            raise InvalidCall(f"runtime.newCondition: the key {name} must be one of {', '.join(CONDITION_FIELDS)}")
        if name not in CONDITION_FIELDS:
            raise InvalidCall(f"runtime.newCondition has no field {name}, only {', '.join(CONDITION_FIELDS)}")
        if names.count(name) > 1:
            raise InvalidCall(f"runtime.newCondition: {name} is given twice")
    for name in CONDITION_FIELDS[:2]:
        if name not in names:
            raise InvalidCall(f"runtime.newCondition requires a {name}")
    return keys


def _entry_starts(tokens: list[tuple[str, str]], significant: list[int]) -> Iterator[int]:
    depth, expects_key = 0, True
    for index in significant:
        token = tokens[index][1] if tokens[index][0] != "string" else ""
        if token == "}" and not depth:
            return
        if expects_key:
            yield index
        expects_key = token == "," and not depth
        depth += (token in _OPENING and bool(token)) - (token in _CLOSING and bool(token))
