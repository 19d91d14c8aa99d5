"""Storage classes, drivers of storage, and attachments of volumes to nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.schemas.field_errors import duplicate, forbidden, invalid, not_supported, required, too_long
from sliceworks.schemas.rules.texts import Errors, immutable, qualified, subdomain
from sliceworks.schemas.rules.volumes import driver_name

if TYPE_CHECKING:
    from sliceworks.schemas.rules.shape import Json

_MOST_PARAMETERS = 512
_PARAMETERS_SIZE = 256 * 1024
_LONGEST_NODE_ID = 256
_FS_GROUP = ("File", "None", "ReadWriteOnceWithFSType")


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
