"""Who an object is: kind, namespace and name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.graph.kinds import Kind
    from sliceworks.graph.model import Object

Identity = tuple[str, str, str, str]


def identity(one: Object) -> Identity:
    """Group, kind, namespace and name."""
    metadata = one.get("metadata") or {}
    group = str(one.get("apiVersion", "")).rpartition("/")[0]
    return group, str(one.get("kind", "")), metadata.get("namespace") or "", metadata.get("name") or ""


def complete(one: Object, kind: Kind, instance: Object) -> str:
    """Fill in the namespace of a new object: the instance's, where it has none of its own. Says what is wrong, if anything."""
    metadata = one["metadata"]
    if not isinstance(metadata.get("name"), str) or not metadata["name"]:
        return f"the {kind.kind} has no name"
    if kind.namespaced and not metadata.get("namespace"):
        namespace = (instance.get("metadata") or {}).get("namespace")
        if not namespace:
            return f"metadata.namespace: the {kind.kind} {metadata['name']} has none, and neither has the instance"
        metadata["namespace"] = namespace
    return ""


def duplicate(objects: Iterable[Object]) -> str:
    """An object that comes twice, or nothing."""
    seen = set()
    for one in objects:
        key = identity(one)
        if key in seen:
            return f"{key[1]} {key[2] + '/' if key[2] else ''}{key[3]}"
        seen.add(key)
    return ""
