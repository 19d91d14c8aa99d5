"""isGreaterThan, isLessThan and compareTo, which quantities and versions share."""

from __future__ import annotations

from typing import Any

from sliceworks.cel.libraries import quantities, versions
from sliceworks.cel.libraries.functions import Function


def compare(value: dict[str, Any], other: dict[str, Any]) -> int:
    return quantities.compare(value, other) if quantities.KIND in value else versions.compare(value, other)


def is_greater(value: dict[str, Any], other: dict[str, Any]) -> bool:
    return compare(value, other) > 0


def is_less(value: dict[str, Any], other: dict[str, Any]) -> bool:
    return compare(value, other) < 0


FUNCTIONS = [
    Function(name, f"{kind}.{name}({kind})", result, run)
    for name, result, run in (("isGreaterThan", "bool", is_greater), ("isLessThan", "bool", is_less), ("compareTo", "int", compare))
    for kind in (quantities.KIND, versions.KIND)
]
