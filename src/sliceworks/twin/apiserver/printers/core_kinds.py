"""Rows of nodes, namespaces, events, configuration, RBAC and quotas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import duration, quantity
from sliceworks.twin.apiserver.printers.cells import (
    NONE,
    UNKNOWN,
    UNSET,
    Obj,
    age,
    age_since,
    condition_status,
    format_go_selector,
    name_of,
    printer,
    spec_of,
    status_of,
)

if TYPE_CHECKING:
    from datetime import datetime

_ROLE_PREFIX, _ROLE = "node-role.kubernetes.io/", "kubernetes.io/role"


def node_row(obj: Obj, now: datetime) -> list[Any]:
    info = status_of(obj).get("nodeInfo") or {}
    ready = condition_status(obj, "Ready")
    state = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    if spec_of(obj).get("unschedulable"):
        state += ",SchedulingDisabled"
    return [
        name_of(obj),
        state,
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


def _address(obj: Obj, kind: str) -> str:
    addresses = status_of(obj).get("addresses") or ()
    return next((address.get("address", "") for address in addresses if address.get("type") == kind), NONE)


def namespace_row(obj: Obj, now: datetime) -> list[Any]:
    return [name_of(obj), status_of(obj).get("phase", ""), age(obj, now)]


def event_row(obj: Obj, now: datetime) -> list[Any]:
    """An event of either group: `events.k8s.io` has other names for the same fields."""
    about = obj.get("involvedObject") or obj.get("regarding") or {}
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    first = age_since(obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or obj.get("eventTime"), now)
    last = obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp")
    series = obj.get("series")
    count = (series.get("count") if series else obj.get("count") or obj.get("deprecatedCount")) or (0 if series else 1)
    seen = series.get("lastObservedTime") if series else last
    component = source.get("component") or obj.get("reportingComponent") or obj.get("reportingController") or ""
    host = source.get("host") or obj.get("reportingInstance") or ""
    target = about.get("kind", "").lower()
    return [
        age_since(seen, now) if seen or series else first,
        obj.get("type", ""),
        obj.get("reason", ""),
        f"{target}/{about['name']}" if about.get("name") else target,
        about.get("fieldPath", ""),
        f"{component}, {host}" if host else component,
        (obj.get("message") or obj.get("note") or "").strip(),
        first,
        count,
        name_of(obj),
    ]


def secret_row(obj: Obj, now: datetime) -> list[Any]:
    return [name_of(obj), obj.get("type", ""), len(obj.get("data") or ()), age(obj, now)]


def config_map_row(obj: Obj, now: datetime) -> list[Any]:
    return [name_of(obj), len(obj.get("data") or ()) + len(obj.get("binaryData") or ()), age(obj, now)]


def service_account_row(obj: Obj, now: datetime) -> list[Any]:
    return [name_of(obj), age(obj, now)]


def quota_row(obj: Obj, now: datetime) -> list[Any]:
    hard, used = status_of(obj).get("hard") or {}, status_of(obj).get("used") or {}
    cells = {key: f"{key}: {quantity.canonical(used.get(key, 0))}/{quantity.canonical(hard[key])}" for key in sorted(hard)}
    limits = [cell for key, cell in cells.items() if key.startswith("limits.")]
    requests = [cell for key, cell in cells.items() if not key.startswith("limits.")]
    return [name_of(obj), ", ".join(requests), ", ".join(limits), age(obj, now)]


def binding_row(obj: Obj, now: datetime) -> list[Any]:
    role = obj.get("roleRef") or {}
    subjects = obj.get("subjects") or []
    users, groups = (", ".join(s.get("name", "") for s in subjects if s.get("kind") == kind) for kind in ("User", "Group"))
    accounts = [s for s in subjects if s.get("kind") == "ServiceAccount"]
    account_names = ", ".join(f"{account.get('namespace', '')}/{account.get('name', '')}" for account in accounts)
    return [name_of(obj), f"{role.get('kind', '')}/{role.get('name', '')}", age(obj, now), users, groups, account_names]


def lease_row(obj: Obj, now: datetime) -> list[Any]:
    return [name_of(obj), spec_of(obj).get("holderIdentity") or "", age(obj, now)]


def priority_class_row(obj: Obj, now: datetime) -> list[Any]:
    return [name_of(obj), obj.get("value", 0), bool(obj.get("globalDefault")), age(obj, now), obj.get("preemptionPolicy", "")]


def created_row(obj: Obj, now: datetime) -> list[Any]:
    """The row of a kind without columns of its own."""
    return [name_of(obj), obj["metadata"].get("creationTimestamp")]


def webhook_configuration_row(obj: Obj, now: datetime) -> list[Any]:
    return [name_of(obj), len(obj.get("webhooks") or ()), age(obj, now)]


def policy_row(obj: Obj, now: datetime) -> list[Any]:
    kind = spec_of(obj).get("paramKind")
    shown = f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else UNSET
    return [name_of(obj), len(spec_of(obj).get("validations") or ()), shown, age(obj, now)]


def policy_binding_row(obj: Obj, now: datetime) -> list[Any]:
    reference = spec_of(obj).get("paramRef") or {}
    params = UNSET
    if reference.get("name"):
        params = f"{reference.get('namespace') or '*'}/{reference['name']}"
    elif reference.get("selector") is not None:
        params = format_go_selector(reference["selector"])
    return [name_of(obj), spec_of(obj).get("policyName", ""), params, age(obj, now)]


def runtime_class_row(obj: Obj, now: datetime) -> list[Any]:
    return [name_of(obj), obj.get("handler", ""), age(obj, now)]


def flow_schema_row(obj: Obj, now: datetime) -> list[Any]:
    spec = spec_of(obj)
    level, method = spec.get("priorityLevelConfiguration") or {}, spec.get("distinguisherMethod") or {}
    dangling = (item.get("status", "") for item in status_of(obj).get("conditions") or () if item.get("type") == "Dangling")
    return [
        name_of(obj),
        level.get("name", ""),
        spec.get("matchingPrecedence", 0),
        method.get("type") or NONE,
        age(obj, now),
        next(dangling, "?"),
    ]


def priority_level_row(obj: Obj, now: datetime) -> list[Any]:
    spec = spec_of(obj)
    level = spec.get("limited") or spec.get("exempt") or {}
    queuing = (level.get("limitResponse") or {}).get("queuing") or {}
    counts = [level.get("nominalConcurrencyShares"), *(queuing.get(field) for field in ("queues", "handSize", "queueLengthLimit"))]
    return [name_of(obj), spec.get("type", ""), *(NONE if count is None else count for count in counts), age(obj, now)]


def certificate_request_row(obj: Obj, now: datetime) -> list[Any]:
    spec, status = spec_of(obj), status_of(obj)
    seconds = spec.get("expirationSeconds")
    found = [item.get("type", "") for item in status.get("conditions") or ()]
    decided = [kind for kind in ("Denied", "Approved") if kind in found][:1] or ["Pending"]
    if "Failed" in found:
        decided.append("Failed")
    if status.get("certificate"):
        decided.append("Issued")
    return [
        name_of(obj),
        age(obj, now),
        spec.get("signerName", ""),
        spec.get("username", ""),
        NONE if seconds is None else duration.human(seconds),
        ",".join(decided),
    ]


DEFAULT = printer("Name:name | Created At:date", created_row)
NODE = printer(
    "Name:name | Status | Roles | Age | Version | Internal-IP:wide | External-IP:wide | OS-Image:wide | Kernel-Version:wide"
    " | Container-Runtime:wide",
    node_row,
)
NAMESPACE = printer("Name:name | Status | Age", namespace_row)
EVENT = printer(
    "Last Seen | Type | Reason | Object | Subobject:wide | Source:wide | Message | First Seen:wide | Count:wide | Name:name:wide",
    event_row,
)
SECRET = printer("Name:name | Type | Data | Age", secret_row)
CONFIG_MAP = printer("Name:name | Data | Age", config_map_row)
SERVICE_ACCOUNT = printer("Name:name | Age", service_account_row)
RESOURCE_QUOTA = printer("Name:name | Request | Limit | Age", quota_row)
ROLE_BINDING = printer("Name:name | Role | Age | Users:wide | Groups:wide | ServiceAccounts:wide", binding_row)
LEASE = printer("Name:name | Holder | Age", lease_row)
WEBHOOK_CONFIGURATION = printer("Name:name | Webhooks:integer | Age", webhook_configuration_row)
VALIDATING_POLICY = printer("Name:name | Validations:integer | ParamKind | Age", policy_row)
VALIDATING_POLICY_BINDING = printer("Name:name | PolicyName | ParamRef | Age", policy_binding_row)
PRIORITY_CLASS = printer("Name:name | Value:integer | Global-Default:boolean | Age | PreemptionPolicy", priority_class_row)
RUNTIME_CLASS = printer("Name:name | Handler | Age", runtime_class_row)
FLOW_SCHEMA = printer(
    "Name:name | PriorityLevel | MatchingPrecedence | DistinguisherMethod | Age | MissingPL",
    flow_schema_row,
)
PRIORITY_LEVEL_CONFIGURATION = printer(
    "Name:name | Type | NominalConcurrencyShares | Queues | HandSize | QueueLengthLimit | Age",
    priority_level_row,
)
CERTIFICATE_SIGNING_REQUEST = printer(
    "Name:name | Age | SignerName | Requestor | RequestedDuration | Condition",
    certificate_request_row,
)
