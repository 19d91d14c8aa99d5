"""Changes to an expression's text before it is checked, where the engine's own reader would not take it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sliceworks.cel.libraries.conditions import FIELDS
from sliceworks.cel.libraries.standard import REVERSE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_TOKEN = re.compile(
    r"(?P<text>[rRbB]{0,2}(?:\"{3}(?:[^\\]|\\.)*?\"{3}|'{3}(?:[^\\]|\\.)*?'{3}|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'))"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<space>\s+|//[^\n]*)|(?P<other>.)",
    re.DOTALL,
)
_MAKER = ("runtime", ".", "newCondition", "(")
_OPENING, _CLOSING = "([{", ")]}"
NAMES_OF_TYPES = frozenset({"bool", "bytes", "double", "dyn", "int", "list", "map", "string", "type", "uint"})
"""What the engine declares itself; kro's lets variables hide them."""


class WrongCall(ValueError):
    """A call of runtime.newCondition whose argument is not of the form that it takes."""


def rewritten(text: str) -> str:
    """The expression as the engine takes it; WrongCall where the keys of a condition are wrong."""
    if "reverse" not in text and "newCondition" not in text:
        return text
    tokens = [(found.lastgroup or "", found[0]) for found in _TOKEN.finditer(text)]
    solid = [index for index, (kind, _) in enumerate(tokens) if kind != "space"]
    changed = [token for _, token in tokens]
    for place in range(len(solid)):
        here = tuple(tokens[each][1] for each in solid[place : place + 4])
        if here == _MAKER and (place == 0 or tokens[solid[place - 1]][1] != "."):
            for key in _keys(tokens, solid[place + 4 :]):
                changed[key] = f'"{tokens[key][1]}"'
        if here[:1] == (".",) and here[1:3] == ("reverse", "("):
            changed[solid[place + 1]] = REVERSE
    return "".join(changed)


def with_names_of_types(text: str, names: Collection[str]) -> str:
    """The expression with these variables called as the engine knows them: `type` is a type there, and `string` too.

    A name after a dot is a field, one before a bracket is a function: neither is a variable.
    """
    tokens = [(found.lastgroup or "", found[0]) for found in _TOKEN.finditer(text)]
    solid = [index for index, (kind, _) in enumerate(tokens) if kind != "space"]
    around = ["", "", *(tokens[index][1] for index in solid), ""]
    changed = [token for _, token in tokens]
    for place, index in enumerate(solid):
        before, last, after = around[place], around[place + 1], around[place + 3]
        is_field = last == "." or (before, last) == (".", "?")
        if tokens[index][0] == "name" and tokens[index][1] in names and not is_field and after != "(":
            changed[index] = engine_name(tokens[index][1])
    return "".join(changed)


def engine_name(name: str) -> str:
    """What a variable is called in the engine, which has names of its own. No name in a graph has an underscore."""
    return f"{name}__" if name in NAMES_OF_TYPES else name


def graph_name(name: str) -> str:
    """The variable of a name in the engine."""
    plain = name.removesuffix("__")
    return plain if plain in NAMES_OF_TYPES else name


def _keys(tokens: list[tuple[str, str]], solid: list[int]) -> list[int]:
    """The tokens that are the keys of the map that opens here."""
    if not solid or tokens[solid[0]][1] != "{":
        raise WrongCall("runtime.newCondition takes a map written in place: {type: …, status: …}")
    keys = list(_entry_starts(tokens, solid[1:]))
    names = [tokens[key][1] for key in keys]
    for key, name in zip(keys, names, strict=True):
        if tokens[key][0] != "name":
            raise WrongCall(f"runtime.newCondition: the key {name} must be one of the plain words {', '.join(FIELDS)}")
        if name not in FIELDS:
            raise WrongCall(f"runtime.newCondition has no field {name}, only {', '.join(FIELDS)}")
        if names.count(name) > 1:
            raise WrongCall(f"runtime.newCondition: {name} is given twice")
    for name in FIELDS[:2]:
        if name not in names:
            raise WrongCall(f"runtime.newCondition needs a {name}")
    return keys


def _entry_starts(tokens: list[tuple[str, str]], solid: list[int]) -> Iterator[int]:
    depth, fresh = 0, True
    for index in solid:
        token = tokens[index][1] if tokens[index][0] != "text" else ""
        if token == "}" and not depth:
            return
        if fresh:
            yield index
        fresh = token == "," and not depth
        depth += (token in _OPENING and bool(token)) - (token in _CLOSING and bool(token))
