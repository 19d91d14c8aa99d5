"""Namespaces, nodes, ConfigMaps, Secrets, events and leases."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from sliceworks.base import names
from sliceworks.schemas.field_errors import FieldError
from sliceworks.schemas.golang import json_kind
from sliceworks.twin.apiserver.codec import DecodeError, read_json
from sliceworks.twin.apiserver.validation.affinity import validate_taints
from sliceworks.twin.apiserver.validation.error_list import format_go_struct, list_items, parse_cidr
from sliceworks.twin.apiserver.validation.object_meta import validate_finalizer
from sliceworks.twin.apiserver.validation.resource_requirements import validate_quantity

if TYPE_CHECKING:
    from sliceworks.twin.apiserver.validation.defaults import Json
    from sliceworks.twin.apiserver.validation.error_list import ErrorList

_OTHER_NAMESPACE = "does not match event.namespace"
_MAX_EVENT_BYTES = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}
_MAX_DATA_BYTES = 1024 * 1024
_SERVICE_ACCOUNT = "kubernetes.io/service-account.name"
_JSON_KEYS = {"kubernetes.io/dockercfg": ".dockercfg", "kubernetes.io/dockerconfigjson": ".dockerconfigjson"}
_IMMUTABLE_EVENT_FIELDS = ("type", "eventTime", "action", "related", "reportingController", "reportingInstance")


def validate_namespace(errors: ErrorList, obj: Json) -> None:
    for name in (obj.get("spec") or {}).get("finalizers") or ():
        validate_finalizer(errors, name, "spec.finalizers")


def validate_namespace_status(errors: ErrorList, new: Json, _old: Json) -> None:
    phase = (new.get("status") or {}).get("phase") or ""
    if not (new.get("metadata") or {}).get("deletionTimestamp"):
        expected, detail = "Active", "may only be 'Active' if `deletionTimestamp` is empty"
    else:
        expected, detail = "Terminating", "may only be 'Terminating' if `deletionTimestamp` is not empty"
    if phase != expected:
        errors.invalid("status.Phase", phase, detail)


def validate_node(errors: ErrorList, obj: Json) -> None:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if taints := spec.get("taints"):
        validate_taints(errors, taints, "metadata.taints")
    for field in ("capacity", "allocatable"):
        for name, value in (status.get(field) or {}).items():
            validate_quantity(errors, name, value, f"status.{field}.{name}")
    blocks = spec.get("podCIDRs") or []
    for index, block in enumerate(blocks):
        errors.check_cidr(block, f"spec.podCIDRs[{index}]")
    versions = [network.version for network in map(parse_cidr, blocks) if network is not None]
    if len(blocks) > 1 and len(versions) < len(blocks):
        index = next(index for index, block in enumerate(blocks) if parse_cidr(block) is None)
        problem = f"invalid CIDR[{index}]: <nil> (invalid CIDR address: {blocks[index]})"
        detail = f"invalid PodCIDRs. failed to check with dual stack with error:{problem}"
        errors.append(FieldError("InternalError", "spec.podCIDRs", None, detail))
    if len(blocks) > 1 and (len(set(versions)) < 2 or len(blocks) > 2):
        errors.invalid("spec.podCIDRs", blocks, "may specify no more than one CIDR for each IP family")


def validate_node_update(errors: ErrorList, new: Json, old: Json) -> None:
    now, before = new.get("spec") or {}, old.get("spec") or {}
    seen: set[str] = set()
    for address, path in list_items(new.get("status") or {}, "status", "addresses"):
        errors.check_unique(seen, format_go_struct(address, "type", "address"), path)
    for field, name in (("podCIDRs", "podCIDR"), ("providerID", "providerID")):
        if before.get(field) and before[field] != now.get(field):
            errors.forbidden(f"spec.{field}", f'node updates may not change {name} except from "" to valid')


def validate_lease(errors: ErrorList, obj: Json) -> None:
    spec: Json = obj.get("spec") or {}
    seconds, strategy = spec.get("leaseDurationSeconds"), spec.get("strategy")
    if seconds is not None and seconds <= 0:
        errors.invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    errors.check_not_negative(spec, "spec", "leaseTransitions")
    if strategy is not None:
        if "/" in strategy:
            errors.check_qualified_name(strategy, "spec.strategy.strategy")
        elif strategy != "OldestEmulationVersion":
            errors.not_supported("spec.strategy.strategy", strategy, ("OldestEmulationVersion",))
    if spec.get("preferredHolder") and not strategy:
        errors.forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined")


def validate_event(errors: ErrorList, obj: Json) -> None:
    """Validate an event, in the core group or events.k8s.io."""
    namespace = (obj.get("metadata") or {}).get("namespace") or ""
    about = obj.get("involvedObject") or obj.get("regarding") or {}
    theirs = about.get("namespace") or ""
    if not obj.get("eventTime"):
        if theirs != namespace and (theirs or namespace not in ("", "default")):
            errors.invalid("involvedObject.namespace", theirs, _OTHER_NAMESPACE)
        return
    if not theirs and namespace not in ("default", "kube-system"):
        errors.invalid("involvedObject.namespace", theirs, _OTHER_NAMESPACE)
    reporter = "reportingController" if "reportingController" in obj else "reportingComponent"
    for field in (reporter, "reportingInstance", "action", "reason"):
        value = obj.get(field) or ""
        errors.check_required(obj, "", field)
        if field == reporter:
            errors.check_qualified_name(value, field)
        _validate_length(errors, value, field)
    _validate_length(errors, obj.get("message") or obj.get("note") or "", "message")


def validate_events_v1(errors: ErrorList, obj: Json) -> None:
    """Validate an events.k8s.io/v1 event: eventTime and a known type are required, deprecated fields must be unset."""
    validate_event(errors, obj)
    errors.check_required(obj, "", "eventTime")
    if obj.get("type") not in ("Normal", "Warning"):
        errors.invalid("type", "", f"has invalid value: {obj.get('type') or ''}")
    if (series := obj.get("series")) is not None:
        if (series.get("count") or 0) < 2:
            errors.invalid("series.count", "", "should be at least 2")
        errors.check_required(series, "series", "lastObservedTime")
    for field in ("FirstTimestamp", "LastTimestamp", "Count"):
        if obj.get(f"deprecated{field}"):
            errors.invalid(field[0].lower() + field[1:], "", "needs to be unset")
    if any((obj.get("deprecatedSource") or {}).values()):
        errors.invalid("source", "", "needs to be unset")


def validate_events_v1_update(errors: ErrorList, new: Json, old: Json) -> None:
    errors.check_immutable(new.get("regarding"), old.get("regarding"), "involvedObject")
    errors.check_unchanged(new, old, "", "reason")
    errors.check_immutable(new.get("note"), old.get("note"), "message")
    errors.check_unchanged(new, old, "", *_IMMUTABLE_EVENT_FIELDS)


def _validate_length(errors: ErrorList, value: str, field: str) -> None:
    limit = _MAX_EVENT_BYTES.get(field)
    if limit is not None and len(value.encode()) > limit:
        errors.invalid(field, "", f"can have at most {limit} characters")


def validate_config_map(errors: ErrorList, obj: Json) -> None:
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    size = 0
    for key, value in data.items():
        errors.check_name(key, f"data[{key}]", names.config_key_errors)
        if key in binary:
            errors.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
        size += len(value) if value.isascii() else len(value.encode())
    for key, value in binary.items():
        errors.check_name(key, f"binaryData[{key}]", names.config_key_errors)
        size += _decoded_size(value)
    if size > _MAX_DATA_BYTES:
        errors.too_long("[]", _MAX_DATA_BYTES)


def validate_secret(errors: ErrorList, obj: Json) -> None:
    data = obj.get("data") or {}
    size = 0
    for key, value in data.items():
        errors.check_name(key, f"data[{key}]", names.config_key_errors)
        size += _decoded_size(value)
    if size > _MAX_DATA_BYTES:
        errors.too_long("data", _MAX_DATA_BYTES)
    _validate_secret_type(errors, obj, data)


def validate_config_map_update(errors: ErrorList, new: Json, old: Json) -> None:
    _validate_immutable_data(errors, new, old, "data", "binaryData")


def validate_secret_update(errors: ErrorList, new: Json, old: Json) -> None:
    errors.check_unchanged(new, old, "", "type")
    _validate_immutable_data(errors, new, old, "data")


def _validate_immutable_data(errors: ErrorList, new: Json, old: Json, *fields: str) -> None:
    if not old.get("immutable"):
        return
    for field in ("immutable", *fields):
        if (new.get(field) or {}) != (old.get(field) or {}):
            errors.forbidden(field, "field is immutable when `immutable` is set")


def _validate_secret_type(errors: ErrorList, obj: Json, data: dict[str, str]) -> None:
    kind = obj.get("type") or ""
    if kind == "kubernetes.io/service-account-token":
        if not ((obj.get("metadata") or {}).get("annotations") or {}).get(_SERVICE_ACCOUNT):
            errors.required(f"metadata.annotations[{_SERVICE_ACCOUNT}]")
    elif kind in _JSON_KEYS:
        _validate_json_key(errors, data, _JSON_KEYS[kind])
    elif kind == "kubernetes.io/basic-auth":
        if "username" not in data and "password" not in data:
            errors.required("data[username]")
            errors.required("data[password]")
    elif kind == "kubernetes.io/ssh-auth":
        if not data.get("ssh-privatekey"):
            errors.required("data[ssh-privatekey]")
    elif kind == "kubernetes.io/tls":
        for key in ("tls.crt", "tls.key"):
            if key not in data:
                errors.required(f"data[{key}]")


def _validate_json_key(errors: ErrorList, data: dict[str, str], key: str) -> None:
    if key not in data:
        errors.required(f"data[{key}]")
        return
    problem = ""
    try:
        value, _ = read_json(base64.b64decode(data[key]))
        if value is not None and not isinstance(value, dict):
            problem = f"json: cannot unmarshal {json_kind(value)} into Go value of type map[string]interface {{}}"
    except DecodeError as error:
        problem = str(error)
    if problem:
        errors.invalid(f"data[{key}]", "<secret contents redacted>", problem)


def _decoded_size(text: str) -> int:
    return len(text) * 3 // 4 - text[-2:].count("=")
