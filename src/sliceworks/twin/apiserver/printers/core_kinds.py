"""Rows of nodes, namespaces, events, configuration, RBAC and quotas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import duration, quantity
from sliceworks.base.conditions import find_condition
from sliceworks.twin.apiserver.printers.cells import (
    NONE,
    UNKNOWN,
    UNSET,
    Obj,
    age_since,
    condition_status,
    format_go_selector,
    printer,
    spec_of,
    status_of,
)

if TYPE_CHECKING:
    from datetime import datetime

_ROLE_PREFIX, _ROLE = "node-role.kubernetes.io/", "kubernetes.io/role"


def node_cells(obj: Obj, now: datetime) -> list[Any]:
    info = status_of(obj).get("nodeInfo") or {}
    ready = condition_status(obj, "Ready")
    state = "Unknown" if ready is None else "Ready" if ready == "True" else "NotReady"
    if spec_of(obj).get("unschedulable"):
        state += ",SchedulingDisabled"
    return [
        state,
        ",".join(_roles(obj)) or NONE,
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


def event_cells(obj: Obj, now: datetime) -> list[Any]:
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
        f"{target}/{about['name']}" if about.get("name") else target,
        about.get("fieldPath", ""),
        f"{component}, {host}" if host else component,
        (obj.get("message") or obj.get("note") or "").strip(),
        first,
        count,
    ]


def config_map_cells(obj: Obj, now: datetime) -> list[Any]:
    return [len(obj.get("data") or ()) + len(obj.get("binaryData") or ())]


def quota_cells(obj: Obj, now: datetime) -> list[Any]:
    hard, used = status_of(obj).get("hard") or {}, status_of(obj).get("used") or {}
    cells = {key: f"{key}: {quantity.canonical(used.get(key, 0))}/{quantity.canonical(hard[key])}" for key in sorted(hard)}
    limits = [cell for key, cell in cells.items() if key.startswith("limits.")]
    requests = [cell for key, cell in cells.items() if not key.startswith("limits.")]
    return [", ".join(requests), ", ".join(limits)]


def binding_cells(obj: Obj, now: datetime) -> list[Any]:
    role = obj.get("roleRef") or {}
    subjects = obj.get("subjects") or []
    users, groups = (", ".join(s.get("name", "") for s in subjects if s.get("kind") == kind) for kind in ("User", "Group"))
    accounts = [s for s in subjects if s.get("kind") == "ServiceAccount"]
    account_names = ", ".join(f"{account.get('namespace', '')}/{account.get('name', '')}" for account in accounts)
    return [f"{role.get('kind', '')}/{role.get('name', '')}", users, groups, account_names]


def api_service_cells(obj: Obj, now: datetime) -> list[Any]:
    service, available = spec_of(obj).get("service"), find_condition(obj, "Available")
    status, reason = available.get("status", "Unknown"), available.get("reason")
    return [
        f"{service.get('namespace', '')}/{service.get('name', '')}" if service else "Local",
        f"{status} ({reason})" if reason and status != "True" else status,
    ]


def policy_cells(obj: Obj, now: datetime) -> list[Any]:
    kind = spec_of(obj).get("paramKind")
    return [f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else UNSET]


def policy_binding_cells(obj: Obj, now: datetime) -> list[Any]:
    reference = spec_of(obj).get("paramRef") or {}
    params = UNSET
    if reference.get("name"):
        params = f"{reference.get('namespace') or '*'}/{reference['name']}"
    elif reference.get("selector") is not None:
        params = format_go_selector(reference["selector"])
    return [params]


def flow_schema_cells(obj: Obj, now: datetime) -> list[Any]:
    method = spec_of(obj).get("distinguisherMethod") or {}
    return [method.get("type") or NONE, condition_status(obj, "Dangling") or "?"]


def priority_level_cells(obj: Obj, now: datetime) -> list[Any]:
    spec = spec_of(obj)
    level = spec.get("limited") or spec.get("exempt") or {}
    queuing = (level.get("limitResponse") or {}).get("queuing") or {}
    counts = [level.get("nominalConcurrencyShares"), *(queuing.get(field) for field in ("queues", "handSize", "queueLengthLimit"))]
    return [NONE if count is None else count for count in counts]


def certificate_request_cells(obj: Obj, now: datetime) -> list[Any]:
    status, seconds = status_of(obj), spec_of(obj).get("expirationSeconds")
    types = [condition.get("type", "") for condition in status.get("conditions") or ()]
    states = [kind for kind in ("Denied", "Approved") if kind in types][:1] or ["Pending"]
    if "Failed" in types:
        states.append("Failed")
    if status.get("certificate"):
        states.append("Issued")
    return [NONE if seconds is None else duration.human(seconds), ",".join(states)]


def resource_claim_cells(obj: Obj, now: datetime) -> list[Any]:
    status, deleted = status_of(obj), bool(obj["metadata"].get("deletionTimestamp"))
    states = ["deleted"] if deleted else []
    if status.get("allocation") is None:
        states += [] if deleted else ["pending"]
    else:
        states += ["allocated", "reserved"] if status.get("reservedFor") else ["allocated"]
    return [",".join(states)]


DEFAULT = printer("Name:name | Created At:date=metadata.creationTimestamp")
NODE = printer(
    "Name:name | Status | Roles | Age | Version=status.nodeInfo.kubeletVersion | Internal-IP:wide | External-IP:wide"
    " | OS-Image:wide | Kernel-Version:wide | Container-Runtime:wide",
    node_cells,
)
NAMESPACE = printer("Name:name | Status=status.phase | Age")
EVENT = printer(
    "Last Seen | Type=type | Reason=reason | Object | Subobject:wide | Source:wide | Message | First Seen:wide | Count:wide"
    " | Name:name:wide",
    event_cells,
)
SECRET = printer("Name:name | Type=type | Data=len(data) | Age")
CONFIG_MAP = printer("Name:name | Data | Age", config_map_cells)
SERVICE_ACCOUNT = printer("Name:name | Age")
RESOURCE_QUOTA = printer("Name:name | Request | Limit | Age", quota_cells)
ROLE_BINDING = printer("Name:name | Role | Age | Users:wide | Groups:wide | ServiceAccounts:wide", binding_cells)
LEASE = printer("Name:name | Holder=spec.holderIdentity | Age")
API_SERVICE = printer("Name:name | Service | Available | Age", api_service_cells)
WEBHOOK_CONFIGURATION = printer("Name:name | Webhooks:integer=len(webhooks) | Age")
VALIDATING_POLICY = printer("Name:name | Validations:integer=len(spec.validations) | ParamKind | Age", policy_cells)
MUTATING_POLICY = printer("Name:name | Mutations:integer=len(spec.mutations) | ParamKind | Age", policy_cells)
VALIDATING_POLICY_BINDING = printer("Name:name | PolicyName=spec.policyName | ParamRef | Age", policy_binding_cells)
PRIORITY_CLASS = printer(
    "Name:name | Value:integer=value | Global-Default:boolean=globalDefault | Age | PreemptionPolicy=preemptionPolicy"
)
RUNTIME_CLASS = printer("Name:name | Handler=handler | Age")
FLOW_SCHEMA = printer(
    "Name:name | PriorityLevel=spec.priorityLevelConfiguration.name | MatchingPrecedence=spec.matchingPrecedence or 0"
    " | DistinguisherMethod | Age | MissingPL",
    flow_schema_cells,
)
PRIORITY_LEVEL_CONFIGURATION = printer(
    "Name:name | Type=spec.type | NominalConcurrencyShares | Queues | HandSize | QueueLengthLimit | Age",
    priority_level_cells,
)
CERTIFICATE_SIGNING_REQUEST = printer(
    "Name:name | Age | SignerName=spec.signerName | Requestor=spec.username | RequestedDuration | Condition",
    certificate_request_cells,
)
DEVICE_CLASS = RESOURCE_CLAIM_TEMPLATE = printer("Name:name | Age")
RESOURCE_CLAIM = printer("Name:name | State | Age", resource_claim_cells)
RESOURCE_SLICE = printer("Name:name | Node=spec.nodeName | Driver=spec.driver | Pool=spec.pool.name | Age")
