"""ResourceSlices: the devices of a driver."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sliceworks.base import names
from sliceworks.schemas.field_errors import Rendered
from sliceworks.twin.apiserver.validation.device_claim import validate_pool_name, validate_qualified_name
from sliceworks.twin.apiserver.validation.error_list import dns1123_label_errors, list_items
from sliceworks.twin.apiserver.validation.selectors import validate_node_selector
from sliceworks.twin.apiserver.validation.volume import validate_driver_name

if TYPE_CHECKING:
    from sliceworks.twin.apiserver.validation.defaults import Json
    from sliceworks.twin.apiserver.validation.error_list import ErrorList

_MAX_DEVICES, _MAX_ATTRIBUTES, _MAX_VALUE = 128, 32, 64
_ONE_NODE_FIELD = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_PART = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_NUMBER = r"(0|[1-9]\d*)"
_VERSION = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(-{_PART}(\.{_PART})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?", re.ASCII
).fullmatch


def validate_resource_slice(errors: ErrorList, obj: Json) -> None:
    spec = obj.get("spec") or {}
    validate_driver_name(errors, spec.get("driver") or "", "spec.driver")
    pool = spec.get("pool") or {}
    validate_pool_name(errors, pool.get("name") or "", "spec.pool.name")
    count, generation = pool.get("resourceSliceCount", 0), pool.get("generation", 0)
    if count <= 0:
        errors.invalid("spec.pool.resourceSliceCount", count, "must be greater than zero")
    if generation < 0:
        errors.invalid("spec.pool.generation", generation, "must be greater than or equal to zero")
    _validate_nodes(errors, spec)
    devices = spec.get("devices") or []
    errors.check_count(devices, "spec.devices", _MAX_DEVICES)
    seen: set[str] = set()
    for device, path in list_items(spec, "spec", "devices") if len(devices) <= _MAX_DEVICES else ():
        _validate_device(errors, device, path)
        errors.check_unique(seen, device.get("name", ""), path)


def validate_resource_slice_update(errors: ErrorList, new: Json, old: Json) -> None:
    now, before = new.get("spec") or {}, old.get("spec") or {}
    errors.check_unchanged(now.get("pool") or {}, before.get("pool") or {}, "spec.pool", "name")
    errors.check_unchanged(now, before, "spec", "driver", "nodeName")


def driver_warnings(obj: Json) -> list[str]:
    """The warning about a driver with an unusual name."""
    driver = (obj.get("spec") or {}).get("driver") or ""
    if driver == driver.lower():
        return []
    return [f'spec.driver: driver names should be lowercase; "{driver}" contains uppercase characters']


def _validate_nodes(errors: ErrorList, spec: Json) -> None:
    """Validate which nodes can use the devices."""
    given = []
    node, selector, everywhere = spec.get("nodeName"), spec.get("nodeSelector"), spec.get("allNodes")
    if node:
        given.append("`nodeName`")
        errors.check_name(node, "spec.nodeName", names.dns1123_subdomain_errors)
    elif node is not None:
        errors.invalid("spec.nodeName", node, "must be either unset or set to a non-empty string")
    if selector is not None:
        given.append("`nodeSelector`")
        validate_node_selector(errors, selector, "spec.nodeSelector")
        terms = selector.get("nodeSelectorTerms") or []
        if len(terms) != 1:
            errors.invalid("spec.nodeSelector.nodeSelectorTerms", terms, "must have exactly one node selector term")
    if everywhere:
        given.append("`allNodes`")
    elif everywhere is not None:
        errors.invalid("spec.allNodes", everywhere, "must be either unset or set to true")
    if not given:
        errors.required("spec", _ONE_NODE_FIELD)
    elif len(given) > 1:
        errors.invalid("spec", f"{{{', '.join(given)}}}", f"{_ONE_NODE_FIELD}, but multiple fields are set")


def _validate_device(errors: ErrorList, device: Json, path: str) -> None:
    errors.check_name(device.get("name", ""), f"{path}.name", dns1123_label_errors)
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    count = len(attributes) + len(capacity)
    if count > _MAX_ATTRIBUTES:
        errors.invalid(path, count, f"the total number of attributes and capacities must not exceed {_MAX_ATTRIBUTES}")
    for name, attribute in attributes.items():
        validate_qualified_name(errors, name, f"{path}.attributes[{name}]")
        _validate_attribute(errors, attribute, f"{path}.attributes[{name}]")
    for name in capacity:
        validate_qualified_name(errors, name, f"{path}.capacity[{name}]")


def _validate_attribute(errors: ErrorList, attribute: Json, path: str) -> None:
    text, version = attribute.get("string"), attribute.get("version")
    if text is not None and len(text.encode()) > _MAX_VALUE:
        errors.too_long(f"{path}.string", _MAX_VALUE)
    if version is not None and not _VERSION(version):
        errors.invalid(f"{path}.version", version, "must be a string compatible with semver.org spec 2.0.0")
    if version is not None and len(version.encode()) > _MAX_VALUE:
        errors.too_long(f"{path}.version", _MAX_VALUE)
    given = [field for field in ("bool", "int", "string", "version") if attribute.get(field) is not None]
    if len(given) != 1:
        errors.invalid(path, Rendered("{}") if given else "", "exactly one value must be specified")
