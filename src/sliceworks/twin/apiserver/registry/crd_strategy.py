"""The strategy of CustomResourceDefinitions: defaults, stored versions and conditions."""

from __future__ import annotations

from typing import Any

from sliceworks.base import conditions

Object = dict[str, Any]


def set_defaults(definition: Object) -> None:
    """Default names, conversion and stored versions in place."""
    spec = definition["spec"]
    names = spec["names"]
    if not names.get("singular"):
        names["singular"] = names.get("kind", "").lower()
    if not names.get("listKind") and names.get("kind"):
        names["listKind"] = names["kind"] + "List"
    if spec.get("conversion") is None:
        spec["conversion"] = {"strategy": "None"}
    if not (definition.get("status") or {}).get("storedVersions"):
        record_stored_version(definition)


def reset_status(definition: Object) -> None:
    """Reset the status of a new definition: no accepted names, one stored version."""
    definition["status"] = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": None}
    record_stored_version(definition)


def record_stored_version(definition: Object) -> None:
    """Add the storage version to `status.storedVersions`."""
    storage = next((item["name"] for item in definition["spec"].get("versions") or () if item.get("storage")), None)
    status = definition.setdefault("status", {})
    stored = status.get("storedVersions") or []
    if storage is not None and storage not in stored:
        status["storedVersions"] = [*stored, storage]


def set_condition(definition: Object, condition: Object) -> bool:
    """Set a condition; lastTransitionTime changes only with its status. Returns whether anything changed."""
    status = definition.setdefault("status", {})
    status["conditions"] = status.get("conditions") or []
    return conditions.set_condition(status["conditions"], condition)
