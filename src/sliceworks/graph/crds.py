"""The CustomResourceDefinition that a definition's schema block stands for."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from sliceworks.graph.plurals import plural
from sliceworks.schemas.builtins import OBJECT_META, catalogue
from sliceworks.schemas.structural import Schema, build

if TYPE_CHECKING:
    from sliceworks.graph.model import Object, SchemaBlock

_STATE: Object = {"type": "string"}
_CONDITIONS: Object = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            **{name: {"type": "string"} for name in ("type", "status", "reason", "message", "lastTransitionTime")},
            "observedGeneration": {"type": "integer"},
        },
    },
}
_COLUMNS: list[Object] = [
    {
        "name": "State",
        "description": "The state of a ResourceGraphDefinition instance",
        "type": "string",
        "jsonPath": ".status.state",
    },
    {
        "name": "Ready",
        "description": "Whether a ResourceGraphDefinition instance is ready",
        "type": "string",
        "jsonPath": '.status.conditions[?(@.type=="Ready")].status',
    },
    {"name": "Age", "description": "Age of the resource", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]


def generated(block: SchemaBlock, spec: Object, status: Object) -> Object:
    """The definition. `spec` is the schema of an instance's spec, `status` holds the author's own status fields."""
    own = {"state": _STATE, "conditions": _CONDITIONS}
    properties = {**copy.deepcopy(own), **status.get("properties", {})}
    root: Object = {
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": {"type": "object", **status, "properties": properties},
        },
    }
    names = _names(block)
    metadata: Object = {"name": f"{names['plural']}.{block.group}"}
    if block.labels:
        metadata["labels"] = dict(block.labels)
    if block.annotations:
        metadata["annotations"] = dict(block.annotations)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": block.group,
            "names": names,
            "scope": "Namespaced" if block.namespaced else "Cluster",
            "versions": [_version(block, root)],
        },
    }


def _names(block: SchemaBlock) -> Object:
    lower = block.kind.lower()
    names: Object = {"kind": block.kind, "listKind": f"{block.kind}List", "plural": plural(lower), "singular": lower}
    if block.short_names:
        names["shortNames"] = list(block.short_names)
    if block.categories:
        names["categories"] = list(block.categories)
    return names


def _version(block: SchemaBlock, root: Object) -> Object:
    return {
        "name": block.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": root},
        "subresources": {"status": {}},
        "additionalPrinterColumns": copy.deepcopy(list(block.columns) or _COLUMNS),
    }


def instance_schema(block: SchemaBlock, spec: Object) -> Schema:
    """What expressions see as `schema`: spec and metadata of an instance, without its status."""
    properties: Object = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "spec": spec,
        "metadata": {"$ref": OBJECT_META},
    }
    if not block.namespaced:
        node = catalogue().node(OBJECT_META)
        without = {name: child for name, child in node["properties"].items() if name != "namespace"}
        properties["metadata"] = {**node, "properties": without}
    return build({"type": "object", "properties": properties}, catalogue().component)
