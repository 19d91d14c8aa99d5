"""Objects of a cluster as data: who each one is, and one object where two parts ask for the same. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.base import names
from sliceworks.base.errors import InvalidDocument

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Object = dict[str, Any]
SYSTEM = "sliceworks-system"
"""The namespace that holds what is known of environments."""
OWNER = "sliceworks.dev/environment"
"""The label of everything that an environment has put into a cluster."""


class Identity(NamedTuple):
    """Which object: `namespace` is empty for what belongs to the whole cluster."""

    api_version: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


def identity(obj: Mapping[str, Any]) -> Identity:
    """Who an object is."""
    metadata = obj["metadata"]
    return Identity(obj["apiVersion"], obj["kind"], metadata.get("namespace", ""), metadata["name"])


def namespace(name: str, *, labels: Mapping[str, str] | None = None, annotations: Mapping[str, str] | None = None) -> Object:
    """A namespace."""
    metadata: Object = {"name": name}
    if labels:
        metadata["labels"] = dict(labels)
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def owner(environment: str) -> str:
    """An environment's name as a label's value."""
    return names.shorten(environment)


def owned(obj: Object, environment: str) -> Object:
    """The object with the label of its environment."""
    metadata = obj["metadata"]
    labels = {**(metadata.get("labels") or {}), OWNER: owner(environment)}
    return {**obj, "metadata": {**metadata, "labels": labels}}


def is_owned(obj: Mapping[str, Any], environment: str) -> bool:
    """Whether an object that was read says that an environment has put it there."""
    return (obj["metadata"].get("labels") or {}).get(OWNER) == owner(environment)


def content(obj: Mapping[str, Any]) -> Object:
    """What people say in an object, without what servers and controllers keep in it."""
    metadata = {key: obj["metadata"].get(key) or {} for key in ("labels", "annotations")}
    return {**obj, "metadata": metadata, "status": None}


def merged(objects: Iterable[Object]) -> list[Object]:
    """Each object once, at its first place. Two parts may ask for one namespace or account; they must not contradict each other."""
    found: dict[Identity, Object] = {}
    for obj in objects:
        who = identity(obj)
        found[who] = _both(found[who], obj, str(who)) if who in found else obj
    return list(found.values())


def _both(one: Any, other: Any, place: str) -> Any:
    if isinstance(one, dict) and isinstance(other, dict):
        shared = {key: _both(one[key], other[key], f"{place}, {key}") for key in one if key in other}
        return {**one, **other, **shared}
    if one != other:
        raise InvalidDocument(f"{place} would have to be {one!r} and {other!r}", hint="give one of them another name")
    return one
