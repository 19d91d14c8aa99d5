"""Field names inside expressions: what is no CEL identifier is escaped, as Kubernetes does."""

from __future__ import annotations

import re

_RESERVED = (
    "true false null in as break const continue else for function if import let loop package namespace return var void while"
)
RESERVED = frozenset(_RESERVED.split())
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_ESCAPABLE = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*\Z")
_SPECIAL = re.compile(r"__|[-./]")


def escape(name: str) -> str | None:
    """The identifier that stands for a field's name, or None where an expression cannot reach the field."""
    if name in RESERVED:
        return f"__{name}__"
    if "__" not in name and _PLAIN.match(name):
        return name
    if not _ESCAPABLE.match(name):
        return None
    return _SPECIAL.sub(lambda found: _ESCAPES[found[0]], name)
