"""What this controller writes on the objects it makes and on the instances it makes them for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.controllers.graphs import names
from sliceworks.kube.resources import gvk_of

if TYPE_CHECKING:
    from sliceworks.graph.model import Node
    from sliceworks.kube.resources import Object


def instance_labels(definition: Object) -> dict[str, str]:
    """What an instance of a definition, and its CustomResourceDefinition, carry."""
    metadata = definition["metadata"]
    return {**own_labels(), names.DEFINITION_ID: metadata["uid"], names.DEFINITION_NAME: metadata["name"]}


def own_labels() -> dict[str, str]:
    """What everything of ours carries."""
    return {names.OWNED: "true", names.VERSION: names.COMPATIBLE_WITH}


def child_labels(instance: Object, set_id: str) -> dict[str, str]:
    """What all objects of one instance carry."""
    metadata, gvk = instance["metadata"], gvk_of(instance)
    labels = {
        **own_labels(),
        names.MANAGED_BY: "kro",
        names.PART_OF: set_id,
        names.INSTANCE_ID: metadata["uid"],
        names.INSTANCE_NAME: metadata["name"],
        names.INSTANCE_GROUP: gvk.group,
        names.INSTANCE_VERSION: gvk.version,
        names.INSTANCE_KIND: gvk.kind,
    }
    if namespace := metadata.get("namespace"):
        labels[names.INSTANCE_NAMESPACE] = namespace
    return labels


def dress(obj: Object, node: Node, labels: dict[str, str], place: tuple[int, int] | None) -> Object:
    """The object of a node as it is applied; `place` is its index in a collection and that collection's size."""
    metadata = obj["metadata"]
    more = {names.NODE_ID: node.id}
    if place is not None:
        more |= {names.COLLECTION_INDEX: str(place[0]), names.COLLECTION_SIZE: str(place[1])}
    annotations = {**(metadata.get("annotations") or {}), names.APPLY_ORDER: str(node.apply_order)}
    if node.lifecycle.on_delete != "delete":
        annotations[names.ON_DELETE] = node.lifecycle.on_delete
    dressed = {**metadata, "labels": {**(metadata.get("labels") or {}), **labels, **more}, "annotations": annotations}
    if node.lifecycle.on_complete == "keep":
        dressed["finalizers"] = [*(metadata.get("finalizers") or ()), names.PINNED]
    return {**obj, "metadata": dressed}
