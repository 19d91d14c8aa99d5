"""Rows of nodes, namespaces, events, settings, access and quotas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.twin.api.cells.shared import NONE, UNKNOWN, Obj, age, condition, kind, name, since, spec, status

if TYPE_CHECKING:
    from datetime import datetime

_ROLE_PREFIX, _ROLE = "node-role.kubernetes.io/", "kubernetes.io/role"


def node_row(obj: Obj, now: datetime) -> list[Any]:
    info = status(obj).get("nodeInfo") or {}
    ready = condition(obj, "Ready")
    shown = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    if spec(obj).get("unschedulable"):
        shown += ",SchedulingDisabled"
    return [
        name(obj),
        shown,
        ",".join(_roles(obj)) or NONE,
        age(obj, now),
        info.get("kubeletVersion", ""),
        _address(obj, "InternalIP"),
        _address(obj, "ExternalIP"),
        *(info.get(field) or UNKNOWN for field in ("osImage", "kernelVersion", "containerRuntimeVersion")),
    ]


def _roles(obj: Obj) -> list[str]:
    roles = set()
    for key, value in (obj["metadata"].get("labels") or {}).items():
        if key.startswith(_ROLE_PREFIX):
            roles.add(key.removeprefix(_ROLE_PREFIX))
        elif key == _ROLE:
            roles.add(value)
    return sorted(roles - {""})


def _address(obj: Obj, wanted: str) -> str:
    found = (one.get("address", "") for one in status(obj).get("addresses") or () if one.get("type") == wanted)
    return next(found, NONE)


def namespace_row(obj: Obj, now: datetime) -> list[Any]:
    return [name(obj), status(obj).get("phase", ""), age(obj, now)]


def event_row(obj: Obj, now: datetime) -> list[Any]:
    """An event of either group: `events.k8s.io` has other names for the same things."""
    about = obj.get("involvedObject") or obj.get("regarding") or {}
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    first = since(obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or obj.get("eventTime"), now)
    last = obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp")
    series = obj.get("series")
    count = (series.get("count") if series else obj.get("count") or obj.get("deprecatedCount")) or (0 if series else 1)
    seen = series.get("lastObservedTime") if series else last
    component = source.get("component") or obj.get("reportingComponent") or obj.get("reportingController") or ""
    host = source.get("host") or obj.get("reportingInstance") or ""
    target = about.get("kind", "").lower()
    return [
        since(seen, now) if seen or series else first,
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{target}/{about['name']}" if about.get("name") else target,
        about.get("fieldPath", ""),
        f"{component}, {host}" if host else component,
        (obj.get("message") or obj.get("note") or "").strip(),
        first,
        count,
        name(obj),
    ]


def secret_row(obj: Obj, now: datetime) -> list[Any]:
    return [name(obj), obj.get("type", ""), len(obj.get("data") or ()), age(obj, now)]


def config_map_row(obj: Obj, now: datetime) -> list[Any]:
    return [name(obj), len(obj.get("data") or ()) + len(obj.get("binaryData") or ()), age(obj, now)]


def service_account_row(obj: Obj, now: datetime) -> list[Any]:
    return [name(obj), age(obj, now)]


def quota_row(obj: Obj, now: datetime) -> list[Any]:
    hard, used = status(obj).get("hard") or {}, status(obj).get("used") or {}
    texts = {key: f"{key}: {quantity.canonical(used.get(key, 0))}/{quantity.canonical(hard[key])}" for key in sorted(hard)}
    limits = [text for key, text in texts.items() if key.startswith("limits.")]
    requests = [text for key, text in texts.items() if not key.startswith("limits.")]
    return [name(obj), ", ".join(requests), ", ".join(limits), age(obj, now)]


def binding_row(obj: Obj, now: datetime) -> list[Any]:
    role = obj.get("roleRef") or {}
    subjects = obj.get("subjects") or []
    users, groups = (", ".join(one.get("name", "") for one in subjects if one.get("kind") == kind) for kind in ("User", "Group"))
    accounts = ", ".join(
        f"{one.get('namespace', '')}/{one.get('name', '')}" for one in subjects if one.get("kind") == "ServiceAccount"
    )
    return [name(obj), f"{role.get('kind', '')}/{role.get('name', '')}", age(obj, now), users, groups, accounts]


def lease_row(obj: Obj, now: datetime) -> list[Any]:
    return [name(obj), spec(obj).get("holderIdentity") or "", age(obj, now)]


def priority_class_row(obj: Obj, now: datetime) -> list[Any]:
    return [name(obj), obj.get("value", 0), bool(obj.get("globalDefault")), age(obj, now), obj.get("preemptionPolicy", "")]


def created_row(obj: Obj, now: datetime) -> list[Any]:
    """A kind without columns of its own shows when it was made."""
    return [name(obj), obj["metadata"].get("creationTimestamp")]


CREATED = kind("Name:name | Created At:date", created_row)
_EVENT = kind(
    "Last Seen | Type | Reason | Object | Subobject:wide | Source:wide | Message | First Seen:wide | Count:wide | Name:name:wide",
    event_row,
)
_BINDING = kind("Name:name | Role | Age | Users:wide | Groups:wide | ServiceAccounts:wide", binding_row)
KINDS = {
    "/nodes": kind(
        "Name:name | Status | Roles | Age | Version | Internal-IP:wide | External-IP:wide | OS-Image:wide | Kernel-Version:wide"
        " | Container-Runtime:wide",
        node_row,
    ),
    "/namespaces": kind("Name:name | Status | Age", namespace_row),
    "/events": _EVENT,
    "events.k8s.io/events": _EVENT,
    "/secrets": kind("Name:name | Type | Data | Age", secret_row),
    "/configmaps": kind("Name:name | Data | Age", config_map_row),
    "/serviceaccounts": kind("Name:name | Age", service_account_row),
    "/resourcequotas": kind("Name:name | Request | Limit | Age", quota_row),
    "rbac.authorization.k8s.io/rolebindings": _BINDING,
    "rbac.authorization.k8s.io/clusterrolebindings": _BINDING,
    "coordination.k8s.io/leases": kind("Name:name | Holder | Age", lease_row),
    "scheduling.k8s.io/priorityclasses": kind(
        "Name:name | Value:integer | Global-Default:boolean | Age | PreemptionPolicy", priority_class_row
    ),
}
