"""The namespace controller: when a namespace ends, its pods go first, then everything else, then the namespace itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import ApiError, NotFound
from sliceworks.twin.controllers.loop import Change, Controller
from sliceworks.twin.controllers.world import Served, World, controller_user

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_USER = controller_user("namespace-controller")
_NAMESPACES = "/namespaces"
_FINALIZER = "kubernetes"
_FAILED = "NamespaceDeletionContentFailure"
_GOOD = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
    _FAILED: ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}
Bad = dict[str, tuple[str, str]]


class Namespaces(Controller[str]):
    """Empties namespaces that are being deleted."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._ending: set[str] = set()

    def observe(self, change: Change) -> None:
        if change.resource == _NAMESPACES:
            if change.type != "DELETED" and change.obj["metadata"].get("deletionTimestamp"):
                self._ending.add(change.name)
                self.queue.add(change.name)
            elif change.type == "DELETED":
                self._ending.discard(change.name)
        elif change.namespace in self._ending:
            self.queue.add(change.namespace)

    async def sync(self, key: str) -> None:
        namespace = self.world.get(_NAMESPACES, "", key)
        if namespace is None or not namespace["metadata"].get("deletionTimestamp"):
            return
        if _FINALIZER not in ((namespace.get("spec") or {}).get("finalizers") or ()):
            return
        bad, empty = await self._empty(key)
        await self._report(namespace, bad)
        if _FAILED in bad:
            raise ApiError(bad[_FAILED][1])  # tried again, later and later
        if empty:
            await self._finalize(key)

    async def _empty(self, namespace: str) -> tuple[Bad, bool]:
        """Delete the content; returns what stands in the way, and whether nothing is left."""
        kinds = sorted(self.world.namespaced(), key=lambda served: (served.stored_as != "/pods", served.stored_as))
        errors: list[str] = []
        left: dict[Served, list[dict[str, Any]]] = {}
        for served in kinds:
            try:
                await self._delete_all(served, namespace)
            except ApiError as error:
                errors.append(error.message)
            remaining = list(self.world.find_all(served.stored_as, namespace))
            if remaining and served.stored_as == "/pods":
                # Nothing that a pod may still need goes before it does.
                return failures(errors, {}), False
            if remaining:
                left[served] = remaining
        return failures(errors, left), not errors and not left

    async def _delete_all(self, served: Served, namespace: str) -> None:
        left = [obj for obj in self.world.find_all(served.stored_as, namespace) if not obj["metadata"].get("deletionTimestamp")]
        if not left:
            return
        if "deletecollection" in served.verbs:
            body = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
            await self.world.send(_USER, "DELETE", served.path(namespace), body)
            return
        for obj in left:
            try:
                await self.world.send(_USER, "DELETE", served.path(namespace, obj["metadata"]["name"]))
            except NotFound:
                continue

    async def _report(self, namespace: dict[str, Any], bad: Bad) -> None:
        status = namespace.get("status") or {}
        conditions = with_conditions(status.get("conditions") or [], bad)
        if conditions != status.get("conditions"):
            name = namespace["metadata"]["name"]
            body = {**namespace, "status": {**status, "conditions": conditions}}
            await self.world.send(_USER, "PUT", f"/api/v1/namespaces/{name}/status", body)

    async def _finalize(self, name: str) -> None:
        namespace = self.world.get(_NAMESPACES, "", name)
        if namespace is None:
            return
        left = [each for each in namespace["spec"].get("finalizers") or () if each != _FINALIZER]
        body = {**namespace, "kind": "Namespace", "apiVersion": "v1", "spec": {**namespace["spec"], "finalizers": left}}
        await self.world.send(_USER, "PUT", f"/api/v1/namespaces/{name}/finalize", body)


def failures(errors: Iterable[str], left: Mapping[Served, list[dict[str, Any]]]) -> Bad:
    """The conditions that are not as they should be: type to reason and message."""
    found: Bad = {}
    texts = sorted(errors)
    if texts:
        message = f"Failed to delete all resource types, {len(texts)} remaining: {', '.join(texts)}"
        found[_FAILED] = ("ContentDeletionFailed", message)
    if left:
        counts = sorted(f"{_dotted(served.resource)} has {len(objects)} resource instances" for served, objects in left.items())
        found["NamespaceContentRemaining"] = ("SomeResourcesRemain", f"Some resources are remaining: {', '.join(counts)}")
    finalizers: dict[str, int] = {}
    for objects in left.values():
        for obj in objects:
            for each in obj["metadata"].get("finalizers") or ():
                finalizers[each] = finalizers.get(each, 0) + 1
    if finalizers:
        counts = sorted(f"{name} in {number} resource instances" for name, number in finalizers.items())
        message = f"Some content in the namespace has finalizers remaining: {', '.join(counts)}"
        found["NamespaceFinalizersRemaining"] = ("SomeFinalizersRemain", message)
    return found


def with_conditions(conditions: list[dict[str, Any]], bad: Bad) -> list[dict[str, Any]]:
    """The conditions brought up to date; times change with the status alone."""
    old = {condition["type"]: condition for condition in conditions}
    for kind, good in _GOOD.items():
        reason, message = bad.get(kind, good)
        status = "True" if kind in bad else "False"
        before = old.get(kind) or {}
        since = before.get("lastTransitionTime") if before.get("status") == status else clock.timestamp()
        old[kind] = {"type": kind, "status": status, "lastTransitionTime": since, "reason": reason, "message": message}
    return list(old.values())


def _dotted(resource: str) -> str:
    group, _, plural = resource.rpartition("/")
    return f"{plural}.{group}"
