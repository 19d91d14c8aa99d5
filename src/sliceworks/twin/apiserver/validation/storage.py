"""PersistentVolumes, claims, and the storage.k8s.io group."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.schemas.field_errors import duplicate, forbidden, invalid, not_supported, required, too_long
from sliceworks.twin.apiserver.validation.field_checks import (
    Errors,
    check_dns_label,
    check_dns_subdomain,
    check_immutable,
    check_no_backsteps,
    check_qualified_name,
)
from sliceworks.twin.apiserver.validation.resource_requirements import check_basic_quantity, check_positive_quantity
from sliceworks.twin.apiserver.validation.selectors import node_selector_errors
from sliceworks.twin.apiserver.validation.volume import (
    SOURCES,
    VOLUME_MODES,
    access_mode_errors,
    claim_spec_errors,
    driver_name,
    host_path,
    needs,
    source_errors,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.twin.apiserver.validation.defaults import Json

_RECLAIM = ("Delete", "Recycle", "Retain")
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_SPEC_FIXED = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n"


def claim_errors(obj: Json) -> Errors:
    errors: Errors = []
    claim_spec_errors(errors, obj.get("spec") or {}, "spec")
    return errors


def claim_update_errors(new: Json, old: Json) -> Errors:
    errors: Errors = []
    now, before = dict(new.get("spec") or {}), old.get("spec") or {}
    annotations = [(obj.get("metadata") or {}).get("annotations") or {} for obj in (new, old)]
    if annotations[0].get(_CLASS_ANNOTATION) != annotations[1].get(_CLASS_ANNOTATION):
        errors.append(
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
    if {name: item for name, item in now.items() if item} != {name: item for name, item in before.items() if item}:
        errors.append(forbidden("spec", _SPEC_FIXED))
    capacity = ((old.get("status") or {}).get("capacity") or {}).get("storage", "0")
    if quantity.compare(size, old_size) < 0 and quantity.compare(size, capacity) <= 0:
        errors.append(forbidden("spec.resources.requests.storage", "field can not be less than status.capacity"))
    check_immutable(errors, mode, before.get("volumeMode"), "volumeMode")
    return errors


def volume_errors(obj: Json) -> Errors:
    errors: Errors = []
    _volume_spec(errors, obj.get("spec") or {}, "spec")
    return errors


def volume_update_errors(new: Json, old: Json) -> Errors:
    errors: Errors = []
    now, before = new.get("spec") or {}, old.get("spec") or {}
    sources = [{name: spec[name] for name in _VOLUME_SOURCES if spec.get(name) is not None} for spec in (now, before)]
    if "csi" in sources[0] and "csi" in sources[1] and "controllerExpandSecretRef" not in sources[1]["csi"]:
        sources[0]["csi"] = {name: item for name, item in sources[0]["csi"].items() if name != "controllerExpandSecretRef"}
    if sources[0] != sources[1]:
        errors.append(forbidden("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation\n"))
    check_immutable(errors, now.get("volumeMode"), before.get("volumeMode"), "volumeMode")
    if before.get("nodeAffinity") is not None and now.get("nodeAffinity") != before["nodeAffinity"]:
        errors.append(
            invalid("nodeAffinity", now.get("nodeAffinity"), "field is immutable, except for updating from beta label to GA")
        )
    if before.get("volumeAttributesClassName") is not None and now.get("volumeAttributesClassName") is None:
        errors.append(forbidden("spec.volumeAttributesClassName", "update from non-nil value to nil is forbidden"))
    return errors


def _with_storage(resources: Json, size: str) -> Json:
    return resources | {"requests": (resources.get("requests") or {}) | {"storage": size}}


def _volume_spec(errors: Errors, spec: Json, path: str) -> None:
    modes, capacity = spec.get("accessModes") or [], spec.get("capacity") or {}
    if not modes:
        errors.append(required(f"{path}.accessModes"))
    access_mode_errors(errors, modes, f"{path}.accessModes")
    if not capacity:
        errors.append(required(f"{path}.capacity"))
    if set(capacity) != {"storage"}:
        errors.append(not_supported(f"{path}.capacity", capacity or None, ("storage",)))
    for name, amount in capacity.items():
        check_basic_quantity(errors, amount, f"{path}.capacity[{name}]")
        check_positive_quantity(errors, amount, f"{path}.capacity[{name}]")
    policy, affinity = spec.get("persistentVolumeReclaimPolicy") or "", spec.get("nodeAffinity")
    if policy and policy not in _RECLAIM:
        errors.append(not_supported(f"{path}.persistentVolumeReclaimPolicy", policy, _RECLAIM))
    if affinity is not None:
        if affinity.get("required") is None:
            errors.append(required(f"{path}.nodeAffinity.required", "must specify required node constraints"))
        else:
            node_selector_errors(errors, affinity["required"], f"{path}.nodeAffinity.required")
    source_errors(errors, spec, path, _VOLUME_SOURCES)
    first = next((name for name in _VOLUME_SOURCES if spec.get(name) is not None), "")
    if first == "local" and affinity is None:
        errors.append(required(f"{path}.nodeAffinity", "Local volume requires node affinity"))
    folder = (spec.get("hostPath") or {}).get("path") or ""
    if folder and posixpath.normpath(folder) == "/" and policy == "Recycle":
        errors.append(forbidden(f"{path}.persistentVolumeReclaimPolicy", "may not be 'recycle' for a hostPath mount of '/'"))
    if spec.get("storageClassName"):
        check_dns_subdomain(errors, spec["storageClassName"], f"{path}.storageClassName")
    mode = spec.get("volumeMode")
    if mode is not None and mode not in VOLUME_MODES:
        errors.append(not_supported(f"{path}.volumeMode", mode, VOLUME_MODES))
    if (name := spec.get("volumeAttributesClassName")) is not None:
        if not name:
            errors.append(required(f"{path}.volumeAttributesClassName", "an empty string is disallowed"))
        else:
            check_dns_subdomain(errors, name, f"{path}.volumeAttributesClassName")
        if spec.get("csi") is None:
            errors.append(required(f"{path}.csi", "has to be specified when using volumeAttributesClassName"))


def _local(errors: Errors, source: Json, path: str) -> None:
    if not source.get("path"):
        errors.append(required(f"{path}.path"))
    else:
        check_no_backsteps(errors, source["path"], f"{path}.path")


def _csi(errors: Errors, source: Json, path: str) -> None:
    driver_name(errors, source.get("driver") or "", f"{path}.driver")
    if not source.get("volumeHandle"):
        errors.append(required(f"{path}.volumeHandle"))
    for field in ("controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef"):
        if (secret := source.get(field)) is not None:
            for part, rule in (("name", check_dns_subdomain), ("namespace", check_dns_label)):
                if not secret.get(part):
                    errors.append(required(f"{path}.{field}.{part}"))
                else:
                    rule(errors, secret[part], f"{path}.{field}.{part}")


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

_MOST_PARAMETERS = 512
_PARAMETERS_SIZE = 256 * 1024
_LONGEST_NODE_ID = 256
_FS_GROUP = ("File", "None", "ReadWriteOnceWithFSType")


def storage_class_errors(obj: Json) -> Errors:
    errors: Errors = []
    provisioner = obj.get("provisioner") or ""
    if not provisioner:
        errors.append(required("provisioner"))
    else:
        check_qualified_name(errors, provisioner.lower(), "provisioner")
    parameter_errors(errors, obj.get("parameters") or {}, "parameters")
    for field, allowed in (("reclaimPolicy", ("Delete", "Retain")), ("volumeBindingMode", ("Immediate", "WaitForFirstConsumer"))):
        value = obj.get(field)
        if value not in (None, "") and value not in allowed:
            errors.append(not_supported(field, value, allowed))
    seen: list[Any] = []
    for index, term in enumerate(obj.get("allowedTopologies") or ()):
        _topology_term(errors, term, f"allowedTopologies[{index}]")
        if term in seen:
            errors.append(duplicate(f"allowedTopologies[{index}].matchLabelExpressions", ""))
        seen.append(term)
    return errors


def storage_class_update_errors(new: Json, old: Json) -> Errors:
    errors: Errors = []
    for field in ("parameters", "provisioner", "reclaimPolicy"):
        if (new.get(field) or None) != (old.get(field) or None):
            errors.append(forbidden(field, f"updates to {field} are forbidden."))
    check_immutable(errors, new.get("volumeBindingMode"), old.get("volumeBindingMode"), "volumeBindingMode")
    return errors


def csi_driver_errors(obj: Json) -> Errors:
    errors: Errors = []
    spec: Json = obj.get("spec") or {}
    if (policy := spec.get("fsGroupPolicy")) is not None and policy not in _FS_GROUP:
        errors.append(not_supported("spec.fsGroupPolicy", policy, _FS_GROUP))
    audiences: set[str] = set()
    for index, token in enumerate(spec.get("tokenRequests") or ()):
        path, audience, seconds = f"spec.tokenRequests[{index}]", token.get("audience") or "", token.get("expirationSeconds")
        if audience in audiences:
            errors.append(duplicate(f"{path}.audience", audience))
            continue
        audiences.add(audience)
        if seconds is not None and seconds < 600:
            errors.append(invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"))
        if seconds is not None and seconds > 1 << 32:
            errors.append(invalid(f"{path}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds"))
    for mode in spec.get("volumeLifecycleModes") or ():
        if mode not in ("Persistent", "Ephemeral"):
            errors.append(not_supported("spec.volumeLifecycleModes", mode, ("Persistent", "Ephemeral")))
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < 10:
        errors.append(invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, "must be greater than or equal to 10 seconds"))
    return errors


def csi_driver_update_errors(new: Json, old: Json) -> Errors:
    errors: Errors = []
    now, before = new.get("spec") or {}, old.get("spec") or {}
    check_immutable(errors, now.get("attachRequired"), before.get("attachRequired"), "spec.attachedRequired")
    check_immutable(errors, now.get("volumeLifecycleModes"), before.get("volumeLifecycleModes"), "spec.volumeLifecycleModes")
    return errors


def csi_node_errors(obj: Json) -> Errors:
    errors: Errors = []
    seen: set[str] = set()
    for index, driver in enumerate((obj.get("spec") or {}).get("drivers") or ()):
        path, name, node = f"spec.drivers[{index}]", driver.get("name") or "", driver.get("nodeID") or ""
        driver_name(errors, name, f"{path}.name")
        if not node:
            errors.append(required(f"{path}.nodeID"))
        elif len(node) > _LONGEST_NODE_ID:
            errors.append(invalid(f"{path}.nodeID", node, f"must be {_LONGEST_NODE_ID} characters or less"))
        count = (driver.get("allocatable") or {}).get("count")
        if count is not None and count < 0:
            errors.append(invalid(f"{path}.allocatable.count", count, "must be greater than or equal to 0"))
        if name in seen:
            errors.append(duplicate(f"{path}.name", name))
        seen.add(name)
        for key in driver.get("topologyKeys") or ():
            check_qualified_name(errors, key, path)
    return errors


def attachment_errors(obj: Json) -> Errors:
    errors: Errors = []
    spec: Json = obj.get("spec") or {}
    source = spec.get("source") or {}
    inline, name = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
    if not spec.get("attacher"):
        errors.append(required("spec.attacher"))
    if (inline is None) == (name is None):
        words = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
        errors.append(required("spec.source", words) if inline is None else forbidden("spec.source", words))
    elif name == "":
        errors.append(required("spec.source.persistentVolumeName", "must specify non empty persistentVolumeName"))
    check_dns_subdomain(errors, spec.get("nodeName") or "", "spec.nodeName")
    driver_name(errors, spec.get("attacher") or "", "spec.attacher")
    if name:
        check_dns_subdomain(errors, name, "spec.source.persistentVolumeName")
    return errors


def attachment_update_errors(new: Json, old: Json) -> Errors:
    errors: Errors = []
    check_immutable(errors, new.get("spec"), old.get("spec"), "spec")
    return errors


def attributes_class_errors(obj: Json) -> Errors:
    errors: Errors = []
    driver_name(errors, obj.get("driverName") or "", "driverName")
    parameter_errors(errors, obj.get("parameters") or {}, "parameters", may_be_empty=False)
    return errors


def attributes_class_update_errors(new: Json, old: Json) -> Errors:
    errors: Errors = []
    if new.get("driverName") != old.get("driverName"):
        errors.append(forbidden("driverName", "updates to driverName are forbidden."))
    if (new.get("parameters") or {}) != (old.get("parameters") or {}):
        errors.append(forbidden("parameters", "updates to parameters are forbidden."))
    return errors


def parameter_errors(errors: Errors, parameters: dict[str, str], path: str, *, may_be_empty: bool = True) -> None:
    if len(parameters) > _MOST_PARAMETERS:
        errors.append(too_long(path, _MOST_PARAMETERS))
        return
    if "" in parameters:
        errors.append(invalid(path, "", "field can not be empty."))
    if sum(len(key.encode()) + len(value.encode()) for key, value in parameters.items()) > _PARAMETERS_SIZE:
        errors.append(too_long(path, _PARAMETERS_SIZE))
    if not parameters and not may_be_empty:
        errors.append(required(path, "must contain at least one key/value pair"))


def _topology_term(errors: Errors, term: Json, path: str) -> None:
    keys: set[str] = set()
    for index, need in enumerate(term.get("matchLabelExpressions") or ()):
        child_path, values, key = f"{path}.matchLabelExpressions[{index}]", need.get("values") or [], need.get("key") or ""
        if not values:
            errors.append(required(f"{child_path}.values"))
        for number, value in enumerate(values):
            if value in values[:number]:
                errors.append(duplicate(f"{child_path}.values[{number}]", value))
        check_qualified_name(errors, key, f"{child_path}.key")
        if key in keys:
            errors.append(duplicate(f"{child_path}.key", key))
        keys.add(key)
