"""Short stable names of templates, in the letters that Kubernetes uses. Pure."""

from __future__ import annotations

from typing import Any

import orjson

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


def safe_hash(value: Any, collisions: int | None = None) -> str:
    """The name of a value. The real one hashes Go's own picture of it, so theirs differs from ours."""
    data = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    if collisions is not None:
        data += collisions.to_bytes(8, "little")
    return safe(fnv32a(data))


def safe(number: int) -> str:
    """A number in letters that make no words."""
    return "".join(_LETTERS[ord(digit) % len(_LETTERS)] for digit in str(number))


def go_json(value: Any) -> bytes:
    """JSON as Go writes a map: keys in order, and three characters escaped for the sake of HTML."""
    data = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    for sign in b"<>&":
        data = data.replace(bytes([sign]), b"\\u%04x" % sign)
    return data


def fnv32(data: bytes) -> int:
    """The 32-bit FNV-1 hash."""
    found = 0x811C9DC5
    for byte in data:
        found = ((found * 0x01000193) & 0xFFFFFFFF) ^ byte
    return found


def fnv32a(data: bytes) -> int:
    """The 32-bit FNV-1a hash."""
    found = 0x811C9DC5
    for byte in data:
        found = ((found ^ byte) * 0x01000193) & 0xFFFFFFFF
    return found
