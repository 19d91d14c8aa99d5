"""Whether what an expression gives fits the field it is for.

Types fit by their shape and not by their names: an object fits where all of its fields do, a map fits an object and the reverse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.cel.results import shown
from sliceworks.cel.types import DYN, STRING, CelType

if TYPE_CHECKING:
    from sliceworks.cel.types import Declarations

_DEEPEST = 32


def misfit(given: CelType, expected: CelType, declarations: Declarations, depth: int = 0) -> str:
    """Why a value of one type cannot stand where another is expected, or nothing where it can."""
    if "dyn" in (given.kind, expected.kind) or depth > _DEEPEST:
        return ""
    if given.kind == "optional":
        return misfit(given.element or DYN, expected, declarations, depth)
    if expected.kind == "list" and given.kind == "list":
        return misfit(given.element or DYN, expected.element or DYN, declarations, depth + 1)
    if expected.kind == "map" and given.kind == "map":
        keys = misfit(given.key or STRING, expected.key or STRING, declarations, depth + 1)
        return keys or misfit(given.element or DYN, expected.element or DYN, declarations, depth + 1)
    if expected.kind == "message" and given.kind == "null":
        return ""
    if expected.kind == "message" and given.kind in ("map", "message"):
        fits = _map_in_object if given.kind == "map" else _object_in_object
        return fits(given, expected, declarations, depth + 1)
    if expected.kind == "map" and given.kind == "message":
        return _object_in_map(given, expected, declarations, depth + 1)
    return "" if given.kind == expected.kind else f"gives {shown(given)}, and {shown(expected)} is expected"


def _object_in_object(given: CelType, expected: CelType, declarations: Declarations, depth: int) -> str:
    here, there = declarations.messages.get(given.message), declarations.messages.get(expected.message)
    if here is None or there is None or here is there or (there.schema is not None and there.schema.preserve_unknown):
        return ""
    for name, kind in here.fields.items():
        if name not in there.fields:
            return f"gives an object with the field {here.names.get(name, name)}, which is not known here"
        problem = misfit(kind, there.fields[name], declarations, depth)
        if problem:
            return f"in its field {here.names.get(name, name)} {problem}"
    return ""


def _map_in_object(given: CelType, expected: CelType, declarations: Declarations, depth: int) -> str:
    there = declarations.messages.get(expected.message)
    if there is None or not there.fields:
        return ""
    if (given.key or STRING).kind not in ("string", "dyn"):
        return "gives a map whose keys are no texts"
    for name, kind in there.fields.items():
        problem = misfit(given.element or DYN, kind, declarations, depth)
        if problem:
            return f"for the field {there.names.get(name, name)} {problem}"
    return ""


def _object_in_map(given: CelType, expected: CelType, declarations: Declarations, depth: int) -> str:
    here = declarations.messages.get(given.message)
    for name, kind in here.fields.items() if here is not None else ():
        problem = misfit(kind, expected.element or DYN, declarations, depth)
        if problem:
            return f"in its field {name} {problem}"
    return ""
