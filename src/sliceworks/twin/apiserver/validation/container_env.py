"""Environment variables and the downward API."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sliceworks.base import names, quantity
from sliceworks.twin.apiserver.validation import error_list

if TYPE_CHECKING:
    from sliceworks.twin.apiserver.validation.defaults import Json
    from sliceworks.twin.apiserver.validation.error_list import ErrorList

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


def validate_downward_api_file(errors: ErrorList, item: Json, path: str) -> None:
    """Validate one file of a downward API volume. Kubernetes reports the path of the volume, not of the file."""
    errors.check_required(item, path, "path")
    errors.check_local_path(item.get("path") or "", f"{path}.path")
    field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
    if field is not None:
        validate_field_ref(errors, field, FILE_FIELDS, f"{path}.fieldRef")
        if resource is not None:
            errors.invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
    elif resource is not None:
        validate_resource_field_ref(errors, resource, f"{path}.resourceFieldRef", in_volume=True)
    else:
        errors.required(path, "one of fieldRef and resourceFieldRef is required")
    errors.check_file_mode(item.get("mode"), f"{path}.mode")


def validate_field_ref(errors: ErrorList, reference: Json, allowed: tuple[str, ...], path: str) -> None:
    version, field = reference.get("apiVersion") or "", reference.get("fieldPath") or ""
    if not version or not field:
        errors.required(f"{path}.{'fieldPath' if version else 'apiVersion'}")
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
        errors.invalid(f"{path}.fieldPath", field, f"error converting fieldPath: {detail}")
    elif match is not None:
        errors.check_qualified_name(match[2].lower() if match[1] == "metadata.annotations" else match[2], path)
    elif field not in allowed:
        errors.not_supported(f"{path}.fieldPath", field, allowed)


def validate_resource_field_ref(errors: ErrorList, reference: Json, path: str, *, in_volume: bool) -> None:
    resource = reference.get("resource") or ""
    if in_volume and not reference.get("containerName"):
        errors.required(f"{path}.containerName")
    elif not resource:
        errors.required(f"{path}.resource")
    elif resource not in _RESOURCES and not resource.startswith(_HUGE):
        errors.not_supported(f"{path}.resource", resource, _RESOURCES)
    divisor = quantity.canonical(reference.get("divisor") or "0")
    if divisor == "0":
        return
    if resource.endswith(".cpu"):
        if divisor not in ("1m", "1"):
            errors.invalid(f"{path}.divisor", resource, "only divisor's values 1m and 1 are supported with the cpu resource")
    elif divisor not in _BYTES:
        noun = "memory" if resource.endswith(".memory") else "local ephemeral storage"
        noun = "hugepages" if resource.startswith(_HUGE) else noun
        detail = f"only divisor's values {', '.join(_BYTES)} are supported with the {noun} resource"
        errors.invalid(f"{path}.divisor", resource, detail)


_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_ONE_NEEDED = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
_ONLY_ONE = "may not have more than one field specified at a time"


def validate_env(errors: ErrorList, variables: list[Json], path: str) -> None:
    for index, variable in enumerate(variables):
        name = variable.get("name")
        if not name:
            errors.required(f"{path}[{index}].name")
        elif not name.isidentifier() or not name.isascii():
            errors.check_name(name, f"{path}[{index}].name", names.environment_name_errors)
        if (source := variable.get("valueFrom")) is not None:
            _validate_value_from(errors, source, variable.get("value") or "", f"{path}[{index}].valueFrom")


def validate_env_from(errors: ErrorList, sources: list[Json], path: str) -> None:
    for index, source in enumerate(sources):
        errors.check_optional_names(source, f"{path}[{index}]", names.environment_name_errors, "prefix")
        fields = [field for field in ("configMapRef", "secretRef") if source.get(field) is not None]
        for field in fields:
            errors.check_required_name(source[field], f"{path}[{index}].{field}", "name", _source_name_errors)
        if not fields:
            errors.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(fields) > 1:
            errors.invalid(path, "", _ONLY_ONE)


def _source_name_errors(name: str) -> list[str]:
    return error_list.dns1123_subdomain_errors(names.mask_trailing_dash(name))


def _validate_value_from(errors: ErrorList, source: Json, value: str, path: str) -> None:
    fields = [field for field in _SOURCES if source.get(field) is not None]
    for field in fields:
        _validate_reference(errors, field, source[field], f"{path}.{field}")
    if not fields:
        errors.invalid(path, "", _ONE_NEEDED)
    elif value:
        errors.invalid(path, "", "may not be specified when `value` is not empty")
    elif len(fields) > 1:
        errors.invalid(path, "", _ONLY_ONE)


def _validate_reference(errors: ErrorList, field: str, reference: Json, path: str) -> None:
    if field == "fieldRef":
        validate_field_ref(errors, reference, VARIABLE_FIELDS, path)
    elif field == "resourceFieldRef":
        validate_resource_field_ref(errors, reference, path, in_volume=False)
    elif field == "fileKeyRef":
        _validate_file_key(errors, reference, path)
    else:
        errors.check_dns_subdomain(reference.get("name") or "", f"{path}.name")
        errors.check_required_name(reference, path, "key", names.config_key_errors)


def _validate_file_key(errors: ErrorList, reference: Json, path: str) -> None:
    errors.check_required(reference, path, "key", "volumeName", "path")
    errors.check_optional_names(reference, path, names.environment_name_errors, "key")
    errors.check_optional_names(reference, path, error_list.dns1123_label_errors, "volumeName")
    errors.check_no_backsteps(reference.get("path") or "", f"{path}.path")
