"""Tables: the columns of a resource, and the row of each object, as `kubectl get` asks the server for them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.schemas.jsonpath import Path
from sliceworks.twin.api.cells import cluster, network, pods, storage, workloads
from sliceworks.twin.api.cells.shared import since

if TYPE_CHECKING:
    from datetime import datetime

    from sliceworks.twin.api.cells.shared import Kind, Row

_KINDS: dict[str, Kind] = {**pods.KINDS, **workloads.KINDS, **network.KINDS, **storage.KINDS, **cluster.KINDS}
_DEFAULT = [{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]


class Columns:
    """The columns of one resource: `definitions` for the head of a Table, `row` for the cells of one object."""

    __slots__ = ("_completes", "definitions", "row")

    def __init__(self, definitions: list[dict[str, Any]], row: Row, *, completes: bool = False) -> None:
        self.definitions, self.row, self._completes = definitions, row, completes

    def conditions(self, obj: dict[str, Any]) -> list[dict[str, str]] | None:
        """The conditions of a row: only pods that ended have one."""
        return pods.completed(obj) if self._completes else None


@cache
def columns(resource: str) -> Columns:
    """The columns of a built-in resource, named `/pods` or `apps/deployments`."""
    known = _KINDS.get(resource, cluster.CREATED)
    return Columns([_definition(text) for text in known.columns], known.row, completes=resource == "/pods")


def _definition(text: str) -> dict[str, Any]:
    name, *traits = text.split(":")
    kind = next((trait for trait in traits if trait not in ("name", "wide")), "string")
    return {
        "name": name,
        "type": kind,
        "format": "name" if "name" in traits else "",
        "description": "",
        "priority": 1 if "wide" in traits else 0,
    }


def custom_columns(printer_columns: list[dict[str, Any]]) -> Columns:
    """The columns that the definition of a custom resource lists; the age where it lists none."""
    listed = printer_columns or _DEFAULT
    definitions = [_definition("Name:name"), *(_custom_definition(column) for column in listed)]
    paths = [(Path(column["jsonPath"]), column["type"]) for column in listed]

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


def _cell(path: Path, kind: str, obj: dict[str, Any], now: datetime) -> Any:
    try:
        found = path.find(obj)
    except ValueError:
        return None
    return _shown(found[0], kind, now) if found else None


def _shown(value: Any, kind: str, now: datetime) -> Any:
    """A value in a column of a type; nothing where it is of another."""
    if kind == "string":
        return _text(value)
    if kind == "date":
        return _ago(value, now) if isinstance(value, str) else None
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if kind == "integer" else float(value)


def _ago(text: str, now: datetime) -> str:
    shown = since(text, now)
    return "<invalid>" if text and shown == "<unknown>" else shown


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
        return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return "<nil>" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
