"""The downward API: fields and resources of a pod that its own containers may read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sliceworks.base import quantity
from sliceworks.schemas.field_errors import invalid, not_supported, required
from sliceworks.schemas.rules.texts import Errors, file_mode, local_path, qualified

if TYPE_CHECKING:
    from sliceworks.schemas.rules.shape import Json

FILE_FIELDS = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
VARIABLE_FIELDS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_CONVERTIBLE = frozenset({*FILE_FIELDS, *VARIABLE_FIELDS, "spec.restartPolicy", "spec.schedulerName", "status.phase", "spec.host"})
_RESOURCES = tuple(f"{side}.{name}" for side in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory"))
_HUGE = ("limits.hugepages-", "requests.hugepages-")
_BYTES = ("1", *(f"1{unit}" for unit in ("k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")))
_subscript = re.compile(r"(metadata\.(?:annotations|labels)|[^\[\]]+)\['([^']*)'\]").fullmatch


def file_errors(out: Errors, item: Json, path: str) -> None:
    """One file of a downward volume. Kubernetes names the volume in its path, not the file."""
    if not item.get("path"):
        out.append(required(f"{path}.path"))
    local_path(out, item.get("path") or "", f"{path}.path")
    field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if field is not None:
        field_errors(out, field, FILE_FIELDS, f"{path}.fieldRef")
        if resource is not None:
            out.append(invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"))
    elif resource is not None:
        resource_errors(out, resource, f"{path}.resourceFieldRef", in_volume=True)
    else:
        out.append(required(path, "one of fieldRef and resourceFieldRef is required"))
    file_mode(out, item.get("mode"), f"{path}.mode")


def field_errors(out: Errors, reference: Json, allowed: tuple[str, ...], path: str) -> None:
    version, field = reference.get("apiVersion") or "", reference.get("fieldPath") or ""
    if not version or not field:
        out.append(required(f"{path}.{'fieldPath' if version else 'apiVersion'}"))
        return
    found = _subscript(field)
    if version != "v1":
        detail = f"unsupported pod version: {version}"
    elif found is not None and found[1] not in ("metadata.annotations", "metadata.labels"):
        detail = f"field label does not support subscript: {field}"
    elif found is None and field not in _CONVERTIBLE:
        detail = f"field label not supported: {field}"
    else:
        detail = ""
    if detail:
        out.append(invalid(f"{path}.fieldPath", field, f"error converting fieldPath: {detail}"))
    elif found is not None:
        qualified(out, found[2].lower() if found[1] == "metadata.annotations" else found[2], path)
    elif field not in allowed:
        out.append(not_supported(f"{path}.fieldPath", field, allowed))


def resource_errors(out: Errors, reference: Json, path: str, *, in_volume: bool) -> None:
    resource = reference.get("resource") or ""
    if in_volume and not reference.get("containerName"):
        out.append(required(f"{path}.containerName"))
    elif not resource:
        out.append(required(f"{path}.resource"))
    elif resource not in _RESOURCES and not resource.startswith(_HUGE):
        out.append(not_supported(f"{path}.resource", resource, _RESOURCES))
    divisor = quantity.canonical(reference.get("divisor") or "0")
    if divisor == "0":
        return
    if resource.endswith(".cpu"):
        if divisor not in ("1m", "1"):
            out.append(invalid(f"{path}.divisor", resource, "only divisor's values 1m and 1 are supported with the cpu resource"))
    elif divisor not in _BYTES:
        words = (
            "memory" if resource.endswith(".memory") else "hugepages" if resource.startswith(_HUGE) else "local ephemeral storage"
        )
        listed = ", ".join(_BYTES)
        out.append(invalid(f"{path}.divisor", resource, f"only divisor's values {listed} are supported with the {words} resource"))
