"""Types as resource graphs see them: more open than those of rules.

A map whose values have no type holds values of any type, and objects that keep unknown fields may be asked for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.cel.libraries.conditions import CONDITION, FIELDS
from sliceworks.cel.types import DYN, STRING, CelType, Declarations, Message

if TYPE_CHECKING:
    from sliceworks.schemas.structural import Schema


class OpenDeclarations(Declarations):
    """The messages of one graph."""

    def __init__(self) -> None:
        super().__init__()
        self.messages[CONDITION] = Message(CONDITION, "Condition", None, fields=dict.fromkeys(FIELDS, STRING))

    def declare(self, schema: Schema, shown: str, *, resource: bool = False) -> CelType | None:
        if schema.type == "object" and not schema.int_or_string and not schema.properties:
            if schema.additional_allowed:
                return CelType("map", DYN)
            if schema.additional is not None:
                return CelType("map", self._child(schema.additional, f"{shown}.@elem") or DYN)
        return super().declare(schema, shown, resource=False)

    def open_up(self, message: str, name: str) -> bool:
        """Let a message have one more field of any type. Tells whether its schema keeps unknown fields at all."""
        known = self.messages.get(message)
        if known is None or known.schema is None or not known.schema.preserve_unknown or name in known.fields:
            return False
        known.fields[name] = DYN
        return True
