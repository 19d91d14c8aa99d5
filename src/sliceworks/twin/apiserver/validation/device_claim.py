"""DeviceClasses, ResourceClaims and ResourceClaimTemplates of dynamic resource allocation."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from sliceworks.schemas.model import build
from sliceworks.twin.apiserver.validation.error_list import (
    dns1123_label_errors,
    dns1123_subdomain_errors,
    format_go_struct,
    list_items,
)
from sliceworks.twin.apiserver.validation.object_meta import validate_annotations, validate_labels
from sliceworks.twin.apiserver.validation.selectors import validate_node_selector
from sliceworks.twin.apiserver.validation.volume import validate_driver_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from sliceworks.cel.environment import Environment
    from sliceworks.twin.apiserver.registry.resources import ClusterView
    from sliceworks.twin.apiserver.validation.defaults import Json
    from sliceworks.twin.apiserver.validation.error_list import ErrorList

    RequestNames = dict[str, set[str]]
    """The names of the requests of a claim, each with the names of its alternatives."""

_MAX_REQUESTS = _MAX_CONSTRAINTS = _MAX_CONFIGS = _MAX_SELECTORS = _MAX_RESULTS = 32
_MAX_ALTERNATIVES, _MAX_CONSUMERS, _MAX_CONDITIONS = 8, 256, 8
_MAX_EXPRESSION, _MAX_COST, _MAX_PARAMETERS = 10 * 1024, 1_000_000, 10 * 1024
_MAX_DOMAIN, _MAX_ID, _MAX_POOL = 63, 32, 253
_ADMIN_LABEL = "resource.kubernetes.io/admin-access"
_ONE_REQUEST = "exactly one of `exactly` or `firstAvailable` is required"
_NOT_A_REQUEST = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
_NOT_AN_IDENTIFIER = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric "
_IDENTIFIER_RULE = (
    "characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')"
)


def validate_device_class(errors: ErrorList, obj: Json) -> None:
    spec = obj.get("spec") or {}
    for selector, path in _limited(errors, spec, "spec", "selectors", _MAX_SELECTORS):
        _validate_selector(errors, selector, path)
    for config, path in _limited(errors, spec, "spec", "config", _MAX_CONFIGS):
        _validate_configuration(errors, config, path)


def validate_resource_claim(errors: ErrorList, obj: Json) -> None:
    _validate_devices(errors, (obj.get("spec") or {}).get("devices") or {}, "spec.devices")


def validate_resource_claim_template(errors: ErrorList, obj: Json) -> None:
    spec = obj.get("spec") or {}
    meta = spec.get("metadata") or {}
    validate_labels(errors, meta.get("labels"), "spec.metadata.labels")
    validate_annotations(errors, meta.get("annotations"), "spec.metadata.annotations")
    _validate_devices(errors, (spec.get("spec") or {}).get("devices") or {}, "spec.spec.devices")


def validate_admin_access(errors: ErrorList, obj: Json, old: Json | None, cluster: ClusterView) -> None:
    """Only namespaces with a label may have claims with administrative access."""
    spec = obj.get("spec") or {}
    requests = (spec.get("devices") or (spec.get("spec") or {}).get("devices") or {}).get("requests") or ()
    for index, request in enumerate(requests):
        if old is None and (request.get("exactly") or {}).get("adminAccess"):
            namespace = cluster.get("/namespaces", "", obj["metadata"]["namespace"]) or {"metadata": {}}
            if (namespace["metadata"].get("labels") or {}).get(_ADMIN_LABEL) != "true":
                detail = f"admin access to devices requires the `{_ADMIN_LABEL}: true` label on the containing namespace"
                errors.forbidden(f"spec.devices.requests[{index}].adminAccess", detail)
            return


def _validate_devices(errors: ErrorList, devices: Json, path: str) -> None:
    names = _request_names(devices)
    for request, request_path in _unique(errors, devices, path, "requests", limit=_MAX_REQUESTS, key=_name):
        _validate_request(errors, request, request_path)
    for constraint, constraint_path in _limited(errors, devices, path, "constraints", _MAX_CONSTRAINTS):
        _validate_references(errors, constraint, constraint_path, names)
        if attribute := constraint.get("matchAttribute"):
            _validate_fully_qualified_name(errors, attribute, f"{constraint_path}.matchAttribute")
        else:
            errors.required(f"{constraint_path}.matchAttribute")
    for config, config_path in _limited(errors, devices, path, "config", _MAX_CONFIGS):
        _validate_references(errors, config, config_path, names)
        _validate_configuration(errors, config, config_path)


def _request_names(devices: Json) -> RequestNames:
    return {
        request.get("name", ""): {alternative.get("name", "") for alternative in request.get("firstAvailable") or ()}
        for request in devices.get("requests") or ()
    }


def _validate_request(errors: ErrorList, request: Json, path: str) -> None:
    errors.check_name(request.get("name", ""), f"{path}.name", dns1123_label_errors)
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable")
    if exactly is not None and alternatives:
        errors.invalid(path, None, f"{_ONE_REQUEST}, but multiple fields are set")
    elif exactly is not None:
        _validate_device_request(errors, exactly, f"{path}.exactly")
    elif not alternatives:
        errors.required(path, _ONE_REQUEST)
    for alternative, inner in _unique(errors, request, path, "firstAvailable", limit=_MAX_ALTERNATIVES, key=_name):
        if exactly is None:
            errors.check_name(alternative.get("name", ""), f"{inner}.name", dns1123_label_errors)
            _validate_device_request(errors, alternative, inner)


def _validate_device_request(errors: ErrorList, request: Json, path: str) -> None:
    errors.check_required_name(request, path, "deviceClassName", dns1123_subdomain_errors)
    for selector, selector_path in _limited(errors, request, path, "selectors", _MAX_SELECTORS):
        _validate_selector(errors, selector, selector_path)
    mode, count = request.get("allocationMode") or "", request.get("count", 0)
    if mode == "All" and count != 0:
        errors.invalid(f"{path}.count", count, "must not be specified when allocationMode is 'All'")
    elif mode == "ExactCount" and count <= 0:
        errors.invalid(f"{path}.count", count, "must be greater than zero")
    elif mode not in ("All", "ExactCount"):
        errors.not_supported(f"{path}.allocationMode", mode, ("All", "ExactCount"))


def _validate_selector(errors: ErrorList, selector: Json, path: str) -> None:
    from sliceworks.cel.environment import CompileError

    if selector.get("cel") is None:
        errors.required(f"{path}.cel")
        return
    expression, path = selector["cel"].get("expression") or "", f"{path}.cel.expression"
    if len(expression) > _MAX_EXPRESSION:
        errors.too_long(path, _MAX_EXPRESSION)
        return
    try:
        program = _device_environment().compile(expression)
    except CompileError as error:
        errors.invalid(path, expression, str(error))
        return
    if program.result not in ("BOOL", "DYN"):
        errors.invalid(path, expression, "must evaluate to bool or the unknown type, not " + program.result.lower())
    elif program.cost.high > _MAX_COST:
        errors.forbidden(path, "too complex, exceeds cost limit")


@cache
def _device_environment() -> Environment:
    """The variable `device` of a selector. Attributes and capacities are maps of maps: by domain, then by name."""
    from sliceworks.cel.environment import Environment, Variable

    by_name: Json = {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}, "maxProperties": 32}
    by_domain: Json = {"type": "object", "additionalProperties": by_name, "maxProperties": 32}
    fields: Json = {"driver": {"type": "string", "maxLength": _MAX_DOMAIN}, "attributes": by_domain, "capacity": by_domain}
    schema = build({"type": "object", "properties": fields}, name="kubernetes.DRADevice")
    return Environment({"device": Variable(schema, shown="kubernetes.DRADevice")})


def _validate_configuration(errors: ErrorList, config: Json, path: str) -> None:
    opaque, path = config.get("opaque"), f"{path}.opaque"
    if opaque is None:
        errors.required(path)
        return
    validate_driver_name(errors, opaque.get("driver") or "", f"{path}.driver")
    _validate_parameters(errors, opaque.get("parameters"), f"{path}.parameters")


def _validate_parameters(errors: ErrorList, parameters: Any, path: str) -> None:
    import orjson

    if parameters is None:
        errors.required(path)
    elif len(orjson.dumps(parameters)) > _MAX_PARAMETERS:
        errors.too_long(path, _MAX_PARAMETERS)
    elif not isinstance(parameters, dict):
        errors.invalid(path, "<value omitted>", "must be a valid JSON object")


def _validate_references(errors: ErrorList, holder: Json, path: str, names: RequestNames) -> None:
    for name, name_path in _unique(errors, holder, path, "requests", limit=_MAX_REQUESTS, key=lambda name: name):
        _validate_reference(errors, name, name_path, names)


def _validate_reference(errors: ErrorList, name: str, path: str, names: RequestNames) -> None:
    segments = name.split("/")
    if len(segments) <= 2:
        for segment in segments:
            errors.check_name(segment, path, dns1123_label_errors)
    alternatives = names.get(segments[0])
    if len(segments) > 2 or alternatives is None or (len(segments) == 2 and segments[1] not in alternatives):
        errors.invalid(path, name, _NOT_A_REQUEST)


def validate_resource_claim_status(errors: ErrorList, obj: Json, old: Json) -> None:
    status, before = obj.get("status") or {}, old.get("status") or {}
    for consumer, path in _unique(
        errors, status, "status", "reservedFor", limit=_MAX_CONSUMERS, key=lambda item: item.get("uid", "")
    ):
        errors.check_required(consumer, path, "resource", "name", "uid")
    allocation, allocated = status.get("allocation"), _allocated(status)
    for device, path in _unique(errors, status, "status", "devices", key=_device_id):
        _validate_device_status(errors, device, path, allocated)
    _validate_consumers(errors, obj, status, before)
    if allocation is not None and before.get("allocation") is not None:
        errors.check_immutable(allocation, before["allocation"], "status.allocation")
    elif allocation is not None:
        _validate_allocation(errors, allocation, _request_names((obj.get("spec") or {}).get("devices") or {}))


def _validate_consumers(errors: ErrorList, obj: Json, status: Json, before: Json) -> None:
    consumers, path = status.get("reservedFor") or [], "status.reservedFor"
    if consumers and status.get("allocation") is None:
        errors.forbidden(path, "may not be specified when `allocated` is not set")
    elif obj["metadata"].get("deletionTimestamp") and any(item not in (before.get("reservedFor") or ()) for item in consumers):
        errors.forbidden(path, "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set")


def _validate_allocation(errors: ErrorList, allocation: Json, names: RequestNames) -> None:
    devices, path = allocation.get("devices") or {}, "status.allocation.devices"
    for result, result_path in _limited(errors, devices, path, "results", _MAX_RESULTS):
        _validate_reference(errors, result.get("request", ""), f"{result_path}.request", names)
        validate_device_identity(errors, result, result_path)
    for config, config_path in _limited(errors, devices, path, "config", 2 * _MAX_CONFIGS):
        errors.check_enum(config, config_path, "source", ("FromClaim", "FromClass"))
        _validate_references(errors, config, config_path, names)
        _validate_configuration(errors, config, config_path)
    if allocation.get("nodeSelector") is not None:
        validate_node_selector(errors, allocation["nodeSelector"], "status.allocation.nodeSelector")


def _validate_device_status(errors: ErrorList, device: Json, path: str, allocated: set[str]) -> None:
    validate_device_identity(errors, device, path)
    if _device_id(device) not in allocated:
        identity = {"shareID": "", **device}
        shown = format_go_struct(identity, "driver", "pool", "device", "shareID")
        errors.invalid(path, shown, "must be an allocated device in the claim")
    errors.check_count(device.get("conditions") or (), f"{path}.conditions", _MAX_CONDITIONS)
    if device.get("data") is not None:
        _validate_parameters(errors, device["data"], f"{path}.data")


def validate_device_identity(errors: ErrorList, device: Json, path: str) -> None:
    """Validate the driver, the pool and the name of a device."""
    validate_driver_name(errors, device.get("driver") or "", f"{path}.driver")
    validate_pool_name(errors, device.get("pool") or "", f"{path}.pool")
    errors.check_name(device.get("device", ""), f"{path}.device", dns1123_label_errors)


def validate_pool_name(errors: ErrorList, name: str, path: str) -> None:
    if not name:
        errors.required(path)
        return
    if len(name) > _MAX_POOL:
        errors.too_long(path, _MAX_POOL)
    for part in name.split("/"):
        errors.check_name(part, path, dns1123_subdomain_errors)


def validate_qualified_name(errors: ErrorList, name: str, path: str) -> None:
    """Validate the name of an attribute: an identifier, optionally after a domain."""
    domain, slash, identifier = name.rpartition("/")
    if "/" in domain:
        return
    if slash and not domain:
        errors.invalid(path, "", "the domain must not be empty")
    elif slash:
        validate_driver_name(errors, domain, path)
    if slash and not identifier:
        errors.invalid(path, "", "the name must not be empty")
        return
    if len(identifier) > _MAX_ID:
        errors.too_long(path, _MAX_ID)
    if not (identifier.isascii() and identifier.isidentifier()):
        errors.invalid(path, identifier, _NOT_AN_IDENTIFIER + _IDENTIFIER_RULE)


def _validate_fully_qualified_name(errors: ErrorList, name: str, path: str) -> None:
    validate_qualified_name(errors, name, path)
    if "/" not in name:
        errors.invalid(path, name, "a fully qualified name must be a domain and a name separated by a slash")


def _allocated(status: Json) -> set[str]:
    results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
    return {_device_id(result) for result in results}


def _device_id(device: Json) -> str:
    return "/".join(device.get(field) or "" for field in ("driver", "pool", "device"))


def _name(item: Json) -> str:
    return str(item.get("name", ""))


def _limited(errors: ErrorList, holder: Json, path: str, field: str, limit: int) -> Iterator[tuple[Any, str]]:
    """The items of a list with their paths; none if there are too many."""
    items = holder.get(field) or ()
    errors.check_count(items, f"{path}.{field}", limit)
    if len(items) <= limit:
        yield from list_items(holder, path, field)


def _unique(
    errors: ErrorList, holder: Json, path: str, field: str, *, limit: int | None = None, key: Callable[[Any], str]
) -> Iterator[tuple[Any, str]]:
    """The items of a list with their paths; reports those whose key another item has."""
    items = holder.get(field) or ()
    seen: set[str] = set()
    for item, item_path in _limited(errors, holder, path, field, len(items) if limit is None else limit):
        yield item, item_path
        errors.check_unique(seen, key(item), item_path)
