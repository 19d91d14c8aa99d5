"""Persistent volumes and their claims, storage classes, drivers and attachments."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.schemas.field_errors import duplicate, forbidden, invalid, not_supported, required, too_long
from sliceworks.schemas.rules.claims import VOLUME_MODES, access_mode_errors, claim_spec_errors
from sliceworks.schemas.rules.resources import basic_amount, positive
from sliceworks.schemas.rules.selectors import node_selector_errors
from sliceworks.schemas.rules.texts import Errors, immutable, label, no_parent, qualified, subdomain
from sliceworks.schemas.rules.volumes import SOURCES, driver_name, host_path, needs, source_errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.schemas.rules.shape import Json

_RECLAIM = ("Delete", "Recycle", "Retain")
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_MOST_PARAMETERS = 512
_PARAMETERS_SIZE = 256 * 1024
_LONGEST_NODE_ID = 256
_FS_GROUP = ("File", "None", "ReadWriteOnceWithFSType")
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


def storage_class_errors(obj: Json) -> Errors:
    out: Errors = []
    provisioner = obj.get("provisioner") or ""
    if not provisioner:
        out.append(required("provisioner"))
    else:
        qualified(out, provisioner.lower(), "provisioner")
    parameter_errors(out, obj.get("parameters") or {}, "parameters")
    for field, allowed in (("reclaimPolicy", ("Delete", "Retain")), ("volumeBindingMode", ("Immediate", "WaitForFirstConsumer"))):
        value = obj.get(field)
        if value not in (None, "") and value not in allowed:
            out.append(not_supported(field, value, allowed))
    seen: list[Any] = []
    for index, term in enumerate(obj.get("allowedTopologies") or ()):
        _topology_term(out, term, f"allowedTopologies[{index}]")
        if term in seen:
            out.append(duplicate(f"allowedTopologies[{index}].matchLabelExpressions", ""))
        seen.append(term)
    return out


def storage_class_update_errors(new: Json, old: Json) -> Errors:
    out: Errors = []
    for field in ("parameters", "provisioner", "reclaimPolicy"):
        if (new.get(field) or None) != (old.get(field) or None):
            out.append(forbidden(field, f"updates to {field} are forbidden."))
    immutable(out, new.get("volumeBindingMode"), old.get("volumeBindingMode"), "volumeBindingMode")
    return out


def csi_driver_errors(obj: Json) -> Errors:
    out: Errors = []
    spec: Json = obj.get("spec") or {}
    if (policy := spec.get("fsGroupPolicy")) is not None and policy not in _FS_GROUP:
        out.append(not_supported("spec.fsGroupPolicy", policy, _FS_GROUP))
    audiences: set[str] = set()
    for index, token in enumerate(spec.get("tokenRequests") or ()):
        path, audience, seconds = f"spec.tokenRequests[{index}]", token.get("audience") or "", token.get("expirationSeconds")
        if audience in audiences:
            out.append(duplicate(f"{path}.audience", audience))
            continue
        audiences.add(audience)
        if seconds is not None and seconds < 600:
            out.append(invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"))
        if seconds is not None and seconds > 1 << 32:
            out.append(invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds"))
    for mode in spec.get("volumeLifecycleModes") or ():
        if mode not in ("Persistent", "Ephemeral"):
            out.append(not_supported("spec.volumeLifecycleModes", mode, ("Persistent", "Ephemeral")))
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < 10:
        out.append(invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, "must be greater than or equal to 10 seconds"))
    return out


def csi_driver_update_errors(new: Json, old: Json) -> Errors:
    out: Errors = []
    now, before = new.get("spec") or {}, old.get("spec") or {}
    immutable(out, now.get("attachRequired"), before.get("attachRequired"), "spec.attachedRequired")
    immutable(out, now.get("volumeLifecycleModes"), before.get("volumeLifecycleModes"), "spec.volumeLifecycleModes")
    return out


def csi_node_errors(obj: Json) -> Errors:
    out: Errors = []
    seen: set[str] = set()
    for index, driver in enumerate((obj.get("spec") or {}).get("drivers") or ()):
        path, name, node = f"spec.drivers[{index}]", driver.get("name") or "", driver.get("nodeID") or ""
        driver_name(out, name, f"{path}.name")
        if not node:
            out.append(required(f"{path}.nodeID"))
        elif len(node) > _LONGEST_NODE_ID:
            out.append(invalid(f"{path}.nodeID", node, f"must be {_LONGEST_NODE_ID} characters or less"))
        count = (driver.get("allocatable") or {}).get("count")
        if count is not None and count < 0:
            out.append(invalid(f"{path}.allocatable.count", count, "must be greater than or equal to 0"))
        if name in seen:
            out.append(duplicate(f"{path}.name", name))
        seen.add(name)
        for key in driver.get("topologyKeys") or ():
            qualified(out, key, path)
    return out


def attachment_errors(obj: Json) -> Errors:
    out: Errors = []
    spec: Json = obj.get("spec") or {}
    source = spec.get("source") or {}
    inline, name = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
    if not spec.get("attacher"):
        out.append(required("spec.attacher"))
    if (inline is None) == (name is None):
        words = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
        out.append(required("spec.source", words) if inline is None else forbidden("spec.source", words))
    elif name == "":
        out.append(required("spec.source.persistentVolumeName", "must specify non empty persistentVolumeName"))
    subdomain(out, spec.get("nodeName") or "", "spec.nodeName")
    driver_name(out, spec.get("attacher") or "", "spec.attacher")
    if name:
        subdomain(out, name, "spec.source.persistentVolumeName")
    return out


def attachment_update_errors(new: Json, old: Json) -> Errors:
    out: Errors = []
    immutable(out, new.get("spec"), old.get("spec"), "spec")
    return out


def attributes_class_errors(obj: Json) -> Errors:
    out: Errors = []
    driver_name(out, obj.get("driverName") or "", "driverName")
    parameter_errors(out, obj.get("parameters") or {}, "parameters", may_be_empty=False)
    return out


def attributes_class_update_errors(new: Json, old: Json) -> Errors:
    out: Errors = []
    if new.get("driverName") != old.get("driverName"):
        out.append(forbidden("driverName", "updates to driverName are forbidden."))
    if (new.get("parameters") or {}) != (old.get("parameters") or {}):
        out.append(forbidden("parameters", "updates to parameters are forbidden."))
    return out


def parameter_errors(out: Errors, parameters: dict[str, str], path: str, *, may_be_empty: bool = True) -> None:
    if len(parameters) > _MOST_PARAMETERS:
        out.append(too_long(path, _MOST_PARAMETERS))
        return
    if "" in parameters:
        out.append(invalid(path, "", "field can not be empty."))
    if sum(len(key.encode()) + len(value.encode()) for key, value in parameters.items()) > _PARAMETERS_SIZE:
        out.append(too_long(path, _PARAMETERS_SIZE))
    if not parameters and not may_be_empty:
        out.append(required(path, "must contain at least one key/value pair"))


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


def _topology_term(out: Errors, term: Json, path: str) -> None:
    keys: set[str] = set()
    for index, need in enumerate(term.get("matchLabelExpressions") or ()):
        place, values, key = f"{path}.matchLabelExpressions[{index}]", need.get("values") or [], need.get("key") or ""
        if not values:
            out.append(required(f"{place}.values"))
        for number, value in enumerate(values):
            if value in values[:number]:
                out.append(duplicate(f"{place}.values[{number}]", value))
        qualified(out, key, f"{place}.key")
        if key in keys:
            out.append(duplicate(f"{place}.key", key))
        keys.add(key)


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
