"""Who controls which objects of the kinds that controllers make for other controllers: ReplicaSets, Jobs, revisions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.kube.resources import controller_of

if TYPE_CHECKING:
    from sliceworks.twin.controllers.loop import Change

REPLICA_SETS = "apps/replicasets"
REVISIONS = "apps/controllerrevisions"
JOBS = "batch/jobs"

Place = tuple[str, str]
"""Namespace and name."""


class Dependents:
    """Places of objects by resource and controller, in the order they came."""

    watches = frozenset({REPLICA_SETS, REVISIONS, JOBS})

    def __init__(self) -> None:
        self._owner: dict[tuple[str, Place], str] = {}
        self._owned: dict[tuple[str, str], dict[Place, None]] = {}
        self.before = ""
        """The controller that the object of the change had before, as its UID."""

    def owned_by(self, resource: str, uid: str) -> list[Place]:
        """The objects of a resource that this object controls."""
        return list(self._owned.get((resource, uid), ()))

    def orphans(self, resource: str, namespace: str) -> list[Place]:
        """The objects of a resource in a namespace that nobody controls."""
        return self.owned_by(resource, f"/{namespace}")

    def observe(self, change: Change) -> None:
        resource, place = change.resource, (change.namespace, change.name)
        self.before = self._owner.pop((resource, place), "")
        if self.before:
            found = self._owned.get((resource, self.before))
            if found is not None and found.pop(place, 0) is None and not found:
                del self._owned[resource, self.before]
        if change.type != "DELETED":
            owner = controller_of(change.obj)
            uid = owner["uid"] if owner else f"/{change.namespace}"
            self._owner[resource, place] = uid
            self._owned.setdefault((resource, uid), {})[place] = None
