"""Bodies of requests, read as Google reads them: by the names and types of a message, strictly.

A file of `data/` has, for one version of a service, the fields of each message with their types: `string`, `int32`, `int64`,
`bool`, `double`, `any`, `#Message`, `[type]` for a list, `{type}` for a map, and `a|b|c` for the values of an enumeration. Names
come in camel case or as they stand in Google's own definitions, with underscores; numbers may come as text. What is null is
not there.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import orjson

from sliceworks.base.names import camel
from sliceworks.twin.cloud.errors import GoogleError, invalid, invalid_fields

Obj = dict[str, Any]
_MOST_VIOLATIONS = 20
_DEEPEST = 60
_RANGES = {"int32": 2**31, "int64": 2**63}
_SAID = {"string": "TYPE_STRING", "int32": "TYPE_INT32", "int64": "TYPE_INT64", "bool": "TYPE_BOOL", "double": "TYPE_DOUBLE"}
_WHOLE = re.compile(r"-?[0-9]{1,20}")
_UPPER = re.compile(r"(?<=[a-z0-9])([A-Z])")


class _Wrong(Exception):
    """A value that its type does not take."""


class _Spot(NamedTuple):
    """What is expected somewhere in a body, and how deep that is."""

    kind: str
    place: str
    depth: int


class Schema:
    """The messages of one version of a service."""

    def __init__(self, package: str, messages: dict[str, dict[str, str]]) -> None:
        self.package = package
        self.messages = messages

    def read(self, message: str, data: bytes) -> Obj:
        """The body of a request, in camel case and with the right types; raises GoogleError."""
        found = _parsed(data)
        if not message:
            return {}
        if not isinstance(found, dict):
            raise invalid("Invalid JSON payload received. Unexpected token.\n^")
        reader = _Reader(self)
        body = reader.message(message, found, "", 0)
        if reader.violations:
            raise invalid_fields(reader.violations[:_MOST_VIOLATIONS])
        return body


@cache
def load(service: str, version: str) -> Schema:
    """The messages of a version of a service, as they come with the twin."""
    text = (resources.files(__package__) / "data" / f"{service}-{version}.json").read_bytes()
    return Schema(f"google.{service}.{version}", orjson.loads(text))


def _parsed(data: bytes) -> Any:
    if not data.strip():
        return {}
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise _unreadable(str(error)) from error


def _unreadable(why: str) -> GoogleError:
    return invalid(f"Invalid JSON payload received. {why}")


class _Reader:
    """Reads one body and collects what is wrong with it."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self.violations: list[tuple[str, str]] = []

    def message(self, name: str, given: Obj, place: str, depth: int) -> Obj:
        fields = self._schema.messages[name]
        if depth > _DEEPEST:
            raise _unreadable("Message too deep. Max recursion depth reached.")
        read: Obj = {}
        for key, value in given.items():
            field = key if key in fields else camel(key)
            kind = fields.get(field)
            if kind is None:
                at = f" at '{place}'" if place else ""
                self._wrong(place, f'Invalid JSON payload received. Unknown name "{key}"{at}: Cannot find field.')
            elif value is not None:
                self._take(read, field, value, _Spot(kind, _joined(place, _snake(field)), depth))
        return read

    def _take(self, into: Obj, field: str, value: Any, spot: _Spot) -> None:
        try:
            into[field] = self._value(spot.kind, value, spot.place, spot.depth)
        except _Wrong as error:
            self._wrong(spot.place, f"Invalid value at '{spot.place}' ({error}), {_shown(value)}")

    def _value(self, kind: str, value: Any, place: str, depth: int) -> Any:
        if kind.startswith("["):
            return self._list(kind[1:-1], value, place, depth)
        if kind.startswith("{"):
            return self._map(kind[1:-1], value, place, depth)
        if isinstance(value, list) and kind != "any":
            parent, _, name = place.rpartition(".")
            at = f" at '{parent}'" if parent else ""
            said = f'Unknown name "{name}"{at}: Proto field is not repeating, cannot start list.'
            self._wrong(parent, f"Invalid JSON payload received. {said}")
            return None
        if kind.startswith("#"):
            if not isinstance(value, dict):
                raise _Wrong(f"type.googleapis.com/{self._schema.package}.{kind[1:]}")
            return self.message(kind[1:], value, place, depth + 1)
        return value if kind == "any" else _scalar(kind, value, f"{self._schema.package}.")

    def _list(self, kind: str, value: Any, place: str, depth: int) -> list[Any]:
        if not isinstance(value, list):
            raise _Wrong(f"type.googleapis.com/{self._schema.package}.{kind[1:]}" if kind[0] == "#" else _SAID.get(kind, "list"))
        read: Obj = {}
        for index, item in enumerate(value):
            self._take(read, str(index), item, _Spot(kind, f"{place}[{index}]", depth))
        return list(read.values())

    def _map(self, kind: str, value: Any, place: str, depth: int) -> Obj:
        if not isinstance(value, dict):
            raise _Wrong("map")
        read: Obj = {}
        for key, item in value.items():
            self._take(read, key, item, _Spot(kind, f"{place}[{key}]", depth))
        return read

    def _wrong(self, place: str, said: str) -> None:
        self.violations.append((place, said))


def _scalar(kind: str, value: Any, package: str) -> Any:
    if kind == "string":
        if not isinstance(value, str):
            raise _Wrong("TYPE_STRING")
        return value
    if kind == "bool":
        if isinstance(value, bool) or value in ("true", "false"):
            return value is True or value == "true"
        raise _Wrong("TYPE_BOOL")
    if kind in _RANGES:
        return _integer(kind, value)
    if kind == "double":
        return _double(value)
    values = kind.split("|")
    if isinstance(value, str) and value in values:
        return value
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(values):
        return values[value]
    raise _Wrong(f"type.googleapis.com/{package}Enum")


def _integer(kind: str, value: Any) -> Any:
    """A whole number in its range; 64 bits stay text, as Google writes them."""
    number = None
    if isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif (isinstance(value, str) and _WHOLE.fullmatch(value)) or (isinstance(value, float) and value.is_integer()):
        number = int(value)
    if number is None or not -_RANGES[kind] <= number < _RANGES[kind]:
        raise _Wrong(_SAID[kind])
    return str(number) if kind == "int64" else number


def _double(value: Any) -> float:
    try:
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            return float(value)
    except ValueError:
        pass
    raise _Wrong("TYPE_DOUBLE")


def _snake(name: str) -> str:
    return _UPPER.sub(lambda found: f"_{found[1].lower()}", name)


def _joined(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _shown(value: Any) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= 200 else f"{text[:200]}…"
