"""Rows of volumes, claims and storage classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.kube.persistent_volumes import is_default_class, storage_class_of
from sliceworks.twin.apiserver.printers.cells import NONE, UNSET, Obj, name_of, printer, spec_of, status_of

if TYPE_CHECKING:
    from datetime import datetime

_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _modes(modes: list[str] | None) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in (modes or ()))


def _phase(obj: Obj) -> str:
    return "Terminating" if obj["metadata"].get("deletionTimestamp") else str(status_of(obj).get("phase", ""))


def _size(amounts: dict[str, Any] | None) -> str:
    return quantity.canonical((amounts or {}).get("storage", 0))


def volume_cells(obj: Obj, now: datetime) -> list[Any]:
    spec = spec_of(obj)
    claim = spec.get("claimRef")
    return [
        _size(spec.get("capacity")),
        _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _phase(obj),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        storage_class_of(obj),
        spec.get("volumeAttributesClassName", UNSET),
        status_of(obj).get("reason", ""),
        spec.get("volumeMode", UNSET),
    ]


def claim_cells(obj: Obj, now: datetime) -> list[Any]:
    spec, status = spec_of(obj), status_of(obj)
    bound = bool(spec.get("volumeName"))
    return [
        _phase(obj),
        spec.get("volumeName", ""),
        _size(status.get("capacity")) if bound else "",
        _modes(status.get("accessModes")) if bound else "",
        storage_class_of(obj),
        spec.get("volumeAttributesClassName", UNSET),
        spec.get("volumeMode", UNSET),
    ]


def _storage_class_name(obj: Obj, now: datetime) -> str:
    return name_of(obj, now) + (" (default)" if is_default_class(obj) else "")


def driver_cells(obj: Obj, now: datetime) -> list[Any]:
    spec = spec_of(obj)
    tokens = spec.get("tokenRequests")
    return [
        spec.get("attachRequired", True),
        spec.get("podInfoOnMount", False),
        spec.get("storageCapacity", False),
        UNSET if tokens is None else ",".join(token.get("audience", "") for token in tokens),
        spec.get("requiresRepublish", False),
        ",".join(spec.get("volumeLifecycleModes") or ()) or NONE,
    ]


PERSISTENT_VOLUME = printer(
    "Name:name | Capacity | Access Modes | Reclaim Policy | Status | Claim | StorageClass | VolumeAttributesClass"
    " | Reason | Age | VolumeMode:wide",
    volume_cells,
)
PERSISTENT_VOLUME_CLAIM = printer(
    "Name:name | Status | Volume | Capacity | Access Modes | StorageClass | VolumeAttributesClass | Age | VolumeMode:wide",
    claim_cells,
)
STORAGE_CLASS = printer(
    "Name:name | Provisioner=provisioner | ReclaimPolicy=reclaimPolicy | VolumeBindingMode=volumeBindingMode"
    " | AllowVolumeExpansion | Age",
    lambda obj, now: [bool(obj.get("allowVolumeExpansion"))],
    name=_storage_class_name,
)
VOLUME_ATTRIBUTES_CLASS = printer("Name:name | DriverName=driverName | Age")
VOLUME_ATTACHMENT = printer(
    "Name:name | Attacher:name=spec.attacher | PV=spec.source.persistentVolumeName | Node=spec.nodeName"
    " | Attached:boolean=status.attached | Age"
)
CSI_DRIVER = printer(
    "Name:name | AttachRequired:boolean | PodInfoOnMount:boolean | StorageCapacity:boolean | TokenRequests"
    " | RequiresRepublish:boolean | Modes | Age",
    driver_cells,
)
CSI_NODE = printer("Name:name | Drivers:integer=len(spec.drivers) | Age")
