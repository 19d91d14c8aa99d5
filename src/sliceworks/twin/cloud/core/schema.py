"""Validates request bodies against the messages of Google's discovery documents.

A file of `data/` has the fields of each message of one API version with their types: `string`, `int32`, `int64`, `bool`, `double`,
`any`, `#Message`, `[type]` for a list, `{type}` for a map, and `a|b|c` for the values of an enum. Bodies may use camel case or
snake case and write numbers as strings; null fields are ignored. A service without a file accepts any JSON object.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

import orjson

from sliceworks.base.names import to_camel_case
from sliceworks.twin.cloud.core.exceptions import GoogleError, invalid_argument, invalid_fields

Obj = dict[str, Any]
_MAX_VIOLATIONS = 20
_MAX_DEPTH = 60
_RANGES = {"int32": 2**31, "int64": 2**63}
_TYPE_NAMES = {"string": "TYPE_STRING", "int32": "TYPE_INT32", "int64": "TYPE_INT64", "bool": "TYPE_BOOL", "double": "TYPE_DOUBLE"}
_INTEGER = re.compile(r"-?[0-9]{1,20}")
_UPPER = re.compile(r"(?<=[a-z0-9])([A-Z])")


class _TypeMismatch(Exception):
    """A value does not have the type of its field."""


class _Position(NamedTuple):
    """The expected type, path and depth of a value in a body."""

    kind: str
    path: str
    depth: int


class Schema:
    """The messages of one API version; without messages every JSON object is valid."""

    def __init__(self, package: str, messages: dict[str, dict[str, str]]) -> None:
        self.package = package
        self.messages = messages

    def read(self, message: str, data: bytes) -> Obj:
        """Return the body of a request with camel-case names and converted values; raises GoogleError."""
        payload = _parse(data)
        if not message:
            return {}
        if not isinstance(payload, dict):
            raise invalid_argument("Invalid JSON payload received. Unexpected token.\n^")
        if not self.messages:
            return payload
        reader = _Reader(self)
        body = reader.message(message, payload, "", 0)
        if reader.violations:
            raise invalid_fields(reader.violations[:_MAX_VIOLATIONS])
        return body


@cache
def load(service: str, version: str) -> Schema:
    """Return the schema of an API version."""
    file = resources.files(__package__) / "data" / f"{service}-{version}.json"
    return Schema(f"google.{service}.{version}", orjson.loads(file.read_bytes()) if file.is_file() else {})


def _parse(data: bytes) -> Any:
    if not data.strip():
        return {}
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise _invalid_json(str(error)) from error


def _invalid_json(reason: str) -> GoogleError:
    return invalid_argument(f"Invalid JSON payload received. {reason}")


class _Reader:
    """Reads one body and collects its violations."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self.violations: list[tuple[str, str]] = []

    def message(self, name: str, payload: Obj, path: str, depth: int) -> Obj:
        fields = self._schema.messages[name]
        if depth > _MAX_DEPTH:
            raise _invalid_json("Message too deep. Max recursion depth reached.")
        read: Obj = {}
        for key, value in payload.items():
            field = key if key in fields else to_camel_case(key)
            kind = fields.get(field)
            if kind is None:
                at = f" at '{path}'" if path else ""
                self._add_violation(path, f'Invalid JSON payload received. Unknown name "{key}"{at}: Cannot find field.')
            elif value is not None:
                self._read_into(read, field, value, _Position(kind, _join(path, _snake(field)), depth))
        return read

    def _read_into(self, target: Obj, field: str, value: Any, position: _Position) -> None:
        try:
            target[field] = self._value(position.kind, value, position.path, position.depth)
        except _TypeMismatch as error:
            self._add_violation(position.path, f"Invalid value at '{position.path}' ({error}), {_abbreviate(value)}")

    def _value(self, kind: str, value: Any, path: str, depth: int) -> Any:
        if kind.startswith("["):
            return self._list(kind[1:-1], value, path, depth)
        if kind.startswith("{"):
            return self._map(kind[1:-1], value, path, depth)
        if isinstance(value, list) and kind != "any":
            parent, _, name = path.rpartition(".")
            at = f" at '{parent}'" if parent else ""
            problem = f'Unknown name "{name}"{at}: Proto field is not repeating, cannot start list.'
            self._add_violation(parent, f"Invalid JSON payload received. {problem}")
            return None
        if kind.startswith("#"):
            if not isinstance(value, dict):
                raise _TypeMismatch(f"type.googleapis.com/{self._schema.package}.{kind[1:]}")
            return self.message(kind[1:], value, path, depth + 1)
        return value if kind == "any" else _scalar(kind, value, f"{self._schema.package}.")

    def _list(self, kind: str, value: Any, path: str, depth: int) -> list[Any]:
        if not isinstance(value, list):
            raise _TypeMismatch(
                f"type.googleapis.com/{self._schema.package}.{kind[1:]}" if kind[0] == "#" else _TYPE_NAMES.get(kind, "list")
            )
        read: Obj = {}
        for index, item in enumerate(value):
            self._read_into(read, str(index), item, _Position(kind, f"{path}[{index}]", depth))
        return list(read.values())

    def _map(self, kind: str, value: Any, path: str, depth: int) -> Obj:
        if not isinstance(value, dict):
            raise _TypeMismatch("map")
        read: Obj = {}
        for key, item in value.items():
            self._read_into(read, key, item, _Position(kind, f"{path}[{key}]", depth))
        return read

    def _add_violation(self, path: str, description: str) -> None:
        self.violations.append((path, description))


def _scalar(kind: str, value: Any, package: str) -> Any:
    if kind == "string":
        if not isinstance(value, str):
            raise _TypeMismatch("TYPE_STRING")
        return value
    if kind == "bool":
        if isinstance(value, bool) or value in ("true", "false"):
            return value is True or value == "true"
        raise _TypeMismatch("TYPE_BOOL")
    if kind in _RANGES:
        return _integer(kind, value)
    if kind == "double":
        return _double(value)
    values = kind.split("|")
    if isinstance(value, str) and value in values:
        return value
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(values):
        return values[value]
    raise _TypeMismatch(f"type.googleapis.com/{package}Enum")


def _integer(kind: str, value: Any) -> Any:
    """Return an integer in the range of its type; int64 becomes a string, as in Google's JSON."""
    number = None
    if isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif (isinstance(value, str) and _INTEGER.fullmatch(value)) or (isinstance(value, float) and value.is_integer()):
        number = int(value)
    if number is None or not -_RANGES[kind] <= number < _RANGES[kind]:
        raise _TypeMismatch(_TYPE_NAMES[kind])
    return str(number) if kind == "int64" else number


def _double(value: Any) -> float:
    try:
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            return float(value)
    except ValueError:
        pass
    raise _TypeMismatch("TYPE_DOUBLE")


def _snake(name: str) -> str:
    return _UPPER.sub(lambda match: f"_{match[1].lower()}", name)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _abbreviate(value: Any) -> str:
    encoded = orjson.dumps(value).decode()
    return encoded if len(encoded) <= 200 else f"{encoded[:200]}…"
