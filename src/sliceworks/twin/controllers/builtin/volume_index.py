"""The claims that wait for a volume, and the volumes that they may get."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.kube.persistent_volumes import BIND_COMPLETED, annotations_of
from sliceworks.twin.controllers.runtime.controller_context import NamespacedName, ObjectKey
from sliceworks.twin.controllers.runtime.resource_keys import CLAIMS, STORAGE_CLASSES, VOLUMES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.kube.resources import Object
    from sliceworks.twin.controllers.runtime.controller import Change


class VolumeIndex:
    """Finds the candidates of a claim without decoding all volumes, and the keys that a change concerns."""

    def __init__(self) -> None:
        self._pending: dict[ObjectKey, None] = {}
        """Claims that are not bound."""
        self._unclaimed: dict[str, Object] = {}
        """Volumes without a claim, by name."""
        self._claimed: dict[NamespacedName, dict[str, Object]] = {}
        """Volumes with a claim, by that claim and name."""
        self._claim_of: dict[str, NamespacedName] = {}

    def observe(self, change: Change) -> Iterator[ObjectKey]:
        """Update the index; returns the claims and volumes to reconcile."""
        if change.resource == STORAGE_CLASSES:
            yield from self._pending
        elif change.resource == VOLUMES:
            yield from self._observe_volume(change)
        elif change.resource == CLAIMS:
            yield from self._observe_claim(change)

    def candidates(self, claim: Object, *, only_bound: bool) -> list[Object]:
        """The volumes that have no claim or this one, the oldest first; callers must not change them."""
        metadata = claim["metadata"]
        claimed = self._claimed.get((metadata["namespace"], metadata["name"]), {}).values()
        return list(claimed) if only_bound else [*claimed, *self._unclaimed.values()]

    def _observe_volume(self, change: Change) -> Iterator[ObjectKey]:
        name, obj = change.name, change.obj
        self._remove_volume(name)
        reference = obj["spec"].get("claimRef")
        claim = (reference.get("namespace", ""), reference.get("name", "")) if reference is not None else None
        if change.type != "DELETED":
            yield ObjectKey(VOLUMES, "", name)
            if claim is None:
                self._unclaimed[name] = obj
                if (obj.get("status") or {}).get("phase") == "Available":
                    yield from self._pending
            else:
                self._claimed.setdefault(claim, {})[name] = obj
                self._claim_of[name] = claim
        if claim is not None:
            yield ObjectKey(CLAIMS, *claim)

    def _remove_volume(self, name: str) -> None:
        self._unclaimed.pop(name, None)
        if (claim := self._claim_of.pop(name, None)) is not None:
            del self._claimed[claim][name]
            if not self._claimed[claim]:
                del self._claimed[claim]

    def _observe_claim(self, change: Change) -> Iterator[ObjectKey]:
        key, obj = ObjectKey(CLAIMS, change.namespace, change.name), change.obj
        if change.type == "DELETED" or BIND_COMPLETED in annotations_of(obj):
            self._pending.pop(key, None)
        else:
            self._pending[key] = None
        if change.type != "DELETED":
            yield key
        names = dict.fromkeys(self._claimed.get((change.namespace, change.name), ()))
        if name := obj["spec"].get("volumeName"):
            names[name] = None
        for name in names:
            yield ObjectKey(VOLUMES, "", name)
