"""kro's functions: conditions, seeded random values, hashes, JSON, maps, lists and omit()."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson

from sliceworks.cel.libraries.functions import Function, wrap
from sliceworks.cel.types import PACKAGE
from sliceworks.cel.values import to_document
from sliceworks.schemas.golang import encode_json

RUNTIME = "kro.run.Runtime"
CONDITION = f"{PACKAGE}.Condition"
CONDITION_FIELDS = ("type", "status", "reason", "message")
CONDITION_STATUSES = ("True", "False", "Unknown")
RUNTIME_VALUE = wrap(RUNTIME, "")
"""The run-time value of the `runtime` variable."""


def new_condition(_: dict[str, Any], fields: dict[str, Any]) -> dict[str, str]:
    for name in CONDITION_FIELDS:
        if name in fields and not isinstance(fields[name], str):
            raise ValueError(f"runtime.newCondition: {name} must be a string")
    if not fields.get("type"):
        raise ValueError("runtime.newCondition: type must not be empty")
    if fields.get("status") not in CONDITION_STATUSES:
        raise ValueError(f"runtime.newCondition: status must be one of True, False, Unknown, not {fields.get('status')!r}")
    return {name: fields.get(name, "") for name in CONDITION_FIELDS}


def condition(_: dict[str, Any], resource: dict[str, Any], condition_type: str) -> dict[str, str]:
    status = resource.get("status") or {}
    conditions = status.get("conditions") or [] if isinstance(status, dict) else []
    match = next((entry for entry in conditions if isinstance(entry, dict) and entry.get("type") == condition_type), {})
    return {name: match[name] if isinstance(match.get(name), str) else "" for name in CONDITION_FIELDS}


CONDITION_FUNCTIONS = [
    Function("newCondition", f"{RUNTIME}.newCondition(map<string, string>)", CONDITION, new_condition),
    Function("condition", f"{RUNTIME}.condition(dyn, string)", CONDITION, condition),
]

_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyz"
_HASH_OFFSET, _HASH_PRIME, _HASH_SIZE = 0xCBF29CE484222325, 0x100000001B3, 2**64

OMIT = "kro.omit"
"""The run-time result of `omit()`: a map with this key."""


def seeded_string(length: int, seed: str) -> str:
    if length <= 0:
        raise ValueError("random.seededString length must be positive")
    digest = hashlib.sha256(seed.encode()).digest()
    characters = []
    for index in range(length):
        # Cycle through the digest's eight words.
        start = index * 4 % len(digest)
        characters.append(_ALPHABET[int.from_bytes(digest[start : start + 4], "big") % len(_ALPHABET)])
    return "".join(characters)


def seeded_int(low: int, high: int, seed: str) -> int:
    if low >= high:
        raise ValueError("random.seededInt min must be less than max")
    word = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big")
    return low + word % (high - low)


def fnv64a(text: str) -> bytes:
    digest = _HASH_OFFSET
    for byte in text.encode():
        digest = (digest ^ byte) * _HASH_PRIME % _HASH_SIZE
    return digest.to_bytes(8, "big")


def sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def md5(text: str) -> bytes:
    return hashlib.md5(text.encode(), usedforsecurity=False).digest()


def to_json(value: Any) -> str:
    try:
        return encode_json(to_document(value))
    except TypeError as error:
        raise ValueError(f"json.marshal failed to encode value: {error}") from error


def from_json(text: str) -> Any:
    try:
        return _as_doubles(orjson.loads(text))
    except orjson.JSONDecodeError as error:
        raise ValueError(f"json.unmarshal failed to parse JSON: {error}") from error


def _as_doubles(value: Any) -> Any:
    """Convert integers to doubles, JSON's only number type."""
    if isinstance(value, dict):
        return {key: _as_doubles(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_doubles(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def merge(left: dict[Any, Any], right: dict[Any, Any]) -> dict[Any, Any]:
    return {**left, **right}


def deep_merge(left: dict[Any, Any], right: dict[Any, Any]) -> dict[Any, Any]:
    merged = dict(left)
    for key, value in right.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = deep_merge(merged[key], value) if both else value
    return merged


def set_at(items: list[Any], index: int, value: Any) -> list[Any]:
    _check_index("lists.setAtIndex", index, len(items), f"[0, {len(items)})")
    return [*items[:index], value, *items[index + 1 :]]


def insert_at(items: list[Any], index: int, value: Any) -> list[Any]:
    _check_index("lists.insertAtIndex", index, len(items) + 1, f"[0, {len(items)}]")
    return [*items[:index], value, *items[index:]]


def remove_at(items: list[Any], index: int) -> list[Any]:
    _check_index("lists.removeAtIndex", index, len(items), f"[0, {len(items)})")
    return [*items[:index], *items[index + 1 :]]


def _check_index(function: str, index: int, limit: int, shown: str) -> None:
    if not 0 <= index < limit:
        raise ValueError(f"{function}: index {index} out of bounds {shown}")


FUNCTIONS = [
    Function("random.seededString", "random.seededString(int, string)", "string", seeded_string),
    Function("random.seededInt", "random.seededInt(int, int, string)", "int", seeded_int),
    Function("hash.fnv64a", "hash.fnv64a(string)", "bytes", fnv64a),
    Function("hash.sha256", "hash.sha256(string)", "bytes", sha256),
    Function("hash.md5", "hash.md5(string)", "bytes", md5),
    Function("json.marshal", "json.marshal(~A)", "string", to_json),
    Function("json.encode", "json.encode(~A)", "string", to_json),
    Function("json.unmarshal", "json.unmarshal(string)", "dyn", from_json),
    Function("merge", "map<~K, ~V>.merge(map<~K, ~V>)", "map<~K, ~V>", merge),
    Function("deepMerge", "~A.deepMerge(~B)", "dyn"),
    Function("lists.setAtIndex", "lists.setAtIndex(list<~A>, int, ~A)", "list<~A>", set_at),
    Function("lists.insertAtIndex", "lists.insertAtIndex(list<~A>, int, ~A)", "list<~A>", insert_at),
    Function("lists.removeAtIndex", "lists.removeAtIndex(list<~A>, int)", "list<~A>", remove_at),
    Function("omit", "omit()", "dyn", lambda: {OMIT: True}),
]

RUN_ONLY = [Function("deepMerge", "map<dyn, dyn>.deepMerge(map<dyn, dyn>)", "dyn", deep_merge)]
