"""Values of BigQuery's columns: taken from JSON as BigQuery takes them, kept plain, and shown as text."""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Callable

Obj = dict[str, Any]
ALIASES = {"INT64": "INTEGER", "FLOAT64": "FLOAT", "BOOL": "BOOLEAN", "STRUCT": "RECORD", "DECIMAL": "NUMERIC"}
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}")
_SPACED = re.compile(r"^(\d{4}-\d{2}-\d{2})[ T](.*?)(?: ?(UTC|Z))?$")
_LARGEST = 2**63


class Unfit(Exception):
    """A value that its column does not take."""


def kind_of(column: Obj) -> str:
    """The type of a column, by its older name."""
    name = str(column.get("type") or "STRING").upper()
    return ALIASES.get(name, name)


def taken(column: Obj, value: Any) -> Any:
    """A value as it is kept; raises Unfit."""
    if column.get("mode") == "REPEATED":
        if not isinstance(value, list):
            raise Unfit("This field is repeated: an array is wanted.")
        return [_TAKEN[kind_of(column)](each) for each in value]
    if isinstance(value, list):
        raise Unfit("Array specified for non-repeated field.")
    return None if value is None else _TAKEN[kind_of(column)](value)


def readable(kind: str) -> bool:
    """Whether the twin's tables have columns of a type."""
    return kind in _TAKEN


def shown(column: Obj, value: Any, *, whole_times: bool) -> Any:
    """A value as answers have it: text, whatever its type. Times are seconds, or microseconds where that was asked for."""
    if isinstance(value, list):
        return [{"v": shown(column, each, whole_times=whole_times)} for each in value]
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if kind_of(column) == "TIMESTAMP":
        return str(value) if whole_times else f"{value / 1_000_000:.6f}"
    return repr(value) if isinstance(value, float) else str(value)


def micros(text: str) -> int:
    """A time as microseconds since 1970; raises ValueError."""
    found = _SPACED.match(text.strip())
    moment = datetime.fromisoformat(f"{found[1]}T{found[2]}" if found else text.strip())
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000_000)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise Unfit("Cannot convert value to string (bad value).")


def _integer(value: Any) -> int:
    whole = isinstance(value, float) and value.is_integer()
    if not isinstance(value, bool) and (isinstance(value, int) or whole or (isinstance(value, str) and _WHOLE.fullmatch(value))):
        number = int(value)
        if -_LARGEST <= number < _LARGEST:
            return number
    raise Unfit(f"Cannot convert value to integer (bad value): {value}")


def _float(value: Any) -> float:
    try:
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            return float(value)
    except ValueError:
        pass
    raise Unfit(f"Cannot convert value to floating point (bad value): {value}")


def _boolean(value: Any) -> bool:
    found = value if isinstance(value, bool) else {"true": True, "false": False}.get(str(value).lower())
    if found is None:
        raise Unfit(f"Cannot convert value to boolean (bad value): {value}")
    return found


def _timestamp(value: Any) -> int:
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return round(value * 1_000_000)
        return micros(str(value)) if isinstance(value, str) and not _is_number(value) else round(float(value) * 1_000_000)
    except (TypeError, ValueError) as error:
        raise Unfit(f"Could not parse '{value}' as a timestamp. Required format is YYYY-MM-DD HH:MM[:SS[.SSSSSS]]") from error


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _parsed(what: str, parse: Callable[[str], Any]) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        try:
            return str(parse(str(value)))
        except (ValueError, InvalidOperation, binascii.Error) as error:
            raise Unfit(f"Invalid {what}: '{value}'.") from error

    return read


def _json(value: Any) -> str:
    if isinstance(value, str):
        try:
            return orjson.dumps(orjson.loads(value)).decode()
        except orjson.JSONDecodeError as error:
            raise Unfit("Invalid JSON value.") from error
    return orjson.dumps(value).decode()


def _bytes(text: str) -> str:
    return base64.b64encode(base64.b64decode(text, validate=True)).decode()


_TAKEN: dict[str, Callable[[Any], Any]] = {
    "STRING": _text,
    "INTEGER": _integer,
    "FLOAT": _float,
    "BOOLEAN": _boolean,
    "TIMESTAMP": _timestamp,
    "NUMERIC": _parsed("numeric value", Decimal),
    "DATE": _parsed("date", date.fromisoformat),
    "DATETIME": _parsed("datetime", lambda text: datetime.fromisoformat(text).isoformat()),
    "TIME": _parsed("time", lambda text: time.fromisoformat(text).isoformat()),
    "BYTES": _parsed("bytes", _bytes),
    "JSON": _json,
}
