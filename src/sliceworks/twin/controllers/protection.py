"""Lets go of volumes and claims that are to be deleted once nobody uses them any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.controllers.loop import Change, Controller
from sliceworks.twin.controllers.world import Key, World, controller_user

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_CLAIMS, _VOLUMES = "/persistentvolumeclaims", "/persistentvolumes"
_CLASSES = "storage.k8s.io/volumeattributesclasses"
_FINALIZERS = {
    _CLAIMS: "kubernetes.io/pvc-protection",
    _VOLUMES: "kubernetes.io/pv-protection",
    _CLASSES: "kubernetes.io/vac-protection",
}
_USERS = {
    _CLAIMS: controller_user("pvc-protection-controller"),
    _VOLUMES: controller_user("pv-protection-controller"),
    _CLASSES: controller_user("volumeattributesclass-protection-controller"),
}


class StorageProtection(Controller[Key]):
    """Takes the protecting finalizers off again."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._ending: dict[Key, None] = {}

    def observe(self, change: Change) -> None:
        resource = change.resource
        if resource in _FINALIZERS:
            key = Key(resource, change.namespace, change.name)
            if change.type != "DELETED" and change.obj["metadata"].get("deletionTimestamp"):
                self._ending[key] = None
                self.queue.add(key)
            else:
                self._ending.pop(key, None)
        if self._ending and resource in {"/pods", _CLAIMS, _VOLUMES}:
            for key in self._ending:
                if key.namespace in {"", change.namespace}:
                    self.queue.add(key)

    async def sync(self, key: Key) -> None:
        obj, served = self.world.get(*key), self.world.of(key.resource)
        finalizer = _FINALIZERS[key.resource]
        if obj is None or served is None or finalizer not in (obj["metadata"].get("finalizers") or ()):
            return
        if obj["metadata"].get("deletionTimestamp") and not self._is_used(key, obj):
            obj["metadata"]["finalizers"].remove(finalizer)
            await self.world.send(_USERS[key.resource], "PUT", served.path(key.namespace, key.name), obj)

    def _is_used(self, key: Key, obj: Mapping[str, Any]) -> bool:
        if key.resource == _VOLUMES:
            return (obj.get("status") or {}).get("phase") == "Bound"
        if key.resource == _CLASSES:
            claims = [*self.world.find_all(_CLAIMS), *self.world.find_all(_VOLUMES)]
            return any((each.get("spec") or {}).get("volumeAttributesClassName") == key.name for each in claims)
        return any(key.name in claims_of(pod) for pod in self.world.find_all("/pods", key.namespace) if _is_running(pod))


def claims_of(pod: Mapping[str, Any]) -> Iterator[str]:
    """The claims a pod mounts: those it names, and those made for it."""
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            yield volume["persistentVolumeClaim"].get("claimName", "")
        elif "ephemeral" in volume:
            yield f"{pod['metadata']['name']}-{volume.get('name', '')}"


def _is_running(pod: Mapping[str, Any]) -> bool:
    """Whether a pod may still touch its volumes: it has a node and has not ended."""
    phase = (pod.get("status") or {}).get("phase")
    return bool((pod.get("spec") or {}).get("nodeName")) and phase not in {"Succeeded", "Failed"}
