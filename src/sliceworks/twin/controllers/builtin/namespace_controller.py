"""The namespace controller: deletes the content of a terminating namespace, then the namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.conditions import set_condition
from sliceworks.base.errors import ApiError
from sliceworks.twin.controllers.runtime.api_writer import ApiWriter
from sliceworks.twin.controllers.runtime.controller import Change, Controller
from sliceworks.twin.controllers.runtime.controller_context import ControllerContext, ObjectKey, ServedResource, controller_user
from sliceworks.twin.controllers.runtime.resource_keys import NAMESPACES, PODS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sliceworks.kube.resources import Object

_USER = controller_user("namespace-controller")
_FINALIZER = "kubernetes"
_CONTENT_FAILURE = "NamespaceDeletionContentFailure"
_SUCCESS = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
    _CONTENT_FAILURE: ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    "NamespaceContentRemaining": ("ContentRemoved", "All content successfully removed"),
    "NamespaceFinalizersRemaining": ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}
FailedConditions = dict[str, tuple[str, str]]
"""Reason and message by condition type."""


class NamespaceController(Controller[str]):
    """Deletes the content of terminating namespaces, and then their finalizer."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._terminating: set[str] = set()
        self._writer = ApiWriter(context, _USER)

    def observe(self, change: Change) -> None:
        if change.resource == NAMESPACES:
            if change.type != "DELETED" and change.obj["metadata"].get("deletionTimestamp"):
                self._terminating.add(change.name)
                self.queue.add(change.name)
            elif change.type == "DELETED":
                self._terminating.discard(change.name)
        elif change.namespace in self._terminating:
            self.queue.add(change.namespace)

    async def sync(self, key: str) -> None:
        namespace = self.context.get(NAMESPACES, "", key)
        if namespace is None or not namespace["metadata"].get("deletionTimestamp"):
            return
        if _FINALIZER not in ((namespace.get("spec") or {}).get("finalizers") or ()):
            return
        failures, empty = await self._delete_content(key)
        await self._update_status(namespace, failures)
        if _CONTENT_FAILURE in failures:
            raise ApiError(failures[_CONTENT_FAILURE][1])  # retried with backoff
        if empty:
            await self._finalize(key)

    async def _delete_content(self, namespace: str) -> tuple[FailedConditions, bool]:
        """Delete the content; returns the failed conditions, and whether the namespace is empty."""
        resources = sorted(self.context.namespaced_resources(), key=lambda served: (served.storage_key != PODS, served.storage_key))
        errors: list[str] = []
        remaining: dict[ServedResource, list[Object]] = {}
        for served in resources:
            try:
                await self._delete_all(served, namespace)
            except ApiError as error:
                errors.append(error.message)
            objects = list(self.context.list_objects(served.storage_key, namespace))
            if objects and served.storage_key == PODS:
                # Pods first: they may still need other objects.
                return find_failures(errors, {}), False
            if objects:
                remaining[served] = objects
        return find_failures(errors, remaining), not errors and not remaining

    async def _delete_all(self, served: ServedResource, namespace: str) -> None:
        objects = self.context.list_objects(served.storage_key, namespace)
        names = [obj["metadata"]["name"] for obj in objects if not obj["metadata"].get("deletionTimestamp")]
        if not names:
            return
        if "deletecollection" in served.resource.verbs:
            options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
            await self._writer.delete(ObjectKey(served.storage_key, namespace, ""), options)
            return
        for name in names:
            await self._writer.delete_if_exists(ObjectKey(served.storage_key, namespace, name))

    async def _update_status(self, namespace: Object, failures: FailedConditions) -> None:
        status = namespace.get("status") or {}
        conditions = set_conditions(status.get("conditions") or [], failures)
        if conditions != status.get("conditions"):
            await self._writer.update_status(NAMESPACES, namespace, {**status, "conditions": conditions})

    async def _finalize(self, name: str) -> None:
        namespace = self.context.get(NAMESPACES, "", name)
        if namespace is None:
            return
        finalizers = [finalizer for finalizer in namespace["spec"].get("finalizers") or () if finalizer != _FINALIZER]
        body = {**namespace, "kind": "Namespace", "apiVersion": "v1", "spec": {**namespace["spec"], "finalizers": finalizers}}
        await self._writer.update(NAMESPACES, body, "finalize")


def find_failures(errors: Iterable[str], remaining: Mapping[ServedResource, list[Object]]) -> FailedConditions:
    """The conditions that are True because content could not be deleted or remains."""
    failures: FailedConditions = {}
    messages = sorted(errors)
    if messages:
        message = f"Failed to delete all resource types, {len(messages)} remaining: {', '.join(messages)}"
        failures[_CONTENT_FAILURE] = ("ContentDeletionFailed", message)
    if remaining:
        counts = sorted(
            f"{resource.plural}.{resource.group} has {len(objs)} resource instances" for (resource, _), objs in remaining.items()
        )
        failures["NamespaceContentRemaining"] = ("SomeResourcesRemain", f"Some resources are remaining: {', '.join(counts)}")
    finalizers: dict[str, int] = {}
    for objects in remaining.values():
        for obj in objects:
            for finalizer in obj["metadata"].get("finalizers") or ():
                finalizers[finalizer] = finalizers.get(finalizer, 0) + 1
    if finalizers:
        counts = sorted(f"{name} in {number} resource instances" for name, number in finalizers.items())
        message = f"Some content in the namespace has finalizers remaining: {', '.join(counts)}"
        failures["NamespaceFinalizersRemaining"] = ("SomeFinalizersRemain", message)
    return failures


def set_conditions(conditions: list[Object], failures: FailedConditions) -> list[Object]:
    """The conditions with all deletion conditions set, True for those that failed."""
    updated = [dict(condition) for condition in conditions]
    for kind, success in _SUCCESS.items():
        reason, message = failures.get(kind, success)
        status = "True" if kind in failures else "False"
        set_condition(updated, {"type": kind, "status": status, "reason": reason, "message": message})
    return updated
