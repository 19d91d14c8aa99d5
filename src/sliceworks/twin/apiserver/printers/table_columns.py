"""The columns of a resource and the row of an object."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.schemas.golang import encode_json
from sliceworks.twin.apiserver.printers.cells import age_since
from sliceworks.twin.apiserver.printers.core_kinds import DEFAULT
from sliceworks.twin.apiserver.printers.jsonpath import JsonPath

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from sliceworks.twin.apiserver.printers.cells import Printer, Row

_DEFAULT_CUSTOM = [{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]


class Columns(NamedTuple):
    """The columns of one resource: `definitions` for the header of a Table, `row` for the cells of one object."""

    definitions: list[dict[str, Any]]
    row: Row
    row_conditions: Callable[[dict[str, Any]], list[dict[str, str]] | None] | None = None

    def conditions(self, obj: dict[str, Any]) -> list[dict[str, str]] | None:
        """The conditions of a row."""
        return self.row_conditions(obj) if self.row_conditions else None


@cache
def builtin_columns(printer: Printer | None) -> Columns:
    """The columns of a built-in kind: name and creation time unless it has a printer."""
    printer = printer or DEFAULT
    return Columns([_definition(column) for column in printer.columns], printer.row, printer.conditions)


def _definition(column: str) -> dict[str, Any]:
    name, *traits = column.split(":")
    kind = next((trait for trait in traits if trait not in ("name", "wide")), "string")
    return {
        "name": name,
        "type": kind,
        "format": "name" if "name" in traits else "",
        "description": "",
        "priority": 1 if "wide" in traits else 0,
    }


def custom_columns(printer_columns: list[dict[str, Any]]) -> Columns:
    """The columns of a CustomResourceDefinition; the age if it lists none."""
    listed = printer_columns or _DEFAULT_CUSTOM
    definitions = [_definition("Name:name"), *(_custom_definition(column) for column in listed)]
    paths = [(JsonPath(column["jsonPath"]), column["type"]) for column in listed]

    def row(obj: dict[str, Any], now: datetime) -> list[Any]:
        return [obj["metadata"].get("name", ""), *(_cell(path, kind, obj, now) for path, kind in paths)]

    return Columns(definitions, row)


def _custom_definition(column: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": column["name"],
        "type": column["type"],
        "format": column.get("format", ""),
        "description": column.get("description", ""),
        "priority": column.get("priority", 0),
    }


def _cell(path: JsonPath, kind: str, obj: dict[str, Any], now: datetime) -> Any:
    try:
        values = path.find(obj)
    except ValueError:
        return None
    return _format(values[0], kind, now) if values else None


def _format(value: Any, kind: str, now: datetime) -> Any:
    """A value in a column of a type; None for a value of another type."""
    if kind == "string":
        return _format_string(value)
    if kind == "date":
        return _format_age(value, now) if isinstance(value, str) else None
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if kind == "integer" else float(value)


def _format_age(timestamp: str, now: datetime) -> str:
    age = age_since(timestamp, now)
    return "<invalid>" if timestamp and age == "<unknown>" else age


def _format_string(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        return encode_json(value)
    return "<nil>" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
