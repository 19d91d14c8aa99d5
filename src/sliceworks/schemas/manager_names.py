"""The name under which a client owns fields: the one it gives, else the first word of its User-Agent."""

from __future__ import annotations

from sliceworks.schemas.field_errors import FieldError, invalid, too_long

LONGEST = 128


def manager_name(field_manager: str, user_agent: str) -> str:
    """The manager of a create, update or patch. (An apply must name its manager itself.)"""
    if field_manager:
        return field_manager
    name = user_agent.partition("/")[0]
    if not name.isprintable():
        name = "".join(letter for letter in name if letter.isprintable())
    return name.encode()[:LONGEST].decode(errors="ignore")


def manager_errors(field_manager: str, path: str = "fieldManager") -> list[FieldError]:
    """What is wrong with a name that a client gives."""
    errors: list[FieldError] = []
    if len(field_manager.encode()) > LONGEST:
        errors.append(too_long(path, LONGEST))
    if field_manager.isprintable():
        return errors
    position = 0
    for letter in field_manager:
        if not letter.isprintable():
            errors.append(invalid(path, field_manager, f"invalid character U+{ord(letter):04X} (at position {position})"))
        position += len(letter.encode())
    return errors
