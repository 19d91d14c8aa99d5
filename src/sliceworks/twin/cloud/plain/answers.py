"""What a query of the small SQL comes to: columns and rows of the answer, from the columns and rows of a table. Pure."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from sliceworks.twin.cloud.plain import cells
from sliceworks.twin.cloud.plain.sql import Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from sliceworks.twin.cloud.plain.sql import Condition, Item, Query

Obj = dict[str, Any]
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_NUMBERS = ("INTEGER", "FLOAT", "NUMERIC")


def answer(
    query: Query, columns: list[Obj], rows: Iterable[list[Any]], given: Mapping[str, Any]
) -> tuple[list[Obj], list[list[Any]]]:
    """The answer's columns and rows. `given` are the values of parameters by name; raises Unsupported."""
    places = {str(column["name"]).lower(): index for index, column in enumerate(columns)}

    def place(name: str) -> int:
        if name.lower() not in places:
            raise Unsupported(f"Unrecognized name: {name}")
        return places[name.lower()]

    tests = [_test(columns[place(each.column)], place(each.column), each, given) for each in query.where]
    kept = [row for row in rows if all(test(row) for test in tests)]
    items = [one for item in query.items for one in _expanded(item, columns)]
    counted = any(item.function for item in items) or bool(query.group)
    fields = [_column(item, columns[place(item.column)] if item.column != "*" else {}, index) for index, item in enumerate(items)]
    made = _grouped(query, items, kept, place) if counted else [[row[place(item.column)] for item in items] for row in kept]
    made = _sorted(query, fields, made)
    return fields, made if query.limit is None else made[: query.limit]


def _expanded(item: Item, columns: list[Obj]) -> list[Item]:
    if item.column != "*" or item.function:
        return [item]
    return [type(item)(str(column["name"])) for column in columns]


def _column(item: Item, column: Obj, index: int) -> Obj:
    """A column of the answer; aggregates without a name are numbered, as BigQuery does."""
    kind = cells.kind_of(column) if column else "INTEGER"
    if item.function in ("SUM", "AVG") and kind not in _NUMBERS:
        raise Unsupported(f"No matching signature for aggregate function {item.function} for argument types: {kind}")
    if item.function == "COUNT":
        kind = "INTEGER"
    elif item.function == "AVG":
        kind = "FLOAT"
    name = item.name or (f"f{index}_" if item.function else str(column["name"]))
    return {"name": name, "type": kind, "mode": "NULLABLE" if item.function else column.get("mode", "NULLABLE")}


def _test(column: Obj, place: int, condition: Condition, given: Mapping[str, Any]) -> Callable[[list[Any]], bool]:
    if condition.operator in ("IS", "IS NOT"):
        wanted = condition.operator == "IS"
        return lambda row: (row[place] is None) == wanted
    value = condition.value
    if condition.parameter:
        if condition.parameter not in given:
            raise Unsupported(f"Query parameter '{condition.parameter}' not found")
        value = given[condition.parameter]
    try:
        against = cells.taken({**column, "mode": "NULLABLE"}, value)
    except cells.Unfit as error:
        raise Unsupported(f"No matching signature for operator {condition.operator}: {error}") from error
    compare = _COMPARE[condition.operator]
    return lambda row: row[place] is not None and against is not None and compare(row[place], against)


def _grouped(query: Query, items: list[Item], rows: list[list[Any]], place: Callable[[str], int]) -> list[list[Any]]:
    for item in items:
        if not item.function and item.column.lower() not in [name.lower() for name in query.group]:
            raise Unsupported(f"SELECT list expression references column {item.column} which is neither grouped nor aggregated")
    keys = [place(name) for name in query.group]
    groups: dict[tuple[Any, ...], list[list[Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    if not keys:
        groups = {(): rows}
    return [[_aggregate(item, members, place) for item in items] for members in groups.values()]


def _aggregate(item: Item, rows: list[list[Any]], place: Callable[[str], int]) -> Any:
    if item.column == "*":
        return len(rows)
    values = [row[place(item.column)] for row in rows if row[place(item.column)] is not None]
    if not item.function:
        return rows[0][place(item.column)]
    if item.distinct:
        values = list(dict.fromkeys(values))
    if item.function == "COUNT":
        return len(values)
    if not values:
        return None
    if item.function in ("MIN", "MAX"):
        return min(values) if item.function == "MIN" else max(values)
    total = sum(float(value) if isinstance(value, str) else value for value in values)
    return total / len(values) if item.function == "AVG" else total


def _sorted(query: Query, fields: list[Obj], rows: list[list[Any]]) -> list[list[Any]]:
    names = [str(column["name"]).lower() for column in fields]
    for name, descending in reversed(query.order):
        if name.lower() not in names:
            raise Unsupported(f"Unrecognized name: {name}; the twin orders by columns of the answer")
        at = names.index(name.lower())
        # NULL comes first, and last when the order is turned round.
        rows = sorted(rows, key=lambda row: (row[at] is not None, 0 if row[at] is None else row[at]), reverse=descending)
    return rows
