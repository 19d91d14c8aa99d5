"""The static type that the engine found for an expression, as one of ours."""

from __future__ import annotations

from typing import Any

from sliceworks.cel.types import DURATION, DYN, STRING, TIMESTAMP, CelType

_PRIMITIVES = {1: "bool", 2: "int", 3: "uint", 4: "double", 5: "string", 6: "bytes"}
_WELL_KNOWN = {2: TIMESTAMP, 3: DURATION}
_SHOWN = {TIMESTAMP: "timestamp", DURATION: "duration"}


def result_type(kind: Any) -> CelType:
    """The type of a checked node; `dyn` where the engine knows none."""
    if kind is None or not kind.ListFields():
        return DYN
    what = kind.ListFields()[0][0].name
    if what in ("primitive", "wrapper"):
        return CelType(_PRIMITIVES.get(getattr(kind, what), "dyn"))
    if what == "well_known":
        return CelType(_WELL_KNOWN.get(kind.well_known, "dyn"))
    if what == "list":
        return CelType("list", result_type(kind.list.element))
    if what == "map":
        key = result_type(kind.map.key)
        return CelType("map", result_type(kind.map.value), key=None if key == STRING else key)
    if what == "message":
        return CelType("message", message=str(kind.message))
    if what == "abstract":
        parameters = [result_type(one) for one in kind.abstract.parameters]
        optional = kind.abstract.name == "optional_type"
        return CelType("optional", parameters[0]) if optional and parameters else CelType(str(kind.abstract.name))
    return CelType({"null": "null", "type": "type"}.get(what, "dyn"))


def shown(kind: CelType) -> str:
    """A type in messages for people."""
    if kind.kind == "message":
        return "object"
    if kind.kind == "list":
        return f"list of {shown(kind.element)}" if kind.element and kind.element.kind != "dyn" else "list"
    if kind.kind == "map":
        return f"map of {shown(kind.element)}" if kind.element and kind.element.kind != "dyn" else "map"
    if kind.kind == "optional":
        return f"optional {shown(kind.element or DYN)}"
    return {"dyn": "any type", "double": "number", "int": "integer", "bool": "boolean", **_SHOWN}.get(kind.kind, kind.kind)
