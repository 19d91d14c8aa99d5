"""Kubernetes' list functions: isSorted, sum, min, max, indexOf, lastIndexOf."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sliceworks.cel.libraries.functions import Function, TooCostly

_TIMESTAMP, _DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"
_SUMMABLE = ("int", "uint", "double")
_COMPARABLE = ("int", "uint", "double", "bool", "string", "bytes", _TIMESTAMP, _DURATION)
_INT_LIMIT = 2**63
_LONGEST_RANGE = 10_000


def is_sorted(items: list[Any]) -> bool:
    return all(not items[index] > items[index + 1] for index in range(len(items) - 1))


def total(items: list[Any]) -> Any:
    found = sum(items)
    if isinstance(found, int) and not -_INT_LIMIT <= found < _INT_LIMIT:
        raise OverflowError("integer overflow")
    return found


def total_duration(items: list[timedelta]) -> timedelta:
    return sum(items, timedelta())


def least(items: list[Any]) -> Any:
    if not items:
        raise ValueError("min called on empty list")
    return min(items)


def greatest(items: list[Any]) -> Any:
    if not items:
        raise ValueError("max called on empty list")
    return max(items)


def numbers(count: int) -> list[int]:
    if count > _LONGEST_RANGE:
        raise TooCostly
    return list(range(count))


def index_of(items: list[Any], item: Any) -> int:
    return next((index for index, one in enumerate(items) if one == item), -1)


def last_index_of(items: list[Any], item: Any) -> int:
    return next((index for index in range(len(items) - 1, -1, -1) if items[index] == item), -1)


FUNCTIONS = [
    *(Function("isSorted", f"list<{kind}>.isSorted()", "bool", is_sorted) for kind in _COMPARABLE),
    *(Function("sum", f"list<{kind}>.sum()", kind, total) for kind in _SUMMABLE),
    # An empty list does not tell what it would hold, so the sum of durations has its own name when it runs.
    Function("sum", f"list<{_DURATION}>.sum()", _DURATION),
    *(Function("min", f"list<{kind}>.min()", kind, least) for kind in _COMPARABLE),
    *(Function("max", f"list<{kind}>.max()", kind, greatest) for kind in _COMPARABLE),
    Function("indexOf", "list<~A>.indexOf(~A)", "int", index_of),
    Function("lastIndexOf", "list<~A>.lastIndexOf(~A)", "int", last_index_of),
]
RUN_ONLY = [
    Function("@sumDurations", f"list<{_DURATION}>.@sumDurations()", _DURATION, total_duration),
    # The engine's own range would fill the memory for a large number.
    Function("@range", "@range(int)", "list<int>", numbers),
]
