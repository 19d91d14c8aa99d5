"""Well-known labels, annotations, finalizers and field managers that kro and this controller share, and the functions that set
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

from sliceworks.graph import diff
from sliceworks.kube.resources import Resource, gvk_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.graph.model import Node
    from sliceworks.kube.resources import Object


COMPATIBLE_WITH: Final = "v0.9.4"
"""The kro version that this controller is compatible with; kro trusts an inventory only if kro wrote it."""

GRAPH_DEFINITION: Final = Resource(
    "kro.run", "v1alpha1", "ResourceGraphDefinition", "resourcegraphdefinitions", namespaced=False, subresources=("status",)
)

GRAPH_REVISION: Final = Resource(
    "internal.kro.run", "v1alpha1", "GraphRevision", "graphrevisions", namespaced=False, subresources=("status",)
)

FINALIZER: Final = "kro.run/finalizer"

# Field managers.
LABELER: Final = "kro.run/labeller"
PARENT: Final = "kro.run/applyset-parent"
APPLYSET: Final = "kro.run/applyset"
WRITER: Final = "kro"

# Labels.
OWNED: Final = "kro.run/owned"
VERSION: Final = "kro.run/kro-version"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
PART_OF: Final = "applyset.kubernetes.io/part-of"
SET_ID: Final = "applyset.kubernetes.io/id"
NODE_ID: Final = "kro.run/node-id"
COLLECTION_INDEX: Final = "kro.run/collection-index"
COLLECTION_SIZE: Final = "kro.run/collection-size"
INSTANCE_ID: Final = "kro.run/instance-id"
INSTANCE_NAME: Final = "kro.run/instance-name"
INSTANCE_NAMESPACE: Final = "kro.run/instance-namespace"
INSTANCE_GROUP: Final = "kro.run/instance-group"
INSTANCE_VERSION: Final = "kro.run/instance-version"
INSTANCE_KIND: Final = "kro.run/instance-kind"
DEFINITION_ID: Final = "kro.run/resource-graph-definition-id"
DEFINITION_NAME: Final = "kro.run/resource-graph-definition-name"
REVISION_HASH: Final = "kro.run/graph-revision-hash"

# Annotations.
TOOLING: Final = "applyset.kubernetes.io/tooling"
GROUP_KINDS: Final = "applyset.kubernetes.io/contains-group-kinds"
NAMESPACES: Final = "applyset.kubernetes.io/additional-namespaces"
INVENTORY_HASH: Final = "internal.kro.run/applyset-inventory-hash"
APPLY_ORDER: Final = "internal.kro.run/apply-order"
RECONCILE: Final = "kro.run/reconcile"
ALLOW_BREAKING: Final = "kro.run/allow-breaking-changes"

# Annotations that kro does not have: the deletion policy of an object, its previous state, and completed objects.
ON_DELETE: Final = diff.ON_DELETE
BEFORE: Final = "internal.kro.run/before"
COMPLETED: Final = "internal.kro.run/completed"
ADOPT: Final = "kro.run/adopt"

# A finalizer that kro does not have: it is removed after the completion of the object was recorded.
COMPLETION_FINALIZER: Final = "kro.run/completion"

OWN_LABELS: Final = frozenset(
    {
        OWNED, VERSION, MANAGED_BY, PART_OF, NODE_ID, COLLECTION_INDEX, COLLECTION_SIZE,
        INSTANCE_ID, INSTANCE_NAME, INSTANCE_NAMESPACE, INSTANCE_GROUP, INSTANCE_VERSION, INSTANCE_KIND,
    }
)  # fmt: skip
"""Labels that this controller adds to a child's template."""

OWN_ANNOTATIONS: Final = frozenset({APPLY_ORDER, ON_DELETE, BEFORE})


def read_record(annotations: Mapping[str, str], name: str) -> Object:
    """The JSON object in an annotation; empty if it is missing or malformed, because users can edit annotations."""
    try:
        return as_object(orjson.loads(annotations.get(name) or "{}"))
    except orjson.JSONDecodeError:
        return {}


def as_object(value: Any) -> Object:
    """A JSON value if it is an object, otherwise an empty one."""
    return value if isinstance(value, dict) else {}


def instance_labels(definition: Object) -> dict[str, str]:
    """The labels of a definition's instances and of its CustomResourceDefinition."""
    metadata = definition["metadata"]
    return {**own_labels(), DEFINITION_ID: metadata["uid"], DEFINITION_NAME: metadata["name"]}


def own_labels() -> dict[str, str]:
    """The labels of every object of this controller."""
    return {OWNED: "true", VERSION: COMPATIBLE_WITH}


def child_labels(instance: Object, set_id: str) -> dict[str, str]:
    """The labels of all children of one instance."""
    metadata, gvk = instance["metadata"], gvk_of(instance)
    labels = {
        **own_labels(),
        MANAGED_BY: "kro",
        PART_OF: set_id,
        INSTANCE_ID: metadata["uid"],
        INSTANCE_NAME: metadata["name"],
        INSTANCE_GROUP: gvk.group,
        INSTANCE_VERSION: gvk.version,
        INSTANCE_KIND: gvk.kind,
    }
    if namespace := metadata.get("namespace"):
        labels[INSTANCE_NAMESPACE] = namespace
    return labels


def label_object(obj: Object, node: Node, labels: dict[str, str], position: tuple[int, int] | None) -> Object:
    """The object of a node with its labels, annotations and finalizer; `position` is its index in a collection and the size."""
    metadata = obj["metadata"]
    node_labels = {NODE_ID: node.id}
    if position is not None:
        node_labels |= {COLLECTION_INDEX: str(position[0]), COLLECTION_SIZE: str(position[1])}
    annotations = {**(metadata.get("annotations") or {}), APPLY_ORDER: str(node.apply_order)}
    if node.lifecycle.on_delete != "delete":
        annotations[ON_DELETE] = node.lifecycle.on_delete
    labeled = {**metadata, "labels": {**(metadata.get("labels") or {}), **labels, **node_labels}, "annotations": annotations}
    if node.lifecycle.on_complete == "keep":
        labeled["finalizers"] = [*(metadata.get("finalizers") or ()), COMPLETION_FINALIZER]
    return {**obj, "metadata": labeled}
