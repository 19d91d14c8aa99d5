"""Namespaces, nodes, ConfigMaps, Secrets, events and leases."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import names
from sliceworks.schemas.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required, too_long
from sliceworks.twin.apiserver.validation import field_checks
from sliceworks.twin.apiserver.validation.affinity import taint_errors
from sliceworks.twin.apiserver.validation.field_checks import (
    NEGATIVE,
    Errors,
    check_cidr,
    check_immutable,
    check_name,
    check_qualified_name,
    format_go_struct,
    parse_cidr,
)
from sliceworks.twin.apiserver.validation.object_meta import finalizer_errors
from sliceworks.twin.apiserver.validation.resource_requirements import check_quantity

if TYPE_CHECKING:
    from sliceworks.twin.apiserver.validation.defaults import Json

_FIXED_CIDR = 'node updates may not change podCIDR except from "" to valid'
_FIXED_PROVIDER = 'node updates may not change providerID except from "" to valid'
_OTHER_NAMESPACE = "does not match event.namespace"
_LONGEST = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}


def namespace_errors(obj: Json) -> Errors:
    errors: Errors = []
    for name in (obj.get("spec") or {}).get("finalizers") or ():
        finalizer_errors(errors, name, "spec.finalizers")
    return errors


def namespace_status_errors(new: Json, _old: Json) -> Errors:
    phase = (new.get("status") or {}).get("phase") or ""
    if not (new.get("metadata") or {}).get("deletionTimestamp"):
        expected, detail = "Active", "may only be 'Active' if `deletionTimestamp` is empty"
    else:
        expected, detail = "Terminating", "may only be 'Terminating' if `deletionTimestamp` is not empty"
    return [] if phase == expected else [invalid("status.Phase", phase, detail)]


def node_errors(obj: Json) -> Errors:
    errors: Errors = []
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if taints := spec.get("taints"):
        taint_errors(errors, taints, "metadata.taints")
    for field in ("capacity", "allocatable"):
        for name, value in (status.get(field) or {}).items():
            check_quantity(errors, name, value, f"status.{field}.{name}")
    blocks = spec.get("podCIDRs") or []
    for index, block in enumerate(blocks):
        check_cidr(errors, block, f"spec.podCIDRs[{index}]")
    versions = [network.version for network in map(parse_cidr, blocks) if network is not None]
    if len(blocks) > 1 and len(versions) < len(blocks):
        index = next(index for index, block in enumerate(blocks) if parse_cidr(block) is None)
        detail = f"invalid CIDR[{index}]: <nil> (invalid CIDR address: {blocks[index]})"
        errors.append(
            FieldError(
                "InternalError", "spec.podCIDRs", None, f"invalid PodCIDRs. failed to check with dual stack with error:{detail}"
            )
        )
    if len(blocks) > 1 and (len(set(versions)) < 2 or len(blocks) > 2):
        errors.append(invalid("spec.podCIDRs", blocks, "may specify no more than one CIDR for each IP family"))
    return errors


def node_update_errors(new: Json, old: Json) -> Errors:
    errors: Errors = []
    now, before = new.get("spec") or {}, old.get("spec") or {}
    seen: list[Json] = []
    for index, address in enumerate((new.get("status") or {}).get("addresses") or ()):
        if address in seen:
            errors.append(duplicate(f"status.addresses[{index}]", format_go_struct(address, "type", "address")))
        seen.append(address)
    if before.get("podCIDRs") and before["podCIDRs"] != (now.get("podCIDRs") or []):
        errors.append(forbidden("spec.podCIDRs", _FIXED_CIDR))
    if before.get("providerID") and before["providerID"] != now.get("providerID"):
        errors.append(forbidden("spec.providerID", _FIXED_PROVIDER))
    return errors


def lease_errors(obj: Json) -> Errors:
    errors: Errors = []
    spec: Json = obj.get("spec") or {}
    seconds, transitions, strategy = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions"), spec.get("strategy")
    if seconds is not None and seconds <= 0:
        errors.append(invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        errors.append(invalid("spec.leaseTransitions", transitions, NEGATIVE))
    if strategy is not None:
        if "/" in strategy:
            check_name(errors, strategy, "spec.strategy.strategy", field_checks.qualified_name_errors)
        elif strategy != "OldestEmulationVersion":
            errors.append(not_supported("spec.strategy.strategy", strategy, ("OldestEmulationVersion",)))
    if spec.get("preferredHolder") and not strategy:
        errors.append(forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined"))
    return errors


def event_errors(obj: Json) -> Errors:
    """Errors of an event, in the core group or events.k8s.io."""
    errors: Errors = []
    namespace = (obj.get("metadata") or {}).get("namespace") or ""
    about = obj.get("involvedObject") or obj.get("regarding") or {}
    theirs = about.get("namespace") or ""
    if not obj.get("eventTime"):
        if theirs != namespace and (theirs or namespace not in ("", "default")):
            errors.append(invalid("involvedObject.namespace", theirs, _OTHER_NAMESPACE))
        return errors
    if not theirs and namespace not in ("default", "kube-system"):
        errors.append(invalid("involvedObject.namespace", theirs, _OTHER_NAMESPACE))
    reporter = "reportingController" if "reportingController" in obj else "reportingComponent"
    for field in (reporter, "reportingInstance", "action", "reason"):
        value = obj.get(field) or ""
        if not value:
            errors.append(required(field))
        if field == reporter:
            check_qualified_name(errors, value, field)
        _length(errors, value, field)
    _length(errors, obj.get("message") or obj.get("note") or "", "message")
    return errors


def new_event_errors(obj: Json) -> Errors:
    """Errors of an events.k8s.io/v1 event: eventTime and a known type are required, deprecated fields must be unset."""
    errors = event_errors(obj)
    if not obj.get("eventTime"):
        errors.append(required("eventTime"))
    if obj.get("type") not in ("Normal", "Warning"):
        errors.append(invalid("type", "", f"has invalid value: {obj.get('type') or ''}"))
    if (series := obj.get("series")) is not None:
        if (series.get("count") or 0) < 2:
            errors.append(invalid("series.count", "", "should be at least 2"))
        if not series.get("lastObservedTime"):
            errors.append(required("series.lastObservedTime"))
    for field, old in (
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
    ):
        if obj.get(field):
            errors.append(invalid(old, "", "needs to be unset"))
    if any((obj.get("deprecatedSource") or {}).values()):
        errors.append(invalid("source", "", "needs to be unset"))
    return errors


def new_event_update_errors(new: Json, old: Json) -> Errors:
    errors: Errors = []
    for field, shown in (
        ("regarding", "involvedObject"),
        ("reason", "reason"),
        ("note", "message"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingController", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ):
        check_immutable(errors, new.get(field), old.get(field), shown)
    return errors


def _length(errors: Errors, value: str, field: str) -> None:
    limit = _LONGEST.get(field)
    if limit is not None and len(value.encode()) > limit:
        errors.append(invalid(field, "", f"can have at most {limit} characters"))


_MOST_BYTES = 1024 * 1024
_SERVICE_ACCOUNT = "kubernetes.io/service-account.name"
_LOCKED = "field is immutable when `immutable` is set"
_JSON_KEYS = {"kubernetes.io/dockercfg": ".dockercfg", "kubernetes.io/dockerconfigjson": ".dockerconfigjson"}


def config_map_errors(obj: Json) -> Errors:
    errors: Errors = []
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    size = 0
    for key, value in data.items():
        check_name(errors, key, f"data[{key}]", names.config_key_errors)
        if key in binary:
            errors.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
        size += len(value) if value.isascii() else len(value.encode())
    for key, value in binary.items():
        check_name(errors, key, f"binaryData[{key}]", names.config_key_errors)
        size += _decoded_size(value)
    if size > _MOST_BYTES:
        errors.append(too_long("[]", _MOST_BYTES))
    return errors


def secret_errors(obj: Json) -> Errors:
    errors: Errors = []
    data = obj.get("data") or {}
    size = 0
    for key, value in data.items():
        check_name(errors, key, f"data[{key}]", names.config_key_errors)
        size += _decoded_size(value)
    if size > _MOST_BYTES:
        errors.append(too_long("data", _MOST_BYTES))
    _needed(errors, obj, data)
    return errors


def config_map_update_errors(new: Json, old: Json) -> Errors:
    return _locked(new, old, "data", "binaryData")


def secret_update_errors(new: Json, old: Json) -> Errors:
    errors: Errors = []
    check_immutable(errors, new.get("type"), old.get("type"), "type")
    return errors + _locked(new, old, "data")


def _locked(new: Json, old: Json, *fields: str) -> Errors:
    errors: Errors = []
    if old.get("immutable"):
        if not new.get("immutable"):
            errors.append(forbidden("immutable", _LOCKED))
        errors += [forbidden(field, _LOCKED) for field in fields if (new.get(field) or {}) != (old.get(field) or {})]
    return errors


def _needed(errors: Errors, obj: Json, data: dict[str, str]) -> None:
    kind = obj.get("type") or ""
    if kind == "kubernetes.io/service-account-token":
        if not ((obj.get("metadata") or {}).get("annotations") or {}).get(_SERVICE_ACCOUNT):
            errors.append(required(f"metadata.annotations[{_SERVICE_ACCOUNT}]"))
    elif kind in _JSON_KEYS:
        _json_key(errors, data, _JSON_KEYS[kind])
    elif kind == "kubernetes.io/basic-auth":
        if "username" not in data and "password" not in data:
            errors += [required("data[username]"), required("data[password]")]
    elif kind == "kubernetes.io/ssh-auth":
        if not data.get("ssh-privatekey"):
            errors.append(required("data[ssh-privatekey]"))
    elif kind == "kubernetes.io/tls":
        errors += [required(f"data[{key}]") for key in ("tls.crt", "tls.key") if key not in data]


def _json_key(errors: Errors, data: dict[str, str], key: str) -> None:
    if key not in data:
        errors.append(required(f"data[{key}]"))
        return
    problem = _not_an_object(_decoded(data[key]))
    if problem:
        errors.append(invalid(f"data[{key}]", "<secret contents redacted>", problem))


def _not_an_object(data: bytes) -> str:
    """Go's message for a value that is not a JSON object, or an empty string."""
    if not data.strip():
        return "unexpected end of JSON input"
    try:
        value: Any = orjson.loads(data)
    except orjson.JSONDecodeError:
        return _broken(data.strip().decode("utf-8", "replace"))
    if value is None or isinstance(value, dict):
        return ""
    kind = {bool: "bool", str: "string", list: "array"}.get(type(value), "number")
    return f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"


def _broken(data: str) -> str:
    """Go's syntax error for invalid JSON. Only an error in the first token gets Go's exact message."""
    if data[0] in '{["-0123456789':
        return "unexpected end of JSON input"
    for word in ("null", "true", "false"):
        if data[0] == word[0]:
            for character, expected in zip(data, word, strict=False):
                if character != expected:
                    return f"invalid character '{character}' in literal {word} (expecting '{expected}')"
    return f"invalid character '{data[0]}' looking for beginning of value"


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except binascii.Error:
        return b""


def _decoded_size(text: str) -> int:
    return len(text) * 3 // 4 - text[-2:].count("=")
