"""The names that Config Connector puts on things and reads from them."""

from __future__ import annotations

from typing import Any

from sliceworks.base.conditions import is_true
from sliceworks.schemas.config_connector import PREFIX
from sliceworks.twin.auth.identity import MASTERS, User

Obj = dict[str, Any]

NAMESPACES = "/namespaces"
SECRETS = "/secrets"
MANAGER = "cnrm-controller-manager"
USER = User(f"system:serviceaccount:cnrm-system:{MANAGER}", groups=(MASTERS,))

PROJECT = f"{PREFIX}project-id"
FOLDER = f"{PREFIX}folder-id"
ORGANIZATION = f"{PREFIX}organization-id"
CONFLICT_POLICY = f"{PREFIX}management-conflict-prevention-policy"
STATE_INTO_SPEC = f"{PREFIX}state-into-spec"

GOOD = frozenset({"UpToDate", "Updating", "Deleting", "Deleted"})
"""The reasons that are told of as news, not as warnings."""


def annotation(obj: Obj | None, name: str) -> str:
    """What an annotation says; nothing when there is none."""
    return str((((obj or {}).get("metadata") or {}).get("annotations") or {}).get(name) or "")


def is_ready(obj: Obj) -> bool:
    """Whether an object's Ready condition is True."""
    return is_true(obj, "Ready")
