"""Why an expression does not compile, in words for its author: what is wrong, and the closest name that would be right."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sliceworks.base.words import closest
from sliceworks.cel.libraries.standard import REVERSE
from sliceworks.cel.wording import engine_issues

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sliceworks.cel.types import Declarations

_FIELD = re.compile(r"undefined field '([^']*)' not found in struct '([^']*)'")
_NAME = re.compile(r"undeclared reference to '([^']*)'")
_OVERLOAD = re.compile(r"found no matching overload for '([^']*)' applied to '\((.*)\)'", re.DOTALL)
_MESSAGE = re.compile(r"sliceworks\.types\.\w+")
_OPERATORS = {"_?_:_": "? :", "_[_]": "[ ]", "!_": "!", "-_": "-", "_in_": "in", "@in": "in"}
_MOST_SHOWN = 24


@dataclass(frozen=True, slots=True)
class Complaint:
    """One thing that is wrong with an expression. `field` and `owner` are set for a field that a type does not have."""

    message: str
    remedy: str = ""
    field: str = ""
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Known:
    """What expressions could have meant: types with their fields, variables, functions."""

    declarations: Declarations
    variables: tuple[str, ...]
    functions: tuple[str, ...]


def complaints(raw: str, text: str, known: Known) -> list[Complaint]:
    """Every issue of the engine's message, in the order of the text."""
    found = [_complaint(what, text[position:], known) for position, what in engine_issues(raw, text)]
    return list(dict.fromkeys(_joined(found, text, known))) or [Complaint(" ".join(raw.split()))]


def _joined(found: list[Complaint], text: str, known: Known) -> list[Complaint]:
    """An unknown function in an unknown namespace is one unknown function."""
    names = [one.message.removeprefix("unknown name ") for one in found[:2]]
    function = names[1].removeprefix("unknown function ") if len(names) > 1 else ""
    if function and re.search(rf"\b{re.escape(names[0])}\s*\.\s*{re.escape(function)}\s*\(", text):
        whole = f"{names[0]}.{function}"
        return [Complaint(f"unknown function {whole}", closest(whole, known.functions)), *found[2:]]
    return found


def _complaint(what: str, rest: str, known: Known) -> Complaint:
    """`rest` is what follows the place of the issue."""
    declarations = known.declarations
    field = _FIELD.search(what)
    if field:
        owner = declarations.messages.get(field[2])
        names = [name for name in owner.fields if not name.startswith("__")] if owner else []
        return Complaint(f"unknown field {field[1]}", closest(field[1], names) or _choice(names), field[1], field[2])
    name = _NAME.search(what)
    if name:
        return _unknown_name(name[1], rest, known)
    overload = _OVERLOAD.search(what)
    if overload:
        return Complaint(_wrong_types(overload[1], _shown_types(overload[2], declarations)), _conversion(overload[1], overload[2]))
    return Complaint(_shown_types(what, declarations))


def _unknown_name(name: str, rest: str, known: Known) -> Complaint:
    if rest.lstrip().startswith("("):
        return Complaint(f"unknown function {name}", closest(name, known.functions))
    first = name.partition(".")[0]
    return Complaint(f"unknown name {first}", closest(first, known.variables) or _choice(known.variables))


def _choice(names: Sequence[str]) -> str:
    return f"known here: {', '.join(sorted(names))}" if 0 < len(names) <= _MOST_SHOWN else ""


def _wrong_types(function: str, types: str) -> str:
    if function in _OPERATORS:
        return f"{_OPERATORS[function]} cannot be used on {types}"
    if function.startswith("_"):
        return f"{function.strip('_')} cannot be used between {types.replace(', ', ' and ', 1)}"
    return f"{function.replace(REVERSE, 'reverse')} does not take ({types})"


def _conversion(function: str, types: str) -> str:
    kinds = [kind.strip() for kind in types.split(",")]
    if function == "_+_" and "string" in kinds and any(kind in ("int", "uint", "double", "bool") for kind in kinds):
        return "use string(…) to make it a text"
    return ""


def _shown_types(what: str, declarations: Declarations) -> str:
    def name(found: re.Match[str]) -> str:
        known = declarations.messages.get(found[0])
        return known.shown.rpartition(".")[2] or "object" if known else found[0]

    shown = _MESSAGE.sub(name, what)
    for long, short in (
        ("google.protobuf.Timestamp", "timestamp"),
        ("google.protobuf.Duration", "duration"),
        ("null_type", "null"),
    ):
        shown = shown.replace(long, short)
    return shown
