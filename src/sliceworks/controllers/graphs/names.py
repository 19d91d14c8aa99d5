"""The names that kro and this controller share in a cluster: labels, annotations, finalizer, field managers, resources.

They are kro's own, so that a cluster can change from one to the other without touching an object. What only this controller
writes stands below `ON_DELETE`.
"""

from __future__ import annotations

from typing import Final

from sliceworks.kube.resources import Resource

COMPATIBLE_WITH: Final = "v0.9.4"
"""The kro whose objects ours look like; kro trusts an inventory only if a kro says that it wrote it."""

GRAPH_DEFINITION: Final = Resource(
    "kro.run", "v1alpha1", "ResourceGraphDefinition", "resourcegraphdefinitions", namespaced=False, subresources=("status",)
)
GRAPH_REVISION: Final = Resource(
    "internal.kro.run", "v1alpha1", "GraphRevision", "graphrevisions", namespaced=False, subresources=("status",)
)

FINALIZER: Final = "kro.run/finalizer"

# Field managers.
LABELLER: Final = "kro.run/labeller"
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

# Annotations of ours: what happens to an object when it is let go, what it was before, and what has finished.
ON_DELETE: Final = "internal.kro.run/on-delete"
BEFORE: Final = "internal.kro.run/before"
COMPLETED: Final = "internal.kro.run/completed"
ADOPT: Final = "kro.run/adopt"

# A finalizer of ours: the object may go when it has been noted whether it finished.
PINNED: Final = "kro.run/completion"

OWN_LABELS: Final = frozenset(
    {
        OWNED, VERSION, MANAGED_BY, PART_OF, NODE_ID, COLLECTION_INDEX, COLLECTION_SIZE,
        INSTANCE_ID, INSTANCE_NAME, INSTANCE_NAMESPACE, INSTANCE_GROUP, INSTANCE_VERSION, INSTANCE_KIND,
    }
)  # fmt: skip
"""What this controller writes on a child beside its template."""
OWN_ANNOTATIONS: Final = frozenset({APPLY_ORDER, ON_DELETE, BEFORE})
