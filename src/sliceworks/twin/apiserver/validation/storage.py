"""PersistentVolumes, claims, and the storage.k8s.io group."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

import orjson

from sliceworks.base import quantity
from sliceworks.kube.persistent_volumes import CLASS_ANNOTATION
from sliceworks.twin.apiserver.validation import error_list
from sliceworks.twin.apiserver.validation.error_list import ErrorList, list_items
from sliceworks.twin.apiserver.validation.resource_requirements import validate_basic_quantity, validate_positive_quantity
from sliceworks.twin.apiserver.validation.selectors import validate_label_selector, validate_node_selector
from sliceworks.twin.apiserver.validation.volume import (
    SOURCES,
    VOLUME_MODES,
    validate_access_modes,
    validate_claim_spec,
    validate_driver_name,
    validate_source,
)

if TYPE_CHECKING:
    from sliceworks.twin.apiserver.validation.defaults import Json
    from sliceworks.twin.apiserver.validation.volume import SourceValidation

_CLAIM_IMMUTABLE = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n"
_MAX_PARAMETERS = 512
_MAX_PARAMETER_BYTES = 256 * 1024
_MAX_NODE_ID_LENGTH = 256


def validate_persistent_volume_claim(errors: ErrorList, obj: Json) -> None:
    validate_claim_spec(errors, obj.get("spec") or {}, "spec")


def validate_persistent_volume_claim_update(errors: ErrorList, new: Json, old: Json) -> None:
    now, before = dict(new.get("spec") or {}), old.get("spec") or {}
    name, old_name = (((obj.get("metadata") or {}).get("annotations") or {}).get(CLASS_ANNOTATION, "") for obj in (new, old))
    errors.check_immutable(name, old_name, f"metadata.annotations.{CLASS_ANNOTATION}")
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
        errors.forbidden("spec", _CLAIM_IMMUTABLE)
    capacity = ((old.get("status") or {}).get("capacity") or {}).get("storage", "0")
    if quantity.compare(size, old_size) < 0 and quantity.compare(size, capacity) <= 0:
        errors.forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")
    errors.check_immutable(mode, before.get("volumeMode"), "volumeMode")


def validate_persistent_volume_update(errors: ErrorList, new: Json, old: Json) -> None:
    now, before = new.get("spec") or {}, old.get("spec") or {}
    sources = [{name: spec[name] for name in _VOLUME_SOURCES if spec.get(name) is not None} for spec in (now, before)]
    if "csi" in sources[0] and "csi" in sources[1] and "controllerExpandSecretRef" not in sources[1]["csi"]:
        sources[0]["csi"] = {name: item for name, item in sources[0]["csi"].items() if name != "controllerExpandSecretRef"}
    if sources[0] != sources[1]:
        errors.forbidden("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation\n")
    errors.check_immutable(now.get("volumeMode"), before.get("volumeMode"), "volumeMode")
    if before.get("nodeAffinity") is not None and now.get("nodeAffinity") != before["nodeAffinity"]:
        errors.invalid("nodeAffinity", now.get("nodeAffinity"), "field is immutable, except for updating from beta label to GA")
    if before.get("volumeAttributesClassName") is not None and now.get("volumeAttributesClassName") is None:
        errors.forbidden("spec.volumeAttributesClassName", "update from non-nil value to nil is forbidden")


def _with_storage(resources: Json, size: str) -> Json:
    return resources | {"requests": (resources.get("requests") or {}) | {"storage": size}}


def validate_persistent_volume(errors: ErrorList, obj: Json) -> None:
    spec: Json = obj.get("spec") or {}
    capacity = spec.get("capacity") or {}
    errors.check_required(spec, "spec", "accessModes")
    validate_access_modes(errors, spec.get("accessModes") or [], "spec.accessModes")
    errors.check_required(spec, "spec", "capacity")
    if set(capacity) != {"storage"}:
        errors.not_supported("spec.capacity", capacity or None, ("storage",))
    for name, amount in capacity.items():
        validate_basic_quantity(errors, amount, f"spec.capacity[{name}]")
        validate_positive_quantity(errors, amount, f"spec.capacity[{name}]")
    policy, affinity = spec.get("persistentVolumeReclaimPolicy"), spec.get("nodeAffinity")
    errors.check_optional_enum(spec, "spec", "persistentVolumeReclaimPolicy", ("Delete", "Recycle", "Retain"))
    if affinity is not None:
        if affinity.get("required") is None:
            errors.required("spec.nodeAffinity.required", "must specify required node constraints")
        else:
            validate_node_selector(errors, affinity["required"], "spec.nodeAffinity.required")
    validate_source(errors, spec, "spec", _VOLUME_SOURCES)
    first = next((name for name in _VOLUME_SOURCES if spec.get(name) is not None), "")
    if first == "local" and affinity is None:
        errors.required("spec.nodeAffinity", "Local volume requires node affinity")
    folder = (spec.get("hostPath") or {}).get("path") or ""
    if folder and posixpath.normpath(folder) == "/" and policy == "Recycle":
        errors.forbidden("spec.persistentVolumeReclaimPolicy", "may not be 'recycle' for a hostPath mount of '/'")
    errors.check_optional_names(spec, "spec", error_list.dns1123_subdomain_errors, "storageClassName")
    errors.check_optional_enum(spec, "spec", "volumeMode", VOLUME_MODES)
    if (name := spec.get("volumeAttributesClassName")) is not None:
        if not name:
            errors.required("spec.volumeAttributesClassName", "an empty string is disallowed")
        else:
            errors.check_dns_subdomain(name, "spec.volumeAttributesClassName")
        if spec.get("csi") is None:
            errors.required("spec.csi", "has to be specified when using volumeAttributesClassName")


def _validate_local(errors: ErrorList, source: Json, path: str) -> None:
    errors.check_required(source, path, "path")
    errors.check_no_backsteps(source.get("path") or "", f"{path}.path")


def _validate_csi(errors: ErrorList, source: Json, path: str) -> None:
    validate_driver_name(errors, source.get("driver") or "", f"{path}.driver")
    errors.check_required(source, path, "volumeHandle")
    for field in ("controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef"):
        if (secret := source.get(field)) is not None:
            errors.check_required_name(secret, f"{path}.{field}", "name", error_list.dns1123_subdomain_errors)
            errors.check_required_name(secret, f"{path}.{field}", "namespace", error_list.dns1123_label_errors)


_VOLUME_SOURCES: dict[str, SourceValidation] = {
    **{
        name: SOURCES[name]
        for name in [
            "hostPath",
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
            "scaleIO",
        ]
    },
    "local": _validate_local,
    "storageos": SOURCES["storageos"],
    "csi": _validate_csi,
}


def validate_storage_class(errors: ErrorList, obj: Json) -> None:
    if provisioner := obj.get("provisioner"):
        errors.check_qualified_name(provisioner.lower(), "provisioner")
    else:
        errors.required("provisioner")
    _validate_parameters(errors, obj)
    errors.check_optional_enum(obj, "", "reclaimPolicy", ("Delete", "Retain"))
    errors.check_optional_enum(obj, "", "volumeBindingMode", ("Immediate", "WaitForFirstConsumer"))
    seen: set[bytes] = set()
    for term, path in list_items(obj, "", "allowedTopologies"):
        _validate_topology_term(errors, term, path)
        key = orjson.dumps(term, option=orjson.OPT_SORT_KEYS)
        if key in seen:
            errors.duplicate(f"{path}.matchLabelExpressions", "")
        seen.add(key)


def validate_storage_class_update(errors: ErrorList, new: Json, old: Json) -> None:
    _forbid_updates(errors, new, old, "parameters", "provisioner", "reclaimPolicy")
    errors.check_unchanged(new, old, "", "volumeBindingMode")


def validate_volume_attributes_class_update(errors: ErrorList, new: Json, old: Json) -> None:
    _forbid_updates(errors, new, old, "driverName", "parameters")


def _forbid_updates(errors: ErrorList, new: Json, old: Json, *fields: str) -> None:
    for field in fields:
        if (new.get(field) or None) != (old.get(field) or None):
            errors.forbidden(field, f"updates to {field} are forbidden.")


def validate_csi_driver(errors: ErrorList, obj: Json) -> None:
    spec: Json = obj.get("spec") or {}
    errors.check_optional_enum(spec, "spec", "fsGroupPolicy", ("File", "None", "ReadWriteOnceWithFSType"))
    audiences: set[str] = set()
    for token, path in list_items(spec, "spec", "tokenRequests"):
        audience, seconds = token.get("audience") or "", token.get("expirationSeconds")
        if audience in audiences:
            errors.duplicate(f"{path}.audience", audience)
            continue
        audiences.add(audience)
        if seconds is not None:
            errors.check_token_seconds(seconds, f"{path}.expirationSeconds")
    for mode in spec.get("volumeLifecycleModes") or ():
        if mode not in ("Persistent", "Ephemeral"):
            errors.not_supported("spec.volumeLifecycleModes", mode, ("Persistent", "Ephemeral"))
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < 10:
        errors.invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, "must be greater than or equal to 10 seconds")


def validate_csi_driver_update(errors: ErrorList, new: Json, old: Json) -> None:
    now, before = new.get("spec") or {}, old.get("spec") or {}
    errors.check_immutable(now.get("attachRequired"), before.get("attachRequired"), "spec.attachedRequired")
    errors.check_unchanged(now, before, "spec", "volumeLifecycleModes")


def validate_csi_node(errors: ErrorList, obj: Json) -> None:
    seen: set[str] = set()
    for driver, path in list_items(obj.get("spec") or {}, "spec", "drivers"):
        name, node = driver.get("name") or "", driver.get("nodeID") or ""
        validate_driver_name(errors, name, f"{path}.name")
        errors.check_required(driver, path, "nodeID")
        if len(node) > _MAX_NODE_ID_LENGTH:
            errors.invalid(f"{path}.nodeID", node, f"must be {_MAX_NODE_ID_LENGTH} characters or less")
        errors.check_not_negative(driver.get("allocatable") or {}, f"{path}.allocatable", "count")
        errors.check_unique(seen, name, f"{path}.name")
        for key in driver.get("topologyKeys") or ():
            errors.check_qualified_name(key, path)


def validate_csi_storage_capacity(errors: ErrorList, obj: Json) -> None:
    validate_label_selector(errors, obj.get("nodeTopology"), "nodeTopology")
    errors.check_dns_subdomain(obj.get("storageClassName") or "", "storageClassName")
    capacity = obj.get("capacity")
    if capacity is not None and quantity.nanos(capacity) < 0:
        errors.invalid("capacity", quantity.canonical(capacity), error_list.NEGATIVE)


def validate_volume_attachment(errors: ErrorList, obj: Json) -> None:
    spec: Json = obj.get("spec") or {}
    source = spec.get("source") or {}
    inline, name = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
    errors.check_required(spec, "spec", "attacher")
    if (inline is None) == (name is None):
        report = errors.required if inline is None else errors.forbidden
        report("spec.source", "must specify exactly one of inlineVolumeSpec and persistentVolumeName")
    elif name == "":
        errors.required("spec.source.persistentVolumeName", "must specify non empty persistentVolumeName")
    errors.check_dns_subdomain(spec.get("nodeName") or "", "spec.nodeName")
    validate_driver_name(errors, spec.get("attacher") or "", "spec.attacher")
    if name:
        errors.check_dns_subdomain(name, "spec.source.persistentVolumeName")


def validate_volume_attributes_class(errors: ErrorList, obj: Json) -> None:
    validate_driver_name(errors, obj.get("driverName") or "", "driverName")
    _validate_parameters(errors, obj)
    if not obj.get("parameters"):
        errors.required("parameters", "must contain at least one key/value pair")


def _validate_parameters(errors: ErrorList, obj: Json) -> None:
    parameters: dict[str, str] = obj.get("parameters") or {}
    if len(parameters) > _MAX_PARAMETERS:
        errors.too_long("parameters", _MAX_PARAMETERS)
        return
    if "" in parameters:
        errors.invalid("parameters", "", "field can not be empty.")
    if sum(len(key.encode()) + len(value.encode()) for key, value in parameters.items()) > _MAX_PARAMETER_BYTES:
        errors.too_long("parameters", _MAX_PARAMETER_BYTES)


def _validate_topology_term(errors: ErrorList, term: Json, path: str) -> None:
    keys: set[str] = set()
    for requirement, child_path in list_items(term, path, "matchLabelExpressions"):
        key, values = requirement.get("key") or "", set[str]()
        errors.check_required(requirement, child_path, "values")
        for value, value_path in list_items(requirement, child_path, "values"):
            errors.check_unique(values, value, value_path)
        errors.check_qualified_name(key, f"{child_path}.key")
        errors.check_unique(keys, key, f"{child_path}.key")
