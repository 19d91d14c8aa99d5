"""Functions of resource graphs: seeded random values, hashes, JSON, merged maps, changed lists, and `omit()`."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson

from sliceworks.cel.libraries.functions import Function
from sliceworks.cel.outcomes import document_value

_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"
_HASH_OFFSET, _HASH_PRIME, _HASH_SIZE = 0xCBF29CE484222325, 0x100000001B3, 2**64
# JSON that Go writes may stand inside HTML and scripts.
_ESCAPED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
OMIT = "kro.omit"
"""What `omit()` gives when it runs: a map with this one key."""


def seeded_string(length: int, seed: str) -> str:
    if length <= 0:
        raise ValueError("random.seededString length must be positive")
    digest = hashlib.sha256(seed.encode()).digest()
    chosen = []
    for index in range(length):
        # The digest's eight words are used over and over.
        start = index * 4 % len(digest)
        chosen.append(_LETTERS[int.from_bytes(digest[start : start + 4], "big") % len(_LETTERS)])
    return "".join(chosen)


def seeded_int(least: int, limit: int, seed: str) -> int:
    if least >= limit:
        raise ValueError("random.seededInt min must be less than max")
    word = int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big")
    return least + word % (limit - least)


def fnv64a(text: str) -> bytes:
    found = _HASH_OFFSET
    for byte in text.encode():
        found = (found ^ byte) * _HASH_PRIME % _HASH_SIZE
    return found.to_bytes(8, "big")


def sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def md5(text: str) -> bytes:
    return hashlib.md5(text.encode(), usedforsecurity=False).digest()


def to_json(value: Any) -> str:
    try:
        text = orjson.dumps(document_value(value), option=orjson.OPT_SORT_KEYS).decode()
    except TypeError as error:
        raise ValueError(f"json.marshal failed to encode value: {error}") from error
    for letter, escape in _ESCAPED.items():
        text = text.replace(letter, escape)
    return text


def from_json(text: str) -> Any:
    try:
        return _doubles(orjson.loads(text))
    except orjson.JSONDecodeError as error:
        raise ValueError(f"json.unmarshal failed to parse JSON: {error}") from error


def _doubles(value: Any) -> Any:
    """JSON knows one kind of number."""
    if isinstance(value, dict):
        return {key: _doubles(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_doubles(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def merge(one: dict[Any, Any], other: dict[Any, Any]) -> dict[Any, Any]:
    return {**one, **other}


def deep_merge(one: dict[Any, Any], other: dict[Any, Any]) -> dict[Any, Any]:
    merged = dict(one)
    for key, value in other.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = deep_merge(merged[key], value) if both else value
    return merged


def set_at(items: list[Any], index: int, value: Any) -> list[Any]:
    _within("lists.setAtIndex", index, len(items), f"[0, {len(items)})")
    return [*items[:index], value, *items[index + 1 :]]


def insert_at(items: list[Any], index: int, value: Any) -> list[Any]:
    _within("lists.insertAtIndex", index, len(items) + 1, f"[0, {len(items)}]")
    return [*items[:index], value, *items[index:]]


def remove_at(items: list[Any], index: int) -> list[Any]:
    _within("lists.removeAtIndex", index, len(items), f"[0, {len(items)})")
    return [*items[:index], *items[index + 1 :]]


def _within(function: str, index: int, limit: int, shown: str) -> None:
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
