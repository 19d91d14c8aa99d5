"""The PVC and PV protection controllers: remove the finalizer once a claim or volume is no longer in use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.kube.persistent_volumes import pod_claims
from sliceworks.twin.controllers.runtime.api_writer import ApiWriter
from sliceworks.twin.controllers.runtime.controller import Change, Controller
from sliceworks.twin.controllers.runtime.controller_context import ControllerContext, ObjectKey, controller_user
from sliceworks.twin.controllers.runtime.pod_index import is_finished
from sliceworks.twin.controllers.runtime.resource_keys import CLAIMS, PODS, VOLUMES

if TYPE_CHECKING:
    from collections.abc import Mapping

_CLASSES = "storage.k8s.io/volumeattributesclasses"
_PROTECTED = {
    CLAIMS: ("kubernetes.io/pvc-protection", "pvc-protection-controller"),
    VOLUMES: ("kubernetes.io/pv-protection", "pv-protection-controller"),
    _CLASSES: ("kubernetes.io/vac-protection", "volumeattributesclass-protection-controller"),
}
"""The finalizer of each resource, and the service account that removes it."""
_CLAIM_FIELDS = (b'"persistentVolumeClaim"', b'"ephemeral"')
"""Pods without these need not be decoded."""


class StorageProtectionController(Controller[ObjectKey]):
    """Removes the protection finalizer of terminating claims, volumes and volume attributes classes that are unused."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._terminating: dict[ObjectKey, None] = {}
        self._writers = {resource: ApiWriter(context, controller_user(account)) for resource, (_, account) in _PROTECTED.items()}

    def observe(self, change: Change) -> None:
        resource = change.resource
        if resource in _PROTECTED:
            key = ObjectKey(resource, change.namespace, change.name)
            if change.type != "DELETED" and change.obj["metadata"].get("deletionTimestamp"):
                self._terminating[key] = None
                self.queue.add(key)
            else:
                self._terminating.pop(key, None)
        if self._terminating and resource in {PODS, CLAIMS, VOLUMES}:
            for key in self._terminating:
                if key.namespace in {"", change.namespace}:
                    self.queue.add(key)

    async def sync(self, key: ObjectKey) -> None:
        obj, finalizer = self.context.get(*key), _PROTECTED[key.resource][0]
        if obj is None or finalizer not in (obj["metadata"].get("finalizers") or ()):
            return
        if obj["metadata"].get("deletionTimestamp") and not self._is_used(key, obj):
            obj["metadata"]["finalizers"].remove(finalizer)
            await self._writers[key.resource].update(key.resource, obj)

    def _is_used(self, key: ObjectKey, obj: Mapping[str, Any]) -> bool:
        if key.resource == VOLUMES:
            return (obj.get("status") or {}).get("phase") == "Bound"
        if key.resource == _CLASSES:
            objects = (*self.context.list_objects(CLAIMS), *self.context.list_objects(VOLUMES))
            return any((user.get("spec") or {}).get("volumeAttributesClassName") == key.name for user in objects)
        entries = self.context.entries(PODS, key.namespace)
        pods = (entry.object() for entry in entries if any(field in entry.data for field in _CLAIM_FIELDS))
        return any(key.name == name for pod in pods if _is_running(pod) for name, _ in pod_claims(pod))


def _is_running(pod: Mapping[str, Any]) -> bool:
    """Whether a pod may still use its volumes: it has a node and is not finished."""
    return bool((pod.get("spec") or {}).get("nodeName")) and not is_finished(pod)
