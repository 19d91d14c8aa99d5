"""What the engine lacks to run transformMap and transformMapEntry: the insertion of one entry into the map being built."""

from __future__ import annotations

from typing import Any

from sliceworks.cel.libraries.functions import Function, TooCostly

# The map is copied for each insertion: this bounds the time that one rule can take.
_LARGEST = 2000


def insert(target: dict[Any, Any], key: Any, value: Any) -> dict[Any, Any]:
    if key in target:
        raise ValueError(f"insert failed: key {key} already exists")
    if len(target) >= _LARGEST:
        raise TooCostly
    return {**target, key: value}


def insert_all(target: dict[Any, Any], entries: dict[Any, Any]) -> dict[Any, Any]:
    for key, value in entries.items():
        target = insert(target, key, value)
    return target


RUN_ONLY = [
    *(
        Function("cel.@mapInsert", f"cel.@mapInsert(map<dyn, dyn>, {kind}, ~A)", "map<dyn, dyn>", insert)
        for kind in ("string", "int", "bool")
    ),
    Function("cel.@mapInsert", "cel.@mapInsert(map<dyn, dyn>, map<dyn, dyn>)", "map<dyn, dyn>", insert_all),
]
