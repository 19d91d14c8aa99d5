"""The refusals that several verbs share, in the words of the real server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.errors import AlreadyExists, Conflict, Forbidden, NotFound

if TYPE_CHECKING:
    from sliceworks.twin.api.calls import Call

MODIFIED_SINCE = "the object has been modified; please apply your changes to the latest version and try again"


def not_found(call: Call, name: str = "") -> NotFound:
    name = name or call.name
    return NotFound(f'{call.resource.qualified} "{name}" not found', details=_details(call, name))


def conflict(call: Call, name: str, why: str) -> Conflict:
    message = f'Operation cannot be fulfilled on {call.resource.qualified} "{name}": {why}'
    return Conflict(message, details=_details(call, name))


def kind_is_ending(call: Call, name: str) -> Forbidden:
    """Nothing is made of a kind whose definition is being deleted: it would never be."""
    why = "create not allowed while custom resource definition is terminating"
    return Forbidden(f'{call.resource.qualified} "{name}" is forbidden: {why}', details=_details(call, name))


def already_exists(call: Call, name: str) -> AlreadyExists:
    return AlreadyExists(f'{call.resource.qualified} "{name}" already exists', details=_details(call, name))


def uid_differs(given: str, found: str) -> str:
    return f"Precondition failed: UID in precondition: {given}, UID in object meta: {found}"


def _details(call: Call, name: str) -> dict[str, str]:
    details = {"name": name, "group": call.resource.group, "kind": call.resource.plural}
    return {key: value for key, value in details.items() if value}
