"""The PersistentVolume controller: binds claims to volumes, sets their phases, and reclaims released volumes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sliceworks.kube.events import object_reference
from sliceworks.kube.persistent_volumes import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    DELAYED,
    MIGRATED_TO,
    PROVISIONED_BY,
    SELECTED_NODE,
    STORAGE_PROVISIONER,
    annotations_of,
    default_class,
    find_matching_volume,
    has_access_modes,
    has_mode_mismatch,
    has_storage_class,
    is_bound_to,
    mismatch,
    pod_claims,
    storage_class_of,
)
from sliceworks.twin.controllers.builtin.volume_index import VolumeIndex
from sliceworks.twin.controllers.runtime.api_writer import ApiWriter
from sliceworks.twin.controllers.runtime.controller import Change, Controller
from sliceworks.twin.controllers.runtime.controller_context import ObjectKey, controller_user, object_key
from sliceworks.twin.controllers.runtime.pod_index import PodIndex
from sliceworks.twin.controllers.runtime.recorder import Recorder
from sliceworks.twin.controllers.runtime.resource_keys import CLAIMS, PODS, STORAGE_CLASSES, VOLUMES

if TYPE_CHECKING:
    from sliceworks.kube.resources import Object
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext

_USER = controller_user("persistent-volume-binder")
_BETA_STORAGE_PROVISIONER = "volume.beta.kubernetes.io/storage-provisioner"
_IN_TREE = "kubernetes.io/"
_MIGRATED = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/azure-file": "file.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
    "kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
}
"""The CSI drivers that have replaced provisioners of Kubernetes."""
_WAITING_FOR_PROVISIONER = (
    "Waiting for a volume to be created either by the external provisioner '{}' or manually by the system administrator. If volume "
    "creation is delayed, please verify that the provisioner is running and correctly registered."
)


class PersistentVolumeController(Controller[ObjectKey]):
    """Binds claims to the volumes that satisfy them; claims without such a volume wait for their provisioner."""

    watches = frozenset({CLAIMS, VOLUMES, STORAGE_CLASSES})

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._index = VolumeIndex()
        self._pods = context.shared_index(PodIndex)
        self._writer = ApiWriter(context, _USER)
        self._recorder = Recorder(context, _USER, "persistentvolume-controller")

    def observe(self, change: Change) -> None:
        for key in self._index.observe(change):
            self.queue.add(key)

    async def sync(self, key: ObjectKey) -> None:
        obj = self.context.get(*key)
        if obj is None:
            return
        if key.resource == VOLUMES:
            await self._sync_volume(obj)
        elif BIND_COMPLETED in annotations_of(obj):
            await self._sync_bound_claim(obj)
        elif obj["spec"].get("volumeName"):
            await self._sync_claim_with_volume(obj)
        else:
            await self._sync_unbound_claim(obj)

    # Claims.

    async def _sync_unbound_claim(self, claim: Object) -> None:
        """Bind a claim to the best volume, or have one provisioned."""
        is_delayed = self._is_delayed(claim)
        volumes = self._index.candidates(claim, only_bound=is_delayed)
        by_modes = sorted(volumes, key=lambda volume: len(set(volume["spec"].get("accessModes") or ())))
        volume = find_matching_volume(claim, [volume for volume in by_modes if has_access_modes(claim, volume)])
        if volume is not None:
            await self._bind(self.context.get(VOLUMES, "", volume["metadata"]["name"]), claim)
        elif not await self._assign_default_class(claim):
            await self._wait_for_volume(claim, is_delayed=is_delayed)

    async def _wait_for_volume(self, claim: Object, *, is_delayed: bool) -> None:
        if is_delayed and SELECTED_NODE not in annotations_of(claim):
            pods = self._unscheduled_pods(claim)
            if pods:
                message = f"waiting for pod{'s' if len(pods) > 1 else ''} {','.join(pods)} to be scheduled"
                await self._recorder.normal(claim, "WaitForPodScheduled", message)
            else:
                message = "waiting for first consumer to be created before binding"
                await self._recorder.normal(claim, "WaitForFirstConsumer", message)
        elif storage_class_of(claim):
            await self._request_provisioning(claim)
            return
        else:
            message = "no persistent volumes available for this claim and no storage class is set"
            await self._recorder.normal(claim, "FailedBinding", message)
        await self._update_claim_status(claim, "Pending")

    async def _request_provisioning(self, claim: Object) -> None:
        """Name the provisioner that has to create a volume for a claim."""
        name = storage_class_of(claim)
        storage_class = self.context.get(STORAGE_CLASSES, "", name)
        if storage_class is None:
            message = f'storageclass.storage.k8s.io "{name}" not found'
            await self._recorder.warning(claim, "ProvisioningFailed", message)
            return
        provisioner = storage_class["provisioner"]
        if provisioner not in _MIGRATED and provisioner.startswith(_IN_TREE):
            await self._recorder.warning(claim, "ProvisioningFailed", f"no volume plugin matched name: {provisioner}")
            return
        provisioner = _MIGRATED.get(provisioner, provisioner)
        if annotations_of(claim).get(STORAGE_PROVISIONER) != provisioner:
            annotations = claim["metadata"].setdefault("annotations", {})
            annotations |= {_BETA_STORAGE_PROVISIONER: provisioner, STORAGE_PROVISIONER: provisioner}
            claim = (await self._writer.update(CLAIMS, claim)).object()
        await self._recorder.normal(claim, "ExternalProvisioning", _WAITING_FOR_PROVISIONER.format(provisioner))

    async def _sync_claim_with_volume(self, claim: Object) -> None:
        """Bind a claim to the volume that it names."""
        name = claim["spec"]["volumeName"]
        volume = self.context.get(VOLUMES, "", name)
        if volume is None:
            await self._update_claim_status(claim, "Pending")
        elif is_bound_to(volume, claim):
            await self._bind(volume, claim)
        elif volume["spec"].get("claimRef") is not None:
            await self._recorder.warning(claim, "FailedBinding", f'volume "{name}" already bound to a different claim.')
            await self._update_claim_status(claim, "Pending")
        elif reason := mismatch(claim, volume):
            await self._recorder.warning(claim, "VolumeMismatch", f'Cannot bind to requested volume "{name}": {reason}')
            await self._update_claim_status(claim, "Pending")
        else:
            await self._bind(volume, claim)

    async def _sync_bound_claim(self, claim: Object) -> None:
        """Keep a bound claim and its volume in step, or report that the volume is lost."""
        name = claim["spec"].get("volumeName")
        volume = self.context.get(VOLUMES, "", name) if name else None
        if not name:
            problem = "ClaimLost", "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
        elif volume is None:
            problem = "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
        elif (reference := volume["spec"].get("claimRef")) is None or reference.get("uid") == claim["metadata"]["uid"]:
            await self._bind(volume, claim)
            return
        else:
            problem = "ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly"
        if (claim.get("status") or {}).get("phase") != "Lost":
            await self._recorder.warning(await self._update_claim_status(claim, "Lost"), *problem)

    def _is_delayed(self, claim: Object) -> bool:
        """Whether a claim is bound only when a pod uses it."""
        name = storage_class_of(claim)
        storage_class = self.context.get(STORAGE_CLASSES, "", name) if name else None
        return storage_class is not None and storage_class.get("volumeBindingMode") == DELAYED

    def _unscheduled_pods(self, claim: Object) -> list[str]:
        """The names of the pods without a node that use a claim."""
        namespace, name = claim["metadata"]["namespace"], claim["metadata"]["name"]
        pods = [pod.name for pod in self._pods.in_namespace(namespace) if not pod.node and not pod.finished]
        entries = ((pod, self.context.entry(PODS, namespace, pod)) for pod in pods)
        field = json.dumps(name).encode()
        # The claim of an ephemeral volume has the name of its pod.
        candidates = ((pod, entry) for pod, entry in entries if entry and (field in entry.data or name.startswith(f"{pod}-")))
        users = ((pod, entry.object()) for pod, entry in candidates)
        return [pod for pod, obj in users if any(name == used for used, _ in pod_claims(obj))]

    async def _assign_default_class(self, claim: Object) -> bool:
        """Set the default class, which may be newer than the claim; returns whether there is one."""
        if has_storage_class(claim) or not (name := default_class(self.context.list_objects(STORAGE_CLASSES))):
            return False
        claim["spec"]["storageClassName"] = name
        await self._writer.update(CLAIMS, claim)
        return True

    # Volumes.

    async def _sync_volume(self, volume: Object) -> None:
        reference = volume["spec"].get("claimRef")
        if reference is None or not reference.get("uid"):
            await self._update_phase(volume, "Available")
            return
        if not reference.get("name"):
            return  # such a claim cannot be read: as on Kubernetes, the volume stays as it is
        claim = self.context.get(CLAIMS, reference.get("namespace", ""), reference["name"])
        if claim is None or claim["metadata"]["uid"] != reference["uid"]:
            await self._release(volume)
        elif not claim["spec"].get("volumeName"):
            if has_mode_mismatch(claim, volume):
                await self._report_mode_mismatch(volume, claim)
            else:
                self.queue.add(object_key(CLAIMS, claim))
        elif claim["spec"]["volumeName"] == volume["metadata"]["name"]:
            await self._update_phase(volume, "Bound")
        elif PROVISIONED_BY in annotations_of(volume) and _reclaim_policy(volume) == "Delete":
            await self._release(volume)
        else:
            await self._unbind(volume)

    async def _report_mode_mismatch(self, volume: Object, claim: Object) -> None:
        claim_name, name = claim["metadata"]["name"], volume["metadata"]["name"]
        message = f'Cannot bind PersistentVolume to requested PersistentVolumeClaim "{claim_name}" due to incompatible volumeMode.'
        await self._recorder.warning(volume, "VolumeMismatch", message)
        message = f'Cannot bind PersistentVolume "{name}" to requested PersistentVolumeClaim due to incompatible volumeMode.'
        await self._recorder.warning(claim, "VolumeMismatch", message)

    async def _release(self, volume: Object) -> None:
        """Mark a volume whose claim does not exist as released, and reclaim it unless it is retained."""
        if (volume.get("status") or {}).get("phase") not in {"Released", "Failed"}:
            volume = await self._update_phase(volume, "Released")
        policy = _reclaim_policy(volume)
        if policy == "Recycle":
            await self._fail(volume, "VolumeFailedRecycle", "No recycler plugin found for the volume!")
        elif policy == "Delete" and not _is_external(volume):
            path = str((volume["spec"].get("hostPath") or {}).get("path") or "")
            if "hostPath" not in volume["spec"]:
                name = volume["metadata"]["name"]
                message = f'error getting deleter volume plugin for volume "{name}": no deletable volume plugin matched'
                await self._fail(volume, "VolumeFailedDelete", message)
            elif path.startswith("/tmp/"):
                await self._writer.delete_if_exists(object_key(VOLUMES, volume))
            else:
                message = f"host_path deleter only supports /tmp/.+ but received provided {path}"
                await self._fail(volume, "VolumeFailedDelete", message)

    async def _fail(self, volume: Object, reason: str, message: str) -> None:
        if (volume.get("status") or {}).get("phase") != "Failed":
            await self._recorder.warning(await self._update_phase(volume, "Failed", message), reason, message)

    async def _unbind(self, volume: Object) -> None:
        """Remove the claim of a volume, or only its UID if a user has set the claim."""
        annotations = annotations_of(volume)
        if annotations.pop(BOUND_BY_CONTROLLER, None) is not None:
            del volume["spec"]["claimRef"]
            if not annotations:
                del volume["metadata"]["annotations"]
        else:
            volume["spec"]["claimRef"].pop("uid", None)
        await self._update_phase((await self._writer.update(VOLUMES, volume)).object(), "Available")

    # Binding.

    async def _bind(self, volume: Object | None, claim: Object) -> None:
        """Bind a volume and a claim in both directions; each write is skipped if it changes nothing."""
        if volume is None:
            return
        volume = await self._update_phase(await self._set_claim(volume, claim), "Bound")
        await self._update_claim_status(await self._set_volume(claim, volume), "Bound", volume)

    async def _set_claim(self, volume: Object, claim: Object) -> Object:
        reference, metadata = volume["spec"].get("claimRef") or {}, claim["metadata"]
        was_bound = is_bound_to(volume, claim)
        changed = False
        if (reference.get("namespace"), reference.get("name"), reference.get("uid")) != (
            metadata["namespace"],
            metadata["name"],
            metadata["uid"],
        ):
            volume["spec"]["claimRef"] = object_reference(claim)
            changed = True
        if not was_bound and BOUND_BY_CONTROLLER not in annotations_of(volume):
            volume["metadata"].setdefault("annotations", {})[BOUND_BY_CONTROLLER] = "yes"
            changed = True
        return (await self._writer.update(VOLUMES, volume)).object() if changed else volume

    async def _set_volume(self, claim: Object, volume: Object) -> Object:
        annotations, name = dict(annotations_of(claim)), volume["metadata"]["name"]
        if claim["spec"].get("volumeName") != name:
            claim["spec"]["volumeName"] = name
            annotations.setdefault(BOUND_BY_CONTROLLER, "yes")
        annotations.setdefault(BIND_COMPLETED, "yes")
        if annotations == annotations_of(claim):
            return claim
        claim["metadata"]["annotations"] = annotations
        return (await self._writer.update(CLAIMS, claim)).object()

    async def _update_phase(self, volume: Object, phase: str, message: str = "") -> Object:
        status = {name: value for name, value in (volume.get("status") or {}).items() if name != "message"}
        if status.get("phase") == phase:
            return volume
        status |= {"phase": phase, **({"message": message} if message else {})}
        return (await self._writer.update_status(VOLUMES, volume, status)).object()

    async def _update_claim_status(self, claim: Object, phase: str, volume: Object | None = None) -> Object:
        status: dict[str, Any] = dict(claim.get("status") or {})
        was_bound = status.get("phase") == phase
        status["phase"] = phase
        if volume is None:
            for field in ("accessModes", "capacity", "currentVolumeAttributesClassName"):
                status.pop(field, None)
        else:
            status["accessModes"] = volume["spec"].get("accessModes")
            if not was_bound:
                status["capacity"] = volume["spec"]["capacity"]
                if attributes := volume["spec"].get("volumeAttributesClassName"):
                    status["currentVolumeAttributesClassName"] = attributes
        if status == (claim.get("status") or {}):
            return claim
        return (await self._writer.update_status(CLAIMS, claim, status)).object()


def _reclaim_policy(volume: Object) -> str:
    return str(volume["spec"].get("persistentVolumeReclaimPolicy") or "Retain")


def _is_external(volume: Object) -> bool:
    """Whether another program deletes a volume."""
    annotations = annotations_of(volume)
    provisioner = annotations.get(PROVISIONED_BY, "")
    return bool(MIGRATED_TO in annotations or "csi" in volume["spec"] or (provisioner and not provisioner.startswith(_IN_TREE)))
