"""APIServices: the group version and its priorities, the Service behind it, and the status of conditions."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from sliceworks.base import names
from sliceworks.schemas.field_errors import quoted
from sliceworks.twin.apiserver.validation.error_list import list_items

if TYPE_CHECKING:
    from sliceworks.twin.apiserver.validation.defaults import Json
    from sliceworks.twin.apiserver.validation.error_list import ErrorList

_MAX_GROUP_PRIORITY, _MAX_VERSION_PRIORITY = 20_000, 1_000
_STATUSES = ("True", "False", "Unknown")


def validate_api_service(errors: ErrorList, obj: Json) -> None:
    """Validate an APIService. Its name is `VERSION.GROUP`."""
    spec, name = obj.get("spec") or {}, obj["metadata"].get("name") or ""
    group, version = spec.get("group") or "", spec.get("version") or ""
    required = f"{version}.{group}"
    if name and name != required and not names.path_segment_errors(name):
        errors.invalid("metadata.name", name, f'must be `spec.version+"."+spec.group`: {quoted(required)}')
    if not group and version != "v1":
        errors.required("spec.group", "only v1 may have an empty group and it better be legacy kube")
    if group:
        errors.check_dns_subdomain(group, "spec.group")
    errors.check_name(version, "spec.version", names.dns1035_label_errors)
    _check_priority(errors, spec, "groupPriorityMinimum", _MAX_GROUP_PRIORITY)
    _check_priority(errors, spec, "versionPriority", _MAX_VERSION_PRIORITY)
    _validate_service(errors, spec)


def _check_priority(errors: ErrorList, spec: Json, field: str, limit: int) -> None:
    priority = spec.get(field) or 0
    if not 0 < priority <= limit:
        errors.invalid(f"spec.{field}", priority, f"must be positive and less than {limit}")


def _validate_service(errors: ErrorList, spec: Json) -> None:
    service, bundle, insecure = spec.get("service"), spec.get("caBundle") or "", bool(spec.get("insecureSkipTLSVerify"))
    if service is None:
        if bundle:
            size = f"{len(base64.b64decode(bundle))} bytes"
            errors.invalid("spec.caBundle", size, "local APIServices may not have a caBundle")
        if insecure:
            errors.invalid("spec.insecureSkipTLSVerify", True, "local APIServices may not have insecureSkipTLSVerify")
        return
    errors.check_required(service, "spec.service", "namespace", "name")
    port = service.get("port") or 0
    if not 1 <= port <= 65535:
        errors.invalid("spec.service.port", port, "port is not valid: must be between 1 and 65535, inclusive")
    if insecure and bundle:
        errors.invalid("spec.insecureSkipTLSVerify", True, "may not be true if caBundle is present")


def validate_api_service_status(errors: ErrorList, obj: Json, old: Json) -> None:
    """Validate the conditions of an APIService."""
    for condition, path in list_items(obj.get("status") or {}, "status", "conditions"):
        errors.check_supported(condition, path, "status", _STATUSES)
