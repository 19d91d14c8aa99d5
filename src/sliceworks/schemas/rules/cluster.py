"""Namespaces, nodes, leases and events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.schemas.field_errors import FieldError, duplicate, forbidden, invalid, not_supported, required
from sliceworks.schemas.rules import name_rules
from sliceworks.schemas.rules.metadata import finalizer_errors
from sliceworks.schemas.rules.placement import taint_errors
from sliceworks.schemas.rules.resources import amount
from sliceworks.schemas.rules.texts import NEGATIVE, Errors, go_struct, immutable, named, network, parse_network, qualified

if TYPE_CHECKING:
    from sliceworks.schemas.rules.shape import Json

_FIXED_CIDR = 'node updates may not change podCIDR except from "" to valid'
_FIXED_PROVIDER = 'node updates may not change providerID except from "" to valid'
_OTHER_NAMESPACE = "does not match event.namespace"
_LONGEST = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}


def namespace_errors(obj: Json) -> Errors:
    out: Errors = []
    for name in (obj.get("spec") or {}).get("finalizers") or ():
        finalizer_errors(out, name, "spec.finalizers")
    return out


def namespace_status_errors(new: Json, _old: Json) -> Errors:
    phase = (new.get("status") or {}).get("phase") or ""
    if not (new.get("metadata") or {}).get("deletionTimestamp"):
        wanted, words = "Active", "may only be 'Active' if `deletionTimestamp` is empty"
    else:
        wanted, words = "Terminating", "may only be 'Terminating' if `deletionTimestamp` is not empty"
    return [] if phase == wanted else [invalid("status.Phase", phase, words)]


def node_errors(obj: Json) -> Errors:
    out: Errors = []
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if taints := spec.get("taints"):
        taint_errors(out, taints, "metadata.taints")
    for field in ("capacity", "allocatable"):
        for name, value in (status.get(field) or {}).items():
            amount(out, name, value, f"status.{field}.{name}")
    blocks = spec.get("podCIDRs") or []
    for index, block in enumerate(blocks):
        network(out, block, f"spec.podCIDRs[{index}]")
    versions = [found.version for found in map(parse_network, blocks) if found is not None]
    if len(blocks) > 1 and len(versions) < len(blocks):
        index = next(index for index, block in enumerate(blocks) if parse_network(block) is None)
        detail = f"invalid CIDR[{index}]: <nil> (invalid CIDR address: {blocks[index]})"
        out.append(
            FieldError(
                "InternalError", "spec.podCIDRs", None, f"invalid PodCIDRs. failed to check with dual stack with error:{detail}"
            )
        )
    if len(blocks) > 1 and (len(set(versions)) < 2 or len(blocks) > 2):
        out.append(invalid("spec.podCIDRs", blocks, "may specify no more than one CIDR for each IP family"))
    return out


def node_update_errors(new: Json, old: Json) -> Errors:
    out: Errors = []
    now, before = new.get("spec") or {}, old.get("spec") or {}
    seen: list[Json] = []
    for index, found in enumerate((new.get("status") or {}).get("addresses") or ()):
        if found in seen:
            out.append(duplicate(f"status.addresses[{index}]", go_struct(found, "type", "address")))
        seen.append(found)
    if before.get("podCIDRs") and before["podCIDRs"] != (now.get("podCIDRs") or []):
        out.append(forbidden("spec.podCIDRs", _FIXED_CIDR))
    if before.get("providerID") and before["providerID"] != now.get("providerID"):
        out.append(forbidden("spec.providerID", _FIXED_PROVIDER))
    return out


def lease_errors(obj: Json) -> Errors:
    out: Errors = []
    spec: Json = obj.get("spec") or {}
    seconds, transitions, strategy = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions"), spec.get("strategy")
    if seconds is not None and seconds <= 0:
        out.append(invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
    if transitions is not None and transitions < 0:
        out.append(invalid("spec.leaseTransitions", transitions, NEGATIVE))
    if strategy is not None:
        if "/" in strategy:
            named(out, strategy, "spec.strategy.strategy", name_rules.qualified_name_errors)
        elif strategy != "OldestEmulationVersion":
            out.append(not_supported("spec.strategy.strategy", strategy, ("OldestEmulationVersion",)))
    if spec.get("preferredHolder") and not strategy:
        out.append(forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined"))
    return out


def event_errors(obj: Json) -> Errors:
    """Events of the core group, and what both groups ask of a new-style event."""
    out: Errors = []
    namespace = (obj.get("metadata") or {}).get("namespace") or ""
    about = obj.get("involvedObject") or obj.get("regarding") or {}
    theirs = about.get("namespace") or ""
    if not obj.get("eventTime"):
        if theirs != namespace and (theirs or namespace not in ("", "default")):
            out.append(invalid("involvedObject.namespace", theirs, _OTHER_NAMESPACE))
        return out
    if not theirs and namespace not in ("default", "kube-system"):
        out.append(invalid("involvedObject.namespace", theirs, _OTHER_NAMESPACE))
    reporter = "reportingController" if "reportingController" in obj else "reportingComponent"
    for field in (reporter, "reportingInstance", "action", "reason"):
        value = obj.get(field) or ""
        if not value:
            out.append(required(field))
        if field == reporter:
            qualified(out, value, field)
        _length(out, value, field)
    _length(out, obj.get("message") or obj.get("note") or "", "message")
    return out


def new_event_errors(obj: Json) -> Errors:
    """events.k8s.io/v1 asks more: a time, a known type, none of the old fields."""
    out = event_errors(obj)
    if not obj.get("eventTime"):
        out.append(required("eventTime"))
    if obj.get("type") not in ("Normal", "Warning"):
        out.append(invalid("type", "", f"has invalid value: {obj.get('type') or ''}"))
    if (series := obj.get("series")) is not None:
        if (series.get("count") or 0) < 2:
            out.append(invalid("series.count", "", "should be at least 2"))
        if not series.get("lastObservedTime"):
            out.append(required("series.lastObservedTime"))
    for field, old in (
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
        ("deprecatedCount", "count"),
    ):
        if obj.get(field):
            out.append(invalid(old, "", "needs to be unset"))
    if any((obj.get("deprecatedSource") or {}).values()):
        out.append(invalid("source", "", "needs to be unset"))
    return out


def new_event_update_errors(new: Json, old: Json) -> Errors:
    out: Errors = []
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
        immutable(out, new.get(field), old.get(field), shown)
    return out


def _length(out: Errors, value: str, field: str) -> None:
    limit = _LONGEST.get(field)
    if limit is not None and len(value.encode()) > limit:
        out.append(invalid(field, "", f"can have at most {limit} characters"))
