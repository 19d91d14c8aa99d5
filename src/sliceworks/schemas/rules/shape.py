"""Values of fields that were not set: a table (`data/defaults.json`), and a function where more than one field decides."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

import orjson

Json = dict[str, Any]
Defaulter = Callable[[Json], None]


@cache
def static_defaults() -> dict[str, Json]:
    """By component: the value of a field that was not set."""
    table: dict[str, Json] = orjson.loads((files("sliceworks.schemas") / "data" / "defaults.json").read_bytes())
    return table


def defaulter(static: Json, conditional: Defaulter | None) -> Defaulter:
    """One function that fills a value of one component: first from the table, then by the function.

    Nothing and the empty text count as not set; zero and false were meant.
    """
    plain = [(field, value) for field, value in static.items() if not isinstance(value, dict | list)]
    fresh = [(field, type(value), value) for field, value in static.items() if isinstance(value, dict | list)]

    def fill(value: Json) -> None:
        for field, default in plain:
            found = value.get(field)
            if found is None or found == "":
                value[field] = default
        for field, kind, default in fresh:
            if value.get(field) is None:
                value[field] = kind(default)
        if conditional is not None:
            conditional(value)

    return fill
