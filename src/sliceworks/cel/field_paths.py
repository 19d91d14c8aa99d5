"""The `fieldPath` of a rule: which field below the rule's own an error is about."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sliceworks.schemas.structural import Schema

_STEP = re.compile(r"\.(?P<name>[^.\[\]]+)|\['(?P<quoted>(?:[^'\\]|\\.)*)'\]")
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "'": "'", "\\": "\\"}


def field_path(text: str, schema: Schema) -> str | None:
    """The path as errors write it, or None where it is no path to a field of the schema."""
    found, position = "", 0
    while position < len(text):
        step = _STEP.match(text, position)
        if step is None:
            return None
        name = step["name"] if step["name"] is not None else _unquoted(step["quoted"])
        if name is None:
            return None
        child = schema.properties.get(name) if schema.properties else schema.additional
        if child is None:
            return None
        found += (f".{name}" if found else name) if schema.properties else f"[{name}]"
        schema, position = child, step.end()
    return found


def _unquoted(text: str) -> str | None:
    if any(escape not in _ESCAPES for escape in re.findall(r"\\(.)", text)):
        return None
    return re.sub(r"\\(.)", lambda found: _ESCAPES[found[1]], text)
