"""Rows of volumes, claims and what provides them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.twin.api.cells.shared import NONE, UNSET, Obj, age, kind, name, spec, status

if TYPE_CHECKING:
    from datetime import datetime

_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_CLASS = "volume.beta.kubernetes.io/storage-class"
_DEFAULT = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


def _modes(modes: list[str] | None) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in (modes or ()))


def _class_name(obj: Obj) -> str:
    annotated = (obj["metadata"].get("annotations") or {}).get(_CLASS)
    return str(annotated if annotated is not None else spec(obj).get("storageClassName") or "")


def _phase(obj: Obj) -> str:
    return "Terminating" if obj["metadata"].get("deletionTimestamp") else str(status(obj).get("phase", ""))


def _size(amounts: dict[str, Any] | None) -> str:
    return quantity.canonical((amounts or {}).get("storage", 0))


def volume_row(obj: Obj, now: datetime) -> list[Any]:
    wanted = spec(obj)
    claim = wanted.get("claimRef")
    return [
        name(obj),
        _size(wanted.get("capacity")),
        _modes(wanted.get("accessModes")),
        wanted.get("persistentVolumeReclaimPolicy", ""),
        _phase(obj),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        _class_name(obj),
        wanted.get("volumeAttributesClassName", UNSET),
        status(obj).get("reason", ""),
        age(obj, now),
        wanted.get("volumeMode", UNSET),
    ]


def claim_row(obj: Obj, now: datetime) -> list[Any]:
    wanted, state = spec(obj), status(obj)
    bound = bool(wanted.get("volumeName"))
    return [
        name(obj),
        _phase(obj),
        wanted.get("volumeName", ""),
        _size(state.get("capacity")) if bound else "",
        _modes(state.get("accessModes")) if bound else "",
        _class_name(obj),
        wanted.get("volumeAttributesClassName", UNSET),
        age(obj, now),
        wanted.get("volumeMode", UNSET),
    ]


def storage_class_row(obj: Obj, now: datetime) -> list[Any]:
    annotations = obj["metadata"].get("annotations") or {}
    default = " (default)" if any(annotations.get(key) == "true" for key in _DEFAULT) else ""
    return [
        name(obj) + default,
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy", "Delete"),
        obj.get("volumeBindingMode", "Immediate"),
        bool(obj.get("allowVolumeExpansion")),
        age(obj, now),
    ]


def attributes_class_row(obj: Obj, now: datetime) -> list[Any]:
    return [name(obj), obj.get("driverName", ""), age(obj, now)]


def attachment_row(obj: Obj, now: datetime) -> list[Any]:
    wanted = spec(obj)
    volume = (wanted.get("source") or {}).get("persistentVolumeName") or ""
    attached = bool(status(obj).get("attached"))
    return [name(obj), wanted.get("attacher", ""), volume, wanted.get("nodeName", ""), attached, age(obj, now)]


def driver_row(obj: Obj, now: datetime) -> list[Any]:
    wanted = spec(obj)
    tokens = wanted.get("tokenRequests")
    return [
        name(obj),
        wanted.get("attachRequired", True),
        wanted.get("podInfoOnMount", False),
        wanted.get("storageCapacity", False),
        UNSET if tokens is None else ",".join(one.get("audience", "") for one in tokens),
        wanted.get("requiresRepublish", False),
        ",".join(wanted.get("volumeLifecycleModes") or ()) or NONE,
        age(obj, now),
    ]


def node_row(obj: Obj, now: datetime) -> list[Any]:
    return [name(obj), len(spec(obj).get("drivers") or ()), age(obj, now)]


KINDS = {
    "/persistentvolumes": kind(
        "Name:name | Capacity | Access Modes | Reclaim Policy | Status | Claim | StorageClass | VolumeAttributesClass"
        " | Reason | Age | VolumeMode:wide",
        volume_row,
    ),
    "/persistentvolumeclaims": kind(
        "Name:name | Status | Volume | Capacity | Access Modes | StorageClass | VolumeAttributesClass | Age | VolumeMode:wide",
        claim_row,
    ),
    "storage.k8s.io/storageclasses": kind(
        "Name:name | Provisioner | ReclaimPolicy | VolumeBindingMode | AllowVolumeExpansion | Age", storage_class_row
    ),
    "storage.k8s.io/volumeattributesclasses": kind("Name:name | DriverName | Age", attributes_class_row),
    "storage.k8s.io/volumeattachments": kind("Name:name | Attacher:name | PV | Node | Attached:boolean | Age", attachment_row),
    "storage.k8s.io/csidrivers": kind(
        "Name:name | AttachRequired:boolean | PodInfoOnMount:boolean | StorageCapacity:boolean | TokenRequests"
        " | RequiresRepublish:boolean | Modes | Age",
        driver_row,
    ),
    "storage.k8s.io/csinodes": kind("Name:name | Drivers:integer | Age", node_row),
}
