"""Environment variables and the downward API."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sliceworks.base import names, quantity
from sliceworks.schemas.field_errors import invalid, not_supported, required
from sliceworks.twin.apiserver.validation import field_checks
from sliceworks.twin.apiserver.validation.field_checks import (
    Errors,
    check_dns_label,
    check_dns_subdomain,
    check_file_mode,
    check_local_path,
    check_name,
    check_no_backsteps,
    check_qualified_name,
)

if TYPE_CHECKING:
    from sliceworks.twin.apiserver.validation.defaults import Json

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


def file_errors(errors: Errors, item: Json, path: str) -> None:
    """Errors of one file of a downward API volume. Kubernetes reports the path of the volume, not of the file."""
    if not item.get("path"):
        errors.append(required(f"{path}.path"))
    check_local_path(errors, item.get("path") or "", f"{path}.path")
    field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if field is not None:
        field_errors(errors, field, FILE_FIELDS, f"{path}.fieldRef")
        if resource is not None:
            errors.append(invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"))
    elif resource is not None:
        resource_errors(errors, resource, f"{path}.resourceFieldRef", in_volume=True)
    else:
        errors.append(required(path, "one of fieldRef and resourceFieldRef is required"))
    check_file_mode(errors, item.get("mode"), f"{path}.mode")


def field_errors(errors: Errors, reference: Json, allowed: tuple[str, ...], path: str) -> None:
    version, field = reference.get("apiVersion") or "", reference.get("fieldPath") or ""
    if not version or not field:
        errors.append(required(f"{path}.{'fieldPath' if version else 'apiVersion'}"))
        return
    match = _subscript(field)
    if version != "v1":
        detail = f"unsupported pod version: {version}"
    elif match is not None and match[1] not in ("metadata.annotations", "metadata.labels"):
        detail = f"field label does not support subscript: {field}"
    elif match is None and field not in _CONVERTIBLE:
        detail = f"field label not supported: {field}"
    else:
        detail = ""
    if detail:
        errors.append(invalid(f"{path}.fieldPath", field, f"error converting fieldPath: {detail}"))
    elif match is not None:
        check_qualified_name(errors, match[2].lower() if match[1] == "metadata.annotations" else match[2], path)
    elif field not in allowed:
        errors.append(not_supported(f"{path}.fieldPath", field, allowed))


def resource_errors(errors: Errors, reference: Json, path: str, *, in_volume: bool) -> None:
    resource = reference.get("resource") or ""
    if in_volume and not reference.get("containerName"):
        errors.append(required(f"{path}.containerName"))
    elif not resource:
        errors.append(required(f"{path}.resource"))
    elif resource not in _RESOURCES and not resource.startswith(_HUGE):
        errors.append(not_supported(f"{path}.resource", resource, _RESOURCES))
    divisor = quantity.canonical(reference.get("divisor") or "0")
    if divisor == "0":
        return
    if resource.endswith(".cpu"):
        if divisor not in ("1m", "1"):
            errors.append(
                invalid(f"{path}.divisor", resource, "only divisor's values 1m and 1 are supported with the cpu resource")
            )
    elif divisor not in _BYTES:
        words = (
            "memory" if resource.endswith(".memory") else "hugepages" if resource.startswith(_HUGE) else "local ephemeral storage"
        )
        listed = ", ".join(_BYTES)
        errors.append(
            invalid(f"{path}.divisor", resource, f"only divisor's values {listed} are supported with the {words} resource")
        )


_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_ONE_NEEDED = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
_ONLY_ONE = "may not have more than one field specified at a time"


def env_errors(errors: Errors, variables: list[Json], path: str) -> None:
    for index, variable in enumerate(variables):
        name = variable.get("name")
        if not name:
            errors.append(required(f"{path}[{index}].name"))
        elif not name.isidentifier() or not name.isascii():
            check_name(errors, name, f"{path}[{index}].name", names.environment_name_errors)
        if (source := variable.get("valueFrom")) is not None:
            _value_from(errors, source, variable.get("value") or "", f"{path}[{index}].valueFrom")


def env_from_errors(errors: Errors, sources: list[Json], path: str) -> None:
    for index, source in enumerate(sources):
        if prefix := source.get("prefix"):
            check_name(errors, prefix, f"{path}[{index}].prefix", names.environment_name_errors)
        count = 0
        for field in ("configMapRef", "secretRef"):
            if (reference := source.get(field)) is not None:
                count += 1
                _source_name(errors, reference.get("name") or "", f"{path}[{index}].{field}.name")
        if count == 0:
            errors.append(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif count > 1:
            errors.append(invalid(path, "", _ONLY_ONE))


def _source_name(errors: Errors, name: str, path: str) -> None:
    if not name:
        errors.append(required(path))
        return
    for message in field_checks.dns1123_subdomain_errors(names.mask_trailing_dash(name)):
        errors.append(invalid(path, name, message))


def _value_from(errors: Errors, source: Json, value: str, path: str) -> None:
    fields = [field for field in _SOURCES if source.get(field) is not None]
    for field in fields:
        _reference(errors, field, source[field], f"{path}.{field}")
    if not fields:
        errors.append(invalid(path, "", _ONE_NEEDED))
    elif value:
        errors.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif len(fields) > 1:
        errors.append(invalid(path, "", _ONLY_ONE))


def _reference(errors: Errors, field: str, reference: Json, path: str) -> None:
    if field == "fieldRef":
        field_errors(errors, reference, VARIABLE_FIELDS, path)
    elif field == "resourceFieldRef":
        resource_errors(errors, reference, path, in_volume=False)
    elif field == "fileKeyRef":
        _file_key(errors, reference, path)
    else:
        check_dns_subdomain(errors, reference.get("name") or "", f"{path}.name")
        if not reference.get("key"):
            errors.append(required(f"{path}.key"))
        else:
            check_name(errors, reference["key"], f"{path}.key", names.config_key_errors)


def _file_key(errors: Errors, reference: Json, path: str) -> None:
    for field in ("key", "volumeName", "path"):
        if not reference.get(field):
            errors.append(required(f"{path}.{field}"))
    if reference.get("key"):
        check_name(errors, reference["key"], f"{path}.key", names.environment_name_errors)
    if reference.get("volumeName"):
        check_dns_label(errors, reference["volumeName"], f"{path}.volumeName")
    check_no_backsteps(errors, reference.get("path") or "", f"{path}.path")
