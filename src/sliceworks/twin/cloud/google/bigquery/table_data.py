"""Rows of BigQuery tables (tabledata) and the values of their columns."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.twin.cloud.core.collection import page_size
from sliceworks.twin.cloud.core.document_store import Document, Table
from sliceworks.twin.cloud.core.exceptions import GoogleError, invalid_argument

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sliceworks.twin.cloud.core.routes import Call
    from sliceworks.twin.store.store import Store
Obj = dict[str, Any]
ALIASES = {"INT64": "INTEGER", "FLOAT64": "FLOAT", "BOOL": "BOOLEAN", "STRUCT": "RECORD", "DECIMAL": "NUMERIC"}
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_TIMESTAMP = re.compile(r"^(\d{4}-\d{2}-\d{2})[ T](.*?)(?: ?(UTC|Z))?$")
_INT64_LIMIT = 2**63


class InvalidValue(Exception):
    """A value does not match the type or mode of its column."""


def column_type(column: Obj) -> str:
    """The legacy SQL type of a column."""
    name = str(column.get("type") or "STRING").upper()
    return ALIASES.get(name, name)


def parse_value(column: Obj, value: Any) -> Any:
    """Convert a JSON value to the stored value of a column; raises InvalidValue."""
    if column.get("mode") == "REPEATED":
        if not isinstance(value, list):
            raise InvalidValue("This field is repeated: an array is expected.")
        return [_PARSERS[column_type(column)](item) for item in value]
    if isinstance(value, list):
        raise InvalidValue("Array specified for non-repeated field.")
    return None if value is None else _PARSERS[column_type(column)](value)


def is_supported(kind: str) -> bool:
    """Whether the twin supports a column type."""
    return kind in _PARSERS


def format_value(column: Obj, value: Any, *, int64_timestamp: bool) -> Any:
    """Convert a stored value to its string in responses. Timestamps are seconds, or microseconds with `int64_timestamp`."""
    if isinstance(value, list):
        return [{"v": format_value(column, item, int64_timestamp=int64_timestamp)} for item in value]
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if column_type(column) == "TIMESTAMP":
        return str(value) if int64_timestamp else f"{value / 1_000_000:.6f}"
    return repr(value) if isinstance(value, float) else str(value)


def to_micros(value: str) -> int:
    """Parse a timestamp into microseconds since 1970; raises ValueError."""
    match = _TIMESTAMP.match(value.strip())
    parsed = datetime.fromisoformat(f"{match[1]}T{match[2]}" if match else value.strip())
    parsed = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    return round((parsed - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000_000)


def _string(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise InvalidValue("Cannot convert value to string (bad value).")


def _integer(value: Any) -> int:
    is_whole = isinstance(value, float) and value.is_integer()
    if not isinstance(value, bool) and (
        isinstance(value, int) or is_whole or (isinstance(value, str) and _INTEGER.fullmatch(value))
    ):
        number = int(value)
        if -_INT64_LIMIT <= number < _INT64_LIMIT:
            return number
    raise InvalidValue(f"Cannot convert value to integer (bad value): {value}")


def _float(value: Any) -> float:
    try:
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            return float(value)
    except ValueError:
        pass
    raise InvalidValue(f"Cannot convert value to floating point (bad value): {value}")


def _boolean(value: Any) -> bool:
    boolean = value if isinstance(value, bool) else {"true": True, "false": False}.get(str(value).lower())
    if boolean is None:
        raise InvalidValue(f"Cannot convert value to boolean (bad value): {value}")
    return boolean


def _timestamp(value: Any) -> int:
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return round(value * 1_000_000)
        return to_micros(str(value)) if isinstance(value, str) and not _is_number(value) else round(float(value) * 1_000_000)
    except (TypeError, ValueError) as error:
        raise InvalidValue(
            f"Could not parse '{value}' as a timestamp. Required format is YYYY-MM-DD HH:MM[:SS[.SSSSSS]]"
        ) from error


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


def _parse_with(type_name: str, parse: Callable[[str], Any]) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        try:
            return str(parse(str(value)))
        except (ValueError, InvalidOperation, binascii.Error) as error:
            raise InvalidValue(f"Invalid {type_name}: '{value}'.") from error

    return read


def _json(value: Any) -> str:
    if isinstance(value, str):
        try:
            return orjson.dumps(orjson.loads(value)).decode()
        except orjson.JSONDecodeError as error:
            raise InvalidValue("Invalid JSON value.") from error
    return orjson.dumps(value).decode()


def _bytes(value: str) -> str:
    return base64.b64encode(base64.b64decode(value, validate=True)).decode()


_PARSERS: dict[str, Callable[[Any], Any]] = {
    "STRING": _string,
    "INTEGER": _integer,
    "FLOAT": _float,
    "BOOLEAN": _boolean,
    "TIMESTAMP": _timestamp,
    "NUMERIC": _parse_with("numeric value", Decimal),
    "DATE": _parse_with("date", date.fromisoformat),
    "DATETIME": _parse_with("datetime", lambda value: datetime.fromisoformat(value).isoformat()),
    "TIME": _parse_with("time", lambda value: time.fromisoformat(value).isoformat()),
    "BYTES": _parse_with("bytes", _bytes),
    "JSON": _json,
}
_MAX_ROWS = 50_000
_MAX_INSERT_IDS = 10_000


@dataclass(frozen=True, slots=True)
class RowError:
    """A problem of a row, and its column if it has one."""

    column: str
    message: str
    reason: str = "invalid"

    def to_json(self) -> Obj:
        """The `ErrorProto` of a response."""
        return {"reason": self.reason, "location": self.column, "debugInfo": "", "message": self.message}


class TableRows:
    """The rows of all tables, stored in chunks of one insert each."""

    def __init__(self, store: Store) -> None:
        self._tables = Table(store, "bigquery/tables", "Table")
        self._chunks = Table(store, "bigquery/rows", "Rows")
        self._insert_ids: dict[str, dict[str, None]] = {}

    def find_table(self, project: str, dataset: str, name: str) -> Document | None:
        """Return a table by name, or None."""
        return self._tables.get(f"{project}:{dataset}", name)

    def append(self, table: Document, rows: list[list[Any]]) -> None:
        """Append rows, whose values are in column order."""
        if not rows:
            return
        number = int(table.inner.get("chunks", 0))
        self._chunks.put(Document(_table_id(table), f"{number:012d}", {"rows": rows}))
        table.inner["chunks"] = number + 1
        table.body["numRows"] = str(int(table.body.get("numRows") or 0) + len(rows))
        self._tables.put(table)

    def all(self, table: Document) -> Iterator[list[Any]]:
        """All rows, oldest first, padded with None for columns that were added later."""
        width = len(columns(table))
        for chunk in self._chunks.all(_table_id(table)):
            yield from ([*row, *[None] * (width - len(row))] for row in chunk.body["rows"])

    def delete_table(self, table: Document) -> None:
        """Delete the rows of a table."""
        for chunk in list(self._chunks.all(_table_id(table))):
            self._chunks.delete(chunk)
        self._insert_ids.pop(_table_id(table), None)

    def insert_all(self, call: Call, table: Document) -> Obj:
        """`insertAll`: insert valid rows and report invalid ones; without `skipInvalidRows` one invalid row rejects all."""
        entries = call.body.get("rows") or []
        if not entries:
            raise invalid_argument("No rows present in the request.")
        if len(entries) > _MAX_ROWS:
            raise GoogleError("INVALID_ARGUMENT", f"too many rows present in the request, limit: {_MAX_ROWS}", http=413)
        valid: list[tuple[str, list[Any]]] = []
        invalid: dict[int, list[Obj]] = {}
        for index, entry in enumerate(entries):
            row, problems = fit_row(table, entry.get("json") or {}, drop=bool(call.body.get("ignoreUnknownValues")))
            if problems:
                invalid[index] = [problem.to_json() for problem in problems]
            else:
                valid.append((str(entry.get("insertId") or ""), row))
        if invalid and not call.body.get("skipInvalidRows"):
            stopped = [RowError("", "", "stopped").to_json()]
            invalid = {index: invalid.get(index, stopped) for index in range(len(entries))}
            valid = []
        self.append(table, [row for insert_id, row in valid if self._is_new(table, insert_id)])
        errors = [{"index": index, "errors": problems} for index, problems in sorted(invalid.items())]
        return {"kind": "bigquery#tableDataInsertAllResponse", **({"insertErrors": errors} if errors else {})}

    def _is_new(self, table: Document, insert_id: str) -> bool:
        """Whether a row has no insert ID or one that was not used recently (best-effort deduplication)."""
        recent = self._insert_ids.setdefault(_table_id(table), {})
        if not insert_id or insert_id in recent:
            return not insert_id
        recent[insert_id] = None
        if len(recent) > _MAX_INSERT_IDS:
            del recent[next(iter(recent))]
        return True

    def list_page(self, call: Call, table: Document) -> Obj:
        """`tabledata.list`."""
        return {
            "kind": "bigquery#tableDataList",
            "etag": table.body["etag"],
            "totalRows": table.body.get("numRows") or "0",
            **paginate_rows(call, columns(table), self.all(table)),
        }


def columns(table: Document) -> list[Obj]:
    """The columns of a table."""
    fields: list[Obj] = (table.body.get("schema") or {}).get("fields") or []
    return fields


def fit_row(table: Document, fields: Obj, *, drop: bool) -> tuple[list[Any], list[RowError]]:
    """Return a row in column order and its problems. Fields without a column are dropped or a problem."""
    by_name = {str(column["name"]).lower(): column for column in columns(table)}
    if not by_name:
        raise invalid_argument(f"The destination table {table.parent}.{table.name} has no schema.")
    values = {str(key).lower(): value for key, value in fields.items()}
    problems = [RowError(key, f"no such field: {key}.") for key in values if key not in by_name and not drop]
    row: list[Any] = []
    for name, column in by_name.items():
        try:
            value = _column_value(column, values.get(name))
        except InvalidValue as error:
            problems.append(RowError(str(column["name"]), str(error)))
            continue
        row.append(value)
    return row, problems


def _column_value(column: Obj, field: Any) -> Any:
    if not is_supported(column_type(column)):
        raise InvalidValue(f"the twin does not support columns of type {column.get('type')}")
    if field is None and column.get("mode") == "REPEATED":
        return []
    value = parse_value(column, field)
    if value is None and column.get("mode") == "REQUIRED":
        raise InvalidValue(f"Missing required field: {column['name']}.")
    return value


def paginate_rows(call: Call, fields: list[Obj], rows: Iterable[list[Any]]) -> Obj:
    """A page of rows in the form `{"f": [{"v": value}]}`. The page token is the index of the next row."""
    token = call.query.get("pageToken") or call.query.get("startIndex") or "0"
    if not token.isdigit():
        raise invalid_argument(f"Invalid page token: {token}")
    start, size = int(token), _page_size(call)
    int64_timestamp = call.query.get("formatOptions.useInt64Timestamp", "").lower() == "true"
    page: list[Obj] = []
    for index, row in enumerate(rows):
        if index >= start + size:
            return {"rows": page, "pageToken": str(start + size)}
        if index >= start:
            pairs = zip(fields, row, strict=True)
            page.append({"f": [{"v": format_value(column, value, int64_timestamp=int64_timestamp)} for column, value in pairs]})
    return {"rows": page} if page else {}


def _page_size(call: Call) -> int:
    # Clients that need only the total request zero rows.
    return 0 if call.query.get("maxResults") == "0" else page_size(call, 10_000)


def _table_id(table: Document) -> str:
    return f"{table.parent}.{table.name}"
