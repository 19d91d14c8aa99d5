"""Rows of volumes, claims and storage classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.twin.apiserver.printers.cells import NONE, UNSET, Obj, age, name_of, printer, spec_of, status_of

if TYPE_CHECKING:
    from datetime import datetime

_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_CLASS = "volume.beta.kubernetes.io/storage-class"
_DEFAULT = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


def _modes(modes: list[str] | None) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in (modes or ()))


def _class_name(obj: Obj) -> str:
    annotated = (obj["metadata"].get("annotations") or {}).get(_CLASS)
    return str(annotated if annotated is not None else spec_of(obj).get("storageClassName") or "")


def _phase(obj: Obj) -> str:
    return "Terminating" if obj["metadata"].get("deletionTimestamp") else str(status_of(obj).get("phase", ""))


def _size(amounts: dict[str, Any] | None) -> str:
    return quantity.canonical((amounts or {}).get("storage", 0))


def volume_row(obj: Obj, now: datetime) -> list[Any]:
    spec = spec_of(obj)
    claim = spec.get("claimRef")
    return [
        name_of(obj),
        _size(spec.get("capacity")),
        _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _phase(obj),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        _class_name(obj),
        spec.get("volumeAttributesClassName", UNSET),
        status_of(obj).get("reason", ""),
        age(obj, now),
        spec.get("volumeMode", UNSET),
    ]


def claim_row(obj: Obj, now: datetime) -> list[Any]:
    spec, status = spec_of(obj), status_of(obj)
    bound = bool(spec.get("volumeName"))
    return [
        name_of(obj),
        _phase(obj),
        spec.get("volumeName", ""),
        _size(status.get("capacity")) if bound else "",
        _modes(status.get("accessModes")) if bound else "",
        _class_name(obj),
        spec.get("volumeAttributesClassName", UNSET),
        age(obj, now),
        spec.get("volumeMode", UNSET),
    ]


def storage_class_row(obj: Obj, now: datetime) -> list[Any]:
    annotations = obj["metadata"].get("annotations") or {}
    default = " (default)" if any(annotations.get(key) == "true" for key in _DEFAULT) else ""
    return [
        name_of(obj) + default,
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy", "Delete"),
        obj.get("volumeBindingMode", "Immediate"),
        bool(obj.get("allowVolumeExpansion")),
        age(obj, now),
    ]


def attributes_class_row(obj: Obj, now: datetime) -> list[Any]:
    return [name_of(obj), obj.get("driverName", ""), age(obj, now)]


def attachment_row(obj: Obj, now: datetime) -> list[Any]:
    spec = spec_of(obj)
    volume = (spec.get("source") or {}).get("persistentVolumeName") or ""
    attached = bool(status_of(obj).get("attached"))
    return [name_of(obj), spec.get("attacher", ""), volume, spec.get("nodeName", ""), attached, age(obj, now)]


def driver_row(obj: Obj, now: datetime) -> list[Any]:
    spec = spec_of(obj)
    tokens = spec.get("tokenRequests")
    return [
        name_of(obj),
        spec.get("attachRequired", True),
        spec.get("podInfoOnMount", False),
        spec.get("storageCapacity", False),
        UNSET if tokens is None else ",".join(token.get("audience", "") for token in tokens),
        spec.get("requiresRepublish", False),
        ",".join(spec.get("volumeLifecycleModes") or ()) or NONE,
        age(obj, now),
    ]


def node_row(obj: Obj, now: datetime) -> list[Any]:
    return [name_of(obj), len(spec_of(obj).get("drivers") or ()), age(obj, now)]


PERSISTENT_VOLUME = printer(
    "Name:name | Capacity | Access Modes | Reclaim Policy | Status | Claim | StorageClass | VolumeAttributesClass"
    " | Reason | Age | VolumeMode:wide",
    volume_row,
)
PERSISTENT_VOLUME_CLAIM = printer(
    "Name:name | Status | Volume | Capacity | Access Modes | StorageClass | VolumeAttributesClass | Age | VolumeMode:wide",
    claim_row,
)
STORAGE_CLASS = printer(
    "Name:name | Provisioner | ReclaimPolicy | VolumeBindingMode | AllowVolumeExpansion | Age", storage_class_row
)
VOLUME_ATTRIBUTES_CLASS = printer("Name:name | DriverName | Age", attributes_class_row)
VOLUME_ATTACHMENT = printer("Name:name | Attacher:name | PV | Node | Attached:boolean | Age", attachment_row)
CSI_DRIVER = printer(
    "Name:name | AttachRequired:boolean | PodInfoOnMount:boolean | StorageCapacity:boolean | TokenRequests"
    " | RequiresRepublish:boolean | Modes | Age",
    driver_row,
)
CSI_NODE = printer("Name:name | Drivers:integer | Age", node_row)
