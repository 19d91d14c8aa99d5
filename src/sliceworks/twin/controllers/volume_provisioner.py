"""The storage classes of GKE, and the CSI drivers behind them: they create, expand and delete volumes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import NAMESPACE_DNS, uuid5
from zlib import crc32

from sliceworks.base import quantity
from sliceworks.kube.events import object_reference
from sliceworks.kube.persistent_volumes import (
    DEFAULT_CLASS,
    DELAYED,
    PROVISIONED_BY,
    SELECTED_NODE,
    STORAGE_PROVISIONER,
    annotations_of,
    capacity,
    is_allowed_topology,
    requested_size,
    storage_class_of,
)
from sliceworks.twin.apiserver.auth.authentication import AUTHENTICATED, MASTERS, User
from sliceworks.twin.controllers.runtime.api_writer import ApiWriter
from sliceworks.twin.controllers.runtime.controller import Change, Controller
from sliceworks.twin.controllers.runtime.controller_context import ObjectKey, object_key
from sliceworks.twin.controllers.runtime.recorder import Recorder
from sliceworks.twin.controllers.runtime.resource_keys import CLAIMS, NODES, STORAGE_CLASSES, VOLUMES

if TYPE_CHECKING:
    from sliceworks.kube.resources import Object
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext

_PERSISTENT_DISK, _FILESTORE = "pd.csi.storage.gke.io", "filestore.csi.storage.gke.io"
_FINALIZER = "external-provisioner.volume.kubernetes.io/finalizer"
_ZONE_LABELS = ("topology.gke.io/zone", "topology.kubernetes.io/zone")
_GIBIBYTE = 1024**3
_MULTI_WRITER = (
    "rpc error: code = InvalidArgument desc = VolumeCapabilities is invalid: specified multi writer with mount access type"
)
_USER = User("system:serviceaccount:kube-system:csi-provisioner", groups=(MASTERS, AUTHENTICATED))


class _StorageClass(NamedTuple):
    name: str
    provisioner: str
    parameters: dict[str, str]
    binding: str = DELAYED


_CLASSES = (
    _StorageClass("standard-rwo", _PERSISTENT_DISK, {"type": "pd-balanced"}),
    _StorageClass("premium-rwo", _PERSISTENT_DISK, {"type": "pd-ssd"}),
    _StorageClass("standard", "kubernetes.io/gce-pd", {"type": "pd-standard"}, "Immediate"),
    _StorageClass("standard-rwx", _FILESTORE, {"tier": "standard"}),
    _StorageClass("premium-rwx", _FILESTORE, {"tier": "premium"}),
)
_DEFAULT = "standard-rwo"


def storage_classes() -> list[Object]:
    """The StorageClasses of a GKE cluster with the Filestore driver."""
    return [
        {
            "kind": "StorageClass",
            "apiVersion": "storage.k8s.io/v1",
            "metadata": {
                "name": item.name,
                "uid": str(uuid5(NAMESPACE_DNS, f"{item.name}.storageclasses.storage.k8s.io")),
                "labels": {"addonmanager.kubernetes.io/mode": "EnsureExists"},
                "annotations": {DEFAULT_CLASS[0]: str(item.name == _DEFAULT).lower()},
            },
            "provisioner": item.provisioner,
            "parameters": item.parameters,
            "reclaimPolicy": "Delete",
            "allowVolumeExpansion": True,
            "volumeBindingMode": item.binding,
        }
        for item in _CLASSES
    ]


def controllers(context: ControllerContext) -> tuple[Controller[Any], ...]:
    """One controller for each driver."""
    return VolumeProvisioner(context, _PERSISTENT_DISK), VolumeProvisioner(context, _FILESTORE)


class VolumeProvisioner(Controller[ObjectKey]):
    """Creates volumes for the claims that name a driver, expands them with their claims, and deletes them once released.

    A volume is an object only; pods that run as processes have a folder for it.
    """

    watches = frozenset({CLAIMS, VOLUMES})

    def __init__(self, context: ControllerContext, driver: str) -> None:
        super().__init__(context)
        self._driver = driver
        self._writer = ApiWriter(context, _USER, user_agent="csi-provisioner")
        self._recorder = Recorder(context, _USER, driver)
        self._resize_recorder = Recorder(context, _USER, f"external-resizer {driver}")

    def observe(self, change: Change) -> None:
        if change.type != "DELETED" and self._driver.encode() in change.entry.data:
            self.queue.add(ObjectKey(change.resource, change.namespace, change.name))

    async def sync(self, key: ObjectKey) -> None:
        obj = self.context.get(*key)
        if obj is None:
            return
        if key.resource == VOLUMES:
            await self._delete_released(obj)
        elif annotations_of(obj).get(STORAGE_PROVISIONER) == self._driver and not obj["metadata"].get("deletionTimestamp"):
            await (self._expand(obj) if obj["spec"].get("volumeName") else self._provision(obj))

    # Provisioning.

    async def _provision(self, claim: Object) -> None:
        metadata = claim["metadata"]
        storage_class = self.context.get(STORAGE_CLASSES, "", storage_class_of(claim))
        name = f"pvc-{metadata['uid']}"
        if storage_class is None or self.context.get(VOLUMES, "", name) is not None:
            return
        node = annotations_of(claim).get(SELECTED_NODE)
        if node is None and storage_class.get("volumeBindingMode") == DELAYED:
            return
        message = f'External provisioner is provisioning volume for claim "{metadata["namespace"]}/{metadata["name"]}"'
        await self._recorder.normal(claim, "Provisioning", message)
        if problem := self._find_problem(claim):
            message = f'failed to provision volume with StorageClass "{storage_class["metadata"]["name"]}": {problem}'
            await self._recorder.warning(claim, "ProvisioningFailed", message)
            return
        await self._writer.create(
            VOLUMES, "", self._new_volume(claim, storage_class, name, self._find_zone(claim, storage_class, node))
        )
        await self._recorder.normal(claim, "ProvisioningSucceeded", f"Successfully provisioned volume {name}")

    def _find_problem(self, claim: Object) -> str:
        """Why the driver cannot create a volume; empty if it can."""
        spec = claim["spec"]
        is_file_system = spec.get("volumeMode", "Filesystem") == "Filesystem"
        if self._driver == _PERSISTENT_DISK and is_file_system and "ReadWriteMany" in (spec.get("accessModes") or ()):
            return _MULTI_WRITER
        return ""

    def _find_zone(self, claim: Object, storage_class: Object, node: str | None) -> tuple[str, str] | None:
        """The zone label of the selected node, or of any node if the class does not wait for one; None if there is none."""
        if self._driver != _PERSISTENT_DISK:
            return None
        selected = self.context.get(NODES, "", node) if node else None
        nodes = [selected] if selected is not None else list(self.context.list_objects(NODES))
        labels = [node["metadata"].get("labels") or {} for node in nodes]
        zones = sorted({zone for item in labels if is_allowed_topology(storage_class, item) and (zone := _zone_label(item))})
        return zones[crc32(claim["metadata"]["name"].encode()) % len(zones)] if zones else None

    def _new_volume(self, claim: Object, storage_class: Object, name: str, zone: tuple[str, str] | None) -> Object:
        spec = claim["spec"]
        policy = storage_class.get("reclaimPolicy", "Delete")
        affinity = {"matchExpressions": [{"key": zone[0], "operator": "In", "values": [zone[1]]}]} if zone else None
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {
                "name": name,
                "annotations": {PROVISIONED_BY: self._driver},
                "finalizers": [_FINALIZER] if policy == "Delete" else [],
            },
            "spec": {
                "capacity": {"storage": _rounded(requested_size(claim))},
                "accessModes": spec.get("accessModes"),
                "claimRef": object_reference(claim),
                "csi": {
                    "driver": self._driver,
                    "fsType": "ext4" if self._driver == _PERSISTENT_DISK else None,
                    "volumeHandle": f"{zone[1]}/{name}" if zone else name,
                    "volumeAttributes": storage_class.get("parameters") or None,
                },
                "persistentVolumeReclaimPolicy": policy,
                "storageClassName": storage_class["metadata"]["name"],
                "volumeMode": spec.get("volumeMode"),
                "mountOptions": storage_class.get("mountOptions"),
                "nodeAffinity": {"required": {"nodeSelectorTerms": [affinity]}} if affinity else None,
            },
        }

    # Expansion and deletion.

    async def _expand(self, claim: Object) -> None:
        """Expand the volume of a claim that has grown, and its file system."""
        status, desired = claim.get("status") or {}, _rounded(requested_size(claim))
        volume = self.context.get(VOLUMES, "", claim["spec"]["volumeName"])
        size = (status.get("capacity") or {}).get("storage")
        if volume is None or status.get("phase") != "Bound" or size is None or quantity.compare(requested_size(claim), size) <= 0:
            return
        if quantity.compare(desired, capacity(volume)) > 0:
            message = f"External resizer is resizing volume {volume['metadata']['name']}"
            await self._resize_recorder.normal(claim, "Resizing", message)
            volume["spec"]["capacity"]["storage"] = desired
            await self._writer.update(VOLUMES, volume)
        sizes = {"capacity": {"storage": desired}, "allocatedResources": {"storage": requested_size(claim)}}
        await self._writer.update_status(CLAIMS, claim, {**status, **sizes})
        await self._resize_recorder.normal(claim, "VolumeResizeSuccessful", "Resize volume succeeded")

    async def _delete_released(self, volume: Object) -> None:
        """Delete a volume that has no claim any more, unless it is retained."""
        if annotations_of(volume).get(PROVISIONED_BY) != self._driver:
            return
        finalizers, phase = volume["metadata"].get("finalizers") or [], (volume.get("status") or {}).get("phase")
        policy = volume["spec"].get("persistentVolumeReclaimPolicy")
        if policy == "Delete" and phase != "Released" and not (volume["metadata"].get("deletionTimestamp") and phase != "Bound"):
            return
        if _FINALIZER in finalizers:
            finalizers.remove(_FINALIZER)
            await self._writer.update(VOLUMES, volume)
        if policy == "Delete" and not volume["metadata"].get("deletionTimestamp"):
            await self._writer.delete_if_exists(object_key(VOLUMES, volume))


def _zone_label(labels: dict[str, str]) -> tuple[str, str] | None:
    return next(((key, labels[key]) for key in _ZONE_LABELS if key in labels), None)


def _rounded(size: str) -> str:
    """The size of a disk, in whole gibibytes."""
    return f"{-(-quantity.round_up(size) // _GIBIBYTE)}Gi"
