"""How Go reads and writes JSON values: type mismatch messages, quantities, times, bytes and escapes."""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import orjson

from sliceworks.base import quantity

INT32 = (-(2**31), 2**31 - 1)
INT64 = (-(2**63), 2**63 - 1)
_SECONDS = "2006-01-02T15:04:05Z07:00"
_MICROSECONDS = "2006-01-02T15:04:05.000000Z07:00"
_LAYOUT = (("2006", r"\d{4}"), ("-", "-"), ("01", r"\d\d"), ("-", "-"), ("02", r"\d\d"), ("T", "T"), ("15", r"\d\d"))
_CLOCK = ((":", ":"), ("04", r"\d\d"), (":", ":"), ("05", r"\d\d"))
_ZONE = ("Z07:00", r"Z|[+-]\d\d:\d\d")
_HTML_ESCAPES = {letter: f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}
_UTC_SECONDS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)


class TypeMismatch(Exception):
    """A value that cannot be decoded into its Go type. `message` is Go's; `fields` is the path in Go's notation."""

    def __init__(self, actual: str, expected: str, message: str = "") -> None:
        super().__init__()
        self.actual, self.expected, self.plain = actual, expected, message
        self.struct = ""
        self.fields: list[str] = []

    def within(self, struct: str, field: str) -> None:
        """Record an enclosing struct; call it from the innermost struct, which the message names, outwards."""
        self.struct = self.struct or struct
        self.fields.append(field)

    @property
    def path(self) -> str:
        return ".".join(reversed(self.fields))

    @property
    def message(self) -> str:
        if self.plain:
            return self.plain
        place = f"struct field {self.struct}.{self.path}" if self.fields else "value"
        return f"json: cannot unmarshal {self.actual} into Go {place} of type {self.expected}"

    def __str__(self) -> str:
        return self.message


def mismatch(value: Any, expected: str) -> TypeMismatch:
    return TypeMismatch(json_kind(value), expected)


def json_kind(value: Any) -> str:
    """Go's name for the type of a JSON value."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int | float):
        return "number"
    return "array" if isinstance(value, list) else "object"


def read_integer(value: Any, limits: tuple[int, int], expected: str) -> int:
    if value.__class__ is int:
        if limits[0] <= value <= limits[1]:
            return int(value)
    elif not isinstance(value, float):
        raise mismatch(value, expected)
    raise TypeMismatch(f"number {value}", expected)


def read_int_or_string(value: Any) -> int | str:
    return value if value.__class__ is str else read_integer(value, INT32, "int32")


def read_quantity(value: Any) -> str:
    if value is None:
        return "0"
    if value.__class__ is bool or not isinstance(value, str | int | float):
        value = "not a number"
    try:
        return quantity.canonical(value)
    except ValueError as error:
        raise TypeMismatch("", "", str(error)) from None


def read_bytes(value: Any) -> str:
    """Decode a `[]byte`: a base64 string or, as Go also accepts, a list of numbers."""
    if value.__class__ is list:
        return base64.b64encode(bytes(read_integer(item, (0, 255), "uint8") for item in value)).decode()
    if value.__class__ is not str:
        raise mismatch(value, "[]uint8")
    text = value.replace("\n", "").replace("\r", "") if "\n" in value or "\r" in value else value
    try:
        return base64.b64encode(base64.b64decode(text, validate=True)).decode()
    except (binascii.Error, ValueError):
        raise TypeMismatch("", "", f"illegal base64 data at input byte {_first_bad_byte(text)}") from None


def _first_bad_byte(text: str) -> int:
    odd = re.search(r"[^A-Za-z0-9+/]", text)
    if odd is None or not text[odd.start() :].strip("="):
        return len(text) // 4 * 4 if len(text) % 4 else len(text.rstrip("="))
    return odd.start()


def read_time(value: Any) -> str | None:
    """Decode a `metav1.Time`, normalized to UTC and whole seconds. None stands for an unset time in a map."""
    if value is None:
        return None
    if value.__class__ is not str:
        raise mismatch(value, "string")
    return _seconds(value)


def read_micro_time(value: Any) -> str:
    """Decode a `metav1.MicroTime`, normalized to UTC with six decimals."""
    if value.__class__ is not str:
        raise mismatch(value, "string")
    return _microseconds(value)


@lru_cache(maxsize=1024)
def _microseconds(text: str) -> str:
    return _format_time(_parse_time(text, _MICROSECONDS), "microseconds")


@lru_cache(maxsize=1024)
def _seconds(text: str) -> str:
    time = _parse_time(text, _SECONDS)
    return text if _UTC_SECONDS.fullmatch(text) else _format_time(time, "seconds")


def _format_time(time: datetime, timespec: str) -> str:
    """A time in UTC; its year has four digits, which strftime does not guarantee."""
    return time.replace(tzinfo=None).isoformat(timespec=timespec) + "Z"


def _parse_time(text: str, layout: str) -> datetime:
    _match_layout(text, layout)
    # Go parses any number of decimals; Python supports six.
    cut = re.sub(r"(\.\d{6})\d+", r"\1", text)
    try:
        return datetime.fromisoformat(cut).astimezone(UTC)
    except (ValueError, OverflowError):
        raise TypeMismatch("", "", f'parsing time "{text}": {_out_of_range(text)} out of range') from None


def _match_layout(text: str, layout: str) -> None:
    """Match the layout element by element like Go, so that the message names the element that failed."""
    fraction = (".000000", r"\.\d{6}") if layout == _MICROSECONDS else ("", r"([.,]\d+)?")
    place = 0
    for piece, pattern in (*_LAYOUT, *_CLOCK, fraction, _ZONE):
        match = re.compile(pattern, re.ASCII).match(text, place)
        if match is None:
            raise TypeMismatch("", "", f'parsing time "{text}" as "{layout}": cannot parse "{text[place:]}" as "{piece}"')
        place = match.end()
    if place != len(text):
        raise TypeMismatch("", "", f'parsing time "{text}": extra text: "{text[place:]}"')


def _out_of_range(text: str) -> str:
    month, hour, minute, second = (int(text[start : start + 2]) for start in (5, 11, 14, 17))
    if not 1 <= month <= 12:
        return "month"
    for name, value, limit in (("hour", hour, 23), ("minute", minute, 59), ("second", second, 59)):
        if value > limit:
            return name
    return "day"


def encode_json(value: Any, *, sort_keys: bool = True) -> str:
    """JSON as Go's encoder writes it, which escapes characters of HTML."""
    encoded = orjson.dumps(value, option=orjson.OPT_SORT_KEYS if sort_keys else None).decode()
    for letter, escape in _HTML_ESCAPES.items():
        encoded = encoded.replace(letter, escape)
    return encoded
