"""Rows of BigQuery's tables: taken in by their table's columns, listed page by page, and read by queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.twin.cloud.errors import GoogleError, invalid
from sliceworks.twin.cloud.plain import cells
from sliceworks.twin.cloud.plain.pages import wanted
from sliceworks.twin.cloud.state import Document, Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sliceworks.twin.cloud.routes import Call
    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_MOST_ROWS = 50_000
_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a row: in which column, if in one."""

    column: str
    message: str
    reason: str = "invalid"

    def shown(self) -> Obj:
        return {"reason": self.reason, "location": self.column, "debugInfo": "", "message": self.message}


class Rows:
    """The rows of all tables. Those that came together are kept together, so that many are no burden."""

    def __init__(self, store: Store, tables: Table) -> None:
        self._tables = tables
        self._chunks = Table(store, "bigquery/rows", "Rows")
        self._seen: dict[str, dict[str, None]] = {}

    def table(self, project: str, dataset: str, name: str) -> Document | None:
        """A table by its name."""
        return self._tables.get(f"{project}:{dataset}", name)

    def append(self, table: Document, rows: list[list[Any]]) -> None:
        """More rows, whose values stand in the order of the columns."""
        if not rows:
            return
        number = int(table.inner.get("chunks", 0))
        self._chunks.put(Document(_home(table), f"{number:012d}", {"rows": rows}))
        table.inner["chunks"] = number + 1
        table.body["numRows"] = str(int(table.body.get("numRows") or 0) + len(rows))
        self._tables.put(table)

    def all(self, table: Document) -> Iterator[list[Any]]:
        """Every row, the oldest first; columns that came later have nothing in older rows."""
        width = len(columns(table))
        for chunk in self._chunks.all(_home(table)):
            yield from ([*row, *[None] * (width - len(row))] for row in chunk.body["rows"])

    def forget(self, table: Document) -> None:
        """The table is gone, and what was in it."""
        for chunk in list(self._chunks.all(_home(table))):
            self._chunks.remove(chunk)
        self._seen.pop(_home(table), None)

    def insert(self, call: Call, table: Document) -> Obj:
        """`insertAll`: good rows are taken, bad ones are told of; one bad row stops all unless told otherwise."""
        given = call.body.get("rows") or []
        if not given:
            raise invalid("No rows present in the request.")
        if len(given) > _MOST_ROWS:
            raise GoogleError("INVALID_ARGUMENT", f"too many rows present in the request, limit: {_MOST_ROWS}", http=413)
        good: list[tuple[str, list[Any]]] = []
        bad: dict[int, list[Obj]] = {}
        for index, each in enumerate(given):
            row, problems = fitted(table, each.get("json") or {}, drop=bool(call.body.get("ignoreUnknownValues")))
            if problems:
                bad[index] = [problem.shown() for problem in problems]
            else:
                good.append((str(each.get("insertId") or ""), row))
        if bad and not call.body.get("skipInvalidRows"):
            stopped = [Problem("", "", "stopped").shown()]
            bad = {index: bad.get(index, stopped) for index in range(len(given))}
            good = []
        self.append(table, [row for key, row in good if self._is_new(table, key)])
        errors = [{"index": index, "errors": problems} for index, problems in sorted(bad.items())]
        return {"kind": "bigquery#tableDataInsertAllResponse", **({"insertErrors": errors} if errors else {})}

    def _is_new(self, table: Document, key: str) -> bool:
        """Whether a row came before: one that is sent again is dropped, as far back as is remembered."""
        seen = self._seen.setdefault(_home(table), {})
        if not key or key in seen:
            return not key
        seen[key] = None
        if len(seen) > _REMEMBERED:
            del seen[next(iter(seen))]
        return True

    def listed(self, call: Call, table: Document) -> Obj:
        """`tabledata.list`."""
        return {
            "kind": "bigquery#tableDataList",
            "etag": table.body["etag"],
            "totalRows": table.body.get("numRows") or "0",
            **paged(call, columns(table), self.all(table)),
        }


def columns(table: Document) -> list[Obj]:
    """A table's columns."""
    found: list[Obj] = (table.body.get("schema") or {}).get("fields") or []
    return found


def fitted(table: Document, given: Obj, *, drop: bool) -> tuple[list[Any], list[Problem]]:
    """A row in the order of a table's columns, and what is wrong with it. Fields that no column has are dropped or wrong."""
    known = {str(column["name"]).lower(): column for column in columns(table)}
    if not known:
        raise invalid(f"The destination table {table.parent}.{table.name} has no schema.")
    values = {str(key).lower(): value for key, value in given.items()}
    problems = [Problem(key, f"no such field: {key}.") for key in values if key not in known and not drop]
    row: list[Any] = []
    for name, column in known.items():
        try:
            value = _value(column, values.get(name))
        except cells.Unfit as error:
            problems.append(Problem(str(column["name"]), str(error)))
            continue
        row.append(value)
    return row, problems


def _value(column: Obj, given: Any) -> Any:
    if not cells.readable(cells.kind_of(column)):
        raise cells.Unfit(f"the twin's tables take no values of type {column.get('type')}")
    if given is None and column.get("mode") == "REPEATED":
        return []
    value = cells.taken(column, given)
    if value is None and column.get("mode") == "REQUIRED":
        raise cells.Unfit(f"Missing required field: {column['name']}.")
    return value


def paged(call: Call, fields: list[Obj], rows: Iterable[list[Any]]) -> Obj:
    """A page of rows, each as a list of `f` with its values as `v`. The token is the number of the next row."""
    token = call.query.get("pageToken") or call.query.get("startIndex") or "0"
    if not token.isdigit():
        raise invalid(f"Invalid page token: {token}")
    start, size = int(token), _size(call)
    whole = call.query.get("formatOptions.useInt64Timestamp", "").lower() == "true"
    taken: list[Obj] = []
    for index, row in enumerate(rows):
        if index >= start + size:
            return {"rows": taken, "pageToken": str(start + size)}
        if index >= start:
            pairs = zip(fields, row, strict=True)
            taken.append({"f": [{"v": cells.shown(column, value, whole_times=whole)} for column, value in pairs]})
    return {"rows": taken} if taken else {}


def _size(call: Call) -> int:
    # Zero rows are asked for by who wants to know only how many there are.
    return 0 if call.query.get("maxResults") == "0" else wanted(call, 10_000)


def _home(table: Document) -> str:
    return f"{table.parent}.{table.name}"
