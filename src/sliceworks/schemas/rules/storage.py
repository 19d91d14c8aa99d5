"""Persistent volumes and the claims on them."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.schemas.field_errors import forbidden, invalid, not_supported, required
from sliceworks.schemas.rules.claims import VOLUME_MODES, access_mode_errors, claim_spec_errors
from sliceworks.schemas.rules.resources import basic_amount, positive
from sliceworks.schemas.rules.selectors import node_selector_errors
from sliceworks.schemas.rules.texts import Errors, immutable, label, no_parent, subdomain
from sliceworks.schemas.rules.volumes import SOURCES, driver_name, host_path, needs, source_errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.schemas.rules.shape import Json

_RECLAIM = ("Delete", "Recycle", "Retain")
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_SPEC_FIXED = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n"


def claim_errors(obj: Json) -> Errors:
    out: Errors = []
    claim_spec_errors(out, obj.get("spec") or {}, "spec")
    return out


def claim_update_errors(new: Json, old: Json) -> Errors:
    out: Errors = []
    now, before = dict(new.get("spec") or {}), old.get("spec") or {}
    annotations = [(obj.get("metadata") or {}).get("annotations") or {} for obj in (new, old)]
    if annotations[0].get(_CLASS_ANNOTATION) != annotations[1].get(_CLASS_ANNOTATION):
        out.append(
            invalid(f"metadata.annotations.{_CLASS_ANNOTATION}", annotations[0].get(_CLASS_ANNOTATION, ""), "field is immutable")
        )
    size, old_size = (((spec.get("resources") or {}).get("requests") or {}).get("storage", "0") for spec in (now, before))
    mode = now.get("volumeMode")
    if not before.get("volumeName"):
        now["volumeName"] = before.get("volumeName")
    if before.get("storageClassName") is None:
        now["storageClassName"] = None
    if (new.get("status") or {}).get("phase") == "Bound":
        now["resources"] = _with_storage(now.get("resources") or {}, old_size)
        now["volumeAttributesClassName"] = before.get("volumeAttributesClassName")
    if {name: found for name, found in now.items() if found} != {name: found for name, found in before.items() if found}:
        out.append(forbidden("spec", _SPEC_FIXED))
    capacity = ((old.get("status") or {}).get("capacity") or {}).get("storage", "0")
    if quantity.compare(size, old_size) < 0 and quantity.compare(size, capacity) <= 0:
        out.append(forbidden("spec.resources.requests.storage", "field can not be less than status.capacity"))
    immutable(out, mode, before.get("volumeMode"), "volumeMode")
    return out


def volume_errors(obj: Json) -> Errors:
    out: Errors = []
    _volume_spec(out, obj.get("spec") or {}, "spec")
    return out


def volume_update_errors(new: Json, old: Json) -> Errors:
    out: Errors = []
    now, before = new.get("spec") or {}, old.get("spec") or {}
    sources = [{name: spec[name] for name in _VOLUME_SOURCES if spec.get(name) is not None} for spec in (now, before)]
    if "csi" in sources[0] and "csi" in sources[1] and "controllerExpandSecretRef" not in sources[1]["csi"]:
        sources[0]["csi"] = {name: found for name, found in sources[0]["csi"].items() if name != "controllerExpandSecretRef"}
    if sources[0] != sources[1]:
        out.append(forbidden("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation\n"))
    immutable(out, now.get("volumeMode"), before.get("volumeMode"), "volumeMode")
    if before.get("nodeAffinity") is not None and now.get("nodeAffinity") != before["nodeAffinity"]:
        out.append(
            invalid("nodeAffinity", now.get("nodeAffinity"), "field is immutable, except for updating from beta label to GA")
        )
    if before.get("volumeAttributesClassName") is not None and now.get("volumeAttributesClassName") is None:
        out.append(forbidden("spec.volumeAttributesClassName", "update from non-nil value to nil is forbidden"))
    return out


def _with_storage(resources: Json, size: str) -> Json:
    return resources | {"requests": (resources.get("requests") or {}) | {"storage": size}}


def _volume_spec(out: Errors, spec: Json, path: str) -> None:
    modes, capacity = spec.get("accessModes") or [], spec.get("capacity") or {}
    if not modes:
        out.append(required(f"{path}.accessModes"))
    access_mode_errors(out, modes, f"{path}.accessModes")
    if not capacity:
        out.append(required(f"{path}.capacity"))
    if set(capacity) != {"storage"}:
        out.append(not_supported(f"{path}.capacity", capacity or None, ("storage",)))
    for name, found in capacity.items():
        basic_amount(out, found, f"{path}.capacity[{name}]")
        positive(out, found, f"{path}.capacity[{name}]")
    policy, affinity = spec.get("persistentVolumeReclaimPolicy") or "", spec.get("nodeAffinity")
    if policy and policy not in _RECLAIM:
        out.append(not_supported(f"{path}.persistentVolumeReclaimPolicy", policy, _RECLAIM))
    if affinity is not None:
        if affinity.get("required") is None:
            out.append(required(f"{path}.nodeAffinity.required", "must specify required node constraints"))
        else:
            node_selector_errors(out, affinity["required"], f"{path}.nodeAffinity.required")
    source_errors(out, spec, path, _VOLUME_SOURCES)
    first = next((name for name in _VOLUME_SOURCES if spec.get(name) is not None), "")
    if first == "local" and affinity is None:
        out.append(required(f"{path}.nodeAffinity", "Local volume requires node affinity"))
    folder = (spec.get("hostPath") or {}).get("path") or ""
    if folder and posixpath.normpath(folder) == "/" and policy == "Recycle":
        out.append(forbidden(f"{path}.persistentVolumeReclaimPolicy", "may not be 'recycle' for a hostPath mount of '/'"))
    if spec.get("storageClassName"):
        subdomain(out, spec["storageClassName"], f"{path}.storageClassName")
    mode = spec.get("volumeMode")
    if mode is not None and mode not in VOLUME_MODES:
        out.append(not_supported(f"{path}.volumeMode", mode, VOLUME_MODES))
    if (name := spec.get("volumeAttributesClassName")) is not None:
        if not name:
            out.append(required(f"{path}.volumeAttributesClassName", "an empty string is disallowed"))
        else:
            subdomain(out, name, f"{path}.volumeAttributesClassName")
        if spec.get("csi") is None:
            out.append(required(f"{path}.csi", "has to be specified when using volumeAttributesClassName"))


def _local(out: Errors, source: Json, path: str) -> None:
    if not source.get("path"):
        out.append(required(f"{path}.path"))
    else:
        no_parent(out, source["path"], f"{path}.path")


def _csi(out: Errors, source: Json, path: str) -> None:
    driver_name(out, source.get("driver") or "", f"{path}.driver")
    if not source.get("volumeHandle"):
        out.append(required(f"{path}.volumeHandle"))
    for field in ("controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef"):
        if (secret := source.get(field)) is not None:
            for part, rule in (("name", subdomain), ("namespace", label)):
                if not secret.get(part):
                    out.append(required(f"{path}.{field}.{part}"))
                else:
                    rule(out, secret[part], f"{path}.{field}.{part}")


_VOLUME_SOURCES: dict[str, Callable[[Errors, Any, str], None]] = {
    "hostPath": host_path,
    **{
        name: SOURCES[name]
        for name in [
            "gcePersistentDisk",
            "awsElasticBlockStore",
            "glusterfs",
            "flocker",
            "nfs",
            "rbd",
            "quobyte",
            "cephfs",
            "iscsi",
            "cinder",
            "fc",
            "flexVolume",
            "azureFile",
            "vsphereVolume",
            "photonPersistentDisk",
            "portworxVolume",
            "azureDisk",
        ]
    },
    "scaleIO": needs("gateway", "system", "volumeName"),
    "local": _local,
    "storageos": SOURCES["storageos"],
    "csi": _csi,
}
