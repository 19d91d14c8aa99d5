"""Shared indexes: objects by their controller, and selectors by the labels they match."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.kube.resources import controller_of
from sliceworks.twin.controllers.runtime.resource_keys import JOBS, REPLICA_SETS, REVISIONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.kube.selectors import LabelSelector
    from sliceworks.twin.controllers.runtime.controller import Change
    from sliceworks.twin.controllers.runtime.controller_context import NamespacedName

_Bucket = tuple[str, str, str]
"""Namespace, label key and value; empty key and value for selectors without an exact requirement."""


class OwnerIndex:
    """Objects by resource and controller, in the order they were created."""

    watches = frozenset({REPLICA_SETS, REVISIONS, JOBS})

    def __init__(self) -> None:
        self._owner: dict[tuple[str, NamespacedName], str] = {}
        self._owned: dict[tuple[str, str], dict[NamespacedName, None]] = {}
        self.before = ""
        """The UID of the controller that the object had before the current change."""

    def owned_by(self, resource: str, uid: str) -> list[NamespacedName]:
        """The objects of a resource that this object controls."""
        return list(self._owned.get((resource, uid), ()))

    def orphans(self, resource: str, namespace: str) -> list[NamespacedName]:
        """The objects of a resource in a namespace that have no controller."""
        return self.owned_by(resource, f"/{namespace}")

    def observe(self, change: Change) -> None:
        resource, key = change.resource, (change.namespace, change.name)
        self.before = self._owner.pop((resource, key), "")
        if self.before:
            owned = self._owned.get((resource, self.before))
            if owned is not None and owned.pop(key, 0) is None and not owned:
                del self._owned[resource, self.before]
        if change.type != "DELETED":
            owner = controller_of(change.obj)
            uid = owner["uid"] if owner else f"/{change.namespace}"
            self._owner[resource, key] = uid
            self._owned.setdefault((resource, uid), {})[key] = None


class SelectorIndex:
    """Label selectors by name. Each is indexed by one label that it requires, so that a lookup tests few selectors."""

    def __init__(self) -> None:
        self._buckets: dict[tuple[str, str], _Bucket] = {}
        self._selectors: dict[_Bucket, dict[str, LabelSelector]] = {}

    def __contains__(self, key: tuple[str, str]) -> bool:
        return key in self._buckets

    def get(self, namespace: str, name: str) -> LabelSelector | None:
        bucket = self._buckets.get((namespace, name))
        return self._selectors[bucket][name] if bucket is not None else None

    def put(self, namespace: str, name: str, selector: LabelSelector) -> None:
        if self.get(namespace, name) == selector:
            return
        self.remove(namespace, name)
        labels = [
            (namespace, requirement.key, requirement.values[0])
            for requirement in selector.requirements
            if requirement.operator in ("=", "==", "in") and len(requirement.values) == 1
        ]
        bucket = min(labels, key=lambda label: len(self._selectors.get(label, ())), default=(namespace, "", ""))
        self._buckets[namespace, name] = bucket
        self._selectors.setdefault(bucket, {})[name] = selector

    def remove(self, namespace: str, name: str) -> None:
        bucket = self._buckets.pop((namespace, name), None)
        if bucket is not None:
            del self._selectors[bucket][name]
            if not self._selectors[bucket]:
                del self._selectors[bucket]

    def matching(self, namespace: str, labels: Mapping[str, str]) -> list[str]:
        """The names of the selectors that match these labels."""
        names: list[str] = []
        if not self._selectors:
            return names
        for bucket in ((namespace, "", ""), *((namespace, key, value) for key, value in labels.items())):
            selectors = self._selectors.get(bucket)
            if selectors:
                names += [name for name, selector in selectors.items() if selector.matches(labels)]
        return names
