"""Kubernetes' list functions, and the map insertions that transformMap needs."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sliceworks.cel.libraries.functions import CostLimitExceeded, Function

_TIMESTAMP, _DURATION = "google.protobuf.Timestamp", "google.protobuf.Duration"
_SUMMABLE = ("int", "uint", "double")
_COMPARABLE = ("int", "uint", "double", "bool", "string", "bytes", _TIMESTAMP, _DURATION)
_INT_LIMIT = 2**63
_MAX_RANGE = 10_000


def is_sorted(items: list[Any]) -> bool:
    return all(not items[index] > items[index + 1] for index in range(len(items) - 1))


def total(items: list[Any]) -> Any:
    result = sum(items)
    if isinstance(result, int) and not -_INT_LIMIT <= result < _INT_LIMIT:
        raise OverflowError("integer overflow")
    return result


def total_duration(items: list[timedelta]) -> timedelta:
    return sum(items, timedelta())


def minimum(items: list[Any]) -> Any:
    if not items:
        raise ValueError("min called on empty list")
    return min(items)


def maximum(items: list[Any]) -> Any:
    if not items:
        raise ValueError("max called on empty list")
    return max(items)


def bounded_range(count: int) -> list[int]:
    if count > _MAX_RANGE:
        raise CostLimitExceeded
    return list(range(count))


def index_of(items: list[Any], item: Any) -> int:
    return next((index for index, candidate in enumerate(items) if candidate == item), -1)


def last_index_of(items: list[Any], item: Any) -> int:
    return next((index for index in range(len(items) - 1, -1, -1) if items[index] == item), -1)


FUNCTIONS = [
    *(Function("isSorted", f"list<{kind}>.isSorted()", "bool", is_sorted) for kind in _COMPARABLE),
    *(Function("sum", f"list<{kind}>.sum()", kind, total) for kind in _SUMMABLE),
    # An empty list has no element type at run time, so the sum of durations has its own name.
    Function("sum", f"list<{_DURATION}>.sum()", _DURATION),
    *(Function("min", f"list<{kind}>.min()", kind, minimum) for kind in _COMPARABLE),
    *(Function("max", f"list<{kind}>.max()", kind, maximum) for kind in _COMPARABLE),
    Function("indexOf", "list<~A>.indexOf(~A)", "int", index_of),
    Function("lastIndexOf", "list<~A>.lastIndexOf(~A)", "int", last_index_of),
]

LIST_RUN_ONLY = [
    Function("@sumDurations", f"list<{_DURATION}>.@sumDurations()", _DURATION, total_duration),
    # The engine's own range allocates without limit.
    Function("@range", "@range(int)", "list<int>", bounded_range),
]

# Each insertion copies the map: this limits the time of one rule.
_MAX_MAP_SIZE = 2000


def insert(target: dict[Any, Any], key: Any, value: Any) -> dict[Any, Any]:
    if key in target:
        raise ValueError(f"insert failed: key {key} already exists")
    if len(target) >= _MAX_MAP_SIZE:
        raise CostLimitExceeded
    return {**target, key: value}


def insert_all(target: dict[Any, Any], entries: dict[Any, Any]) -> dict[Any, Any]:
    for key, value in entries.items():
        target = insert(target, key, value)
    return target


MAP_FUNCTIONS = [
    *(
        Function("cel.@mapInsert", f"cel.@mapInsert(map<dyn, dyn>, {kind}, ~A)", "map<dyn, dyn>", insert)
        for kind in ("string", "int", "bool")
    ),
    Function("cel.@mapInsert", "cel.@mapInsert(map<dyn, dyn>, map<dyn, dyn>)", "map<dyn, dyn>", insert_all),
]
