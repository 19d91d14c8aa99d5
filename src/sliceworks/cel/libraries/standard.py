"""Differences from CEL's standard library: comparisons across types, string() of addresses, the strings extension."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from sliceworks.cel.libraries import quantities, semver
from sliceworks.cel.libraries.functions import Function

if TYPE_CHECKING:
    from collections.abc import Iterable

_NUMBERS = ("int", "uint", "double")
_ORDERED = ("bool", "string", "bytes", "google.protobuf.Timestamp", "google.protobuf.Duration")
_PRINTABLE = ("int", "uint", "double", "bool", "string", "bytes", "google.protobuf.Timestamp", "google.protobuf.Duration")
REPLACED = ("_<_", "_<=_", "_>_", "_>=_", "string")

_STRINGS = {
    "charAt": ("string", "string.charAt(int)"),
    "indexOf": ("int", "string.indexOf(string)", "string.indexOf(string, int)"),
    "join": ("string", "list<string>.join()", "list<string>.join(string)"),
    "lastIndexOf": ("int", "string.lastIndexOf(string)", "string.lastIndexOf(string, int)"),
    "lowerAscii": ("string", "string.lowerAscii()"),
    "upperAscii": ("string", "string.upperAscii()"),
    "replace": ("string", "string.replace(string, string)", "string.replace(string, string, int)"),
    "split": ("list<string>", "string.split(string)", "string.split(string, int)"),
    "substring": ("string", "string.substring(int)", "string.substring(int, int)"),
    "trim": ("string", "string.trim()"),
    "format": ("string", "string.format(list<dyn>)"),
    "strings.quote": ("string", "strings.quote(string)"),
}

REVERSE = "reverse_"
"""`reverse` of strings and lists: the engine declares lists only, so calls are checked under this name."""


def _comparisons(pairs: Iterable[tuple[str, str]]) -> list[Function]:
    return [Function(name, f"{name}({left}, {right})", "bool") for left, right in pairs for name in REPLACED[:4]]


_SAME_TYPES = [(kind, kind) for kind in _ORDERED]

_SHARED = [
    *(Function("string", f"string({kind})", "string") for kind in _PRINTABLE),
    *(Function(name, signature, result) for name, (result, *signatures) in _STRINGS.items() for signature in signatures),
]

FUNCTIONS = [*_comparisons([*product(_NUMBERS, _NUMBERS), *_SAME_TYPES]), *_SHARED]

GRAPH_FUNCTIONS = [
    *_comparisons([*((kind, kind) for kind in _NUMBERS), *_SAME_TYPES]),
    *_SHARED,
    Function(REVERSE, f"string.{REVERSE}()", "string"),
    Function(REVERSE, f"list<~A>.{REVERSE}()", "list<~A>"),
]
"""Graphs compare numbers of the same type only."""


def compare(value: dict[str, Any], other: dict[str, Any]) -> int:
    return quantities.compare(value, other) if quantities.KIND in value else semver.compare(value, other)


def is_greater(value: dict[str, Any], other: dict[str, Any]) -> bool:
    return compare(value, other) > 0


def is_less(value: dict[str, Any], other: dict[str, Any]) -> bool:
    return compare(value, other) < 0


ORDER_FUNCTIONS = [
    Function(name, f"{kind}.{name}({kind})", result, run)
    for name, result, run in (("isGreaterThan", "bool", is_greater), ("isLessThan", "bool", is_less), ("compareTo", "int", compare))
    for kind in (quantities.KIND, semver.KIND)
]
