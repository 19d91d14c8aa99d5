"""The schema of a version of a CustomResourceDefinition."""

from __future__ import annotations

from typing import Any

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
