"""CustomResourceDefinitions: the schema of a version, defaults and stored versions."""

from __future__ import annotations

from typing import Any

from sliceworks.base import conditions
from sliceworks.schemas.builtins import OBJECT_META, builtin_scheme
from sliceworks.schemas.model import Schema, build

Object = dict[str, Any]


def schema_for_version(definition: Object, version: str) -> Schema:
    """The schema of one version, with type and metadata. Raises KeyError if the version does not exist."""
    match = next((item for item in definition["spec"].get("versions") or () if item["name"] == version), None)
    if match is None:
        raise KeyError(version)
    root = (match.get("schema") or {}).get("openAPIV3Schema") or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return build(with_type_and_metadata(root), builtin_scheme().component)


def with_type_and_metadata(root: Object) -> Object:
    """The root node with `apiVersion`, `kind` and `metadata`. Restrictions that the definition sets on metadata are kept."""
    properties = dict(root.get("properties") or {})
    metadata: Object = {"$ref": OBJECT_META}
    if (properties.get("metadata") or {}).get("properties"):
        metadata["allOf"] = [properties["metadata"]]
    for field in ("apiVersion", "kind"):
        properties.setdefault(field, {"type": "string"})
    return {**root, "properties": {**properties, "metadata": metadata}}


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
