"""CustomResourceDefinitions: what is wrong with them, what is filled in, the schema of a version, their conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.schemas import formats
from sliceworks.schemas.builtins import OBJECT_META, catalogue
from sliceworks.schemas.model import Schema, build

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sliceworks.schemas.field_errors import FieldError

Object = dict[str, Any]


def schema_for_version(definition: Object, version: str) -> Schema:
    """The schema of the custom resources of one version, type and metadata included. KeyError when there is no such version."""
    found = next((item for item in definition["spec"].get("versions") or () if item["name"] == version), None)
    if found is None:
        raise KeyError(version)
    root = (found.get("schema") or {}).get("openAPIV3Schema") or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return build(with_type_and_metadata(root), catalogue().component)


def with_type_and_metadata(root: Object) -> Object:
    """The root node with `apiVersion`, `kind` and `metadata`. Limits that the definition puts on metadata are kept beside it."""
    properties = dict(root.get("properties") or {})
    metadata: Object = {"$ref": OBJECT_META}
    if (properties.get("metadata") or {}).get("properties"):
        metadata["allOf"] = [properties["metadata"]]
    for field in ("apiVersion", "kind"):
        properties.setdefault(field, {"type": "string"})
    return {**root, "properties": {**properties, "metadata": metadata}}


def set_defaults(definition: Object) -> None:
    """Fills in names, conversion and stored versions, in place."""
    spec = definition["spec"]
    names = spec["names"]
    if not names.get("singular"):
        names["singular"] = names.get("kind", "").lower()
    if not names.get("listKind") and names.get("kind"):
        names["listKind"] = names["kind"] + "List"
    if spec.get("conversion") is None:
        spec["conversion"] = {"strategy": "None"}
    if not (definition.get("status") or {}).get("storedVersions"):
        note_storage_version(definition)


def reset_status(definition: Object) -> None:
    """The status of a new definition: nothing accepted yet, one version stored."""
    definition["status"] = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": None}
    note_storage_version(definition)


def note_storage_version(definition: Object) -> None:
    """Adds the storage version to the versions that objects may be stored in."""
    storage = next((item["name"] for item in definition["spec"].get("versions") or () if item.get("storage")), None)
    status = definition.setdefault("status", {})
    stored = status.get("storedVersions") or []
    if storage is not None and storage not in stored:
        status["storedVersions"] = [*stored, storage]


def errors(
    definition: Object,
    old: Object | None = None,
    compile_rules: Callable[[Schema, str], list[FieldError]] | None = None,
) -> list[FieldError]:
    """What is wrong with a definition, and with its change from `old`.

    `compile_rules` says what is wrong with the CEL rules in a schema that stands at a path; it is called for sound schemas only.
    """
    from sliceworks.schemas.definitions.errors import definition_errors, update_errors

    found = list(definition_errors(definition, compile_rules))
    return found if old is None else [*found, *update_errors(definition, old)]


def warnings(definition: Object) -> list[str]:
    """What is accepted but means nothing: formats that are not known."""
    roots = [(item.get("schema") or {}).get("openAPIV3Schema") or {} for item in definition["spec"].get("versions") or ()]
    unknown = dict.fromkeys(name for root in roots for name in _unknown_formats(root))
    return [f'unrecognized format "{name}"' for name in unknown]


def _unknown_formats(node: Object) -> Iterator[str]:
    if node.get("format") and node.get("type") == "string" and formats.known(node["format"]) is None:
        yield node["format"]
    for child in (node.get("properties") or {}).values():
        yield from _unknown_formats(child)
    for keyword in ("items", "additionalProperties", "not"):
        if isinstance(node.get(keyword), dict):
            yield from _unknown_formats(node[keyword])
    for keyword in ("allOf", "anyOf", "oneOf"):
        for branch in node.get(keyword) or ():
            yield from _unknown_formats(branch)


def set_condition(definition: Object, condition: Object) -> bool:
    """Puts a condition in place; its time changes only with its status. Tells whether anything changed."""
    status = definition.setdefault("status", {})
    conditions = status.get("conditions") or []
    status["conditions"] = conditions
    found = next((item for item in conditions if item["type"] == condition["type"]), None)
    if found is None:
        conditions.append(dict(condition))
        return True
    before = dict(found)
    same_status = found["status"] == condition["status"]
    time = found.get("lastTransitionTime") if same_status else condition.get("lastTransitionTime")
    found.update(condition)
    if time is not None:
        found["lastTransitionTime"] = time
    return bool(found != before)
