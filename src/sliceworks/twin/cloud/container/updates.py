"""What of a cluster may change once it is there, and which versions there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

Obj = dict[str, Any]
VERSION = "1.35.4-gke.1080000"
OLDER = ("1.34.6-gke.1310000", "1.33.9-gke.1160000")


class Part(NamedTuple):
    """One part of a cluster that a call of its own sets: its field, the field of the body, and what it is when that has none."""

    method: str
    field: str
    key: str
    request: str
    kind: str = "UPDATE_CLUSTER"
    empty: Any = ""


PARTS = (
    Part("setAddons", "addonsConfig", "addonsConfig", "SetAddonsConfigRequest", empty={}),
    Part("setLegacyAbac", "legacyAbac", "enabled", "SetLegacyAbacRequest", empty=False),
    Part("setLocations", "locations", "locations", "SetLocationsRequest", empty=()),
    Part("setLogging", "loggingService", "loggingService", "SetLoggingServiceRequest"),
    Part(
        "setMaintenancePolicy",
        "maintenancePolicy",
        "maintenancePolicy",
        "SetMaintenancePolicyRequest",
        "SET_MAINTENANCE_POLICY",
        {},
    ),
    Part("setMonitoring", "monitoringService", "monitoringService", "SetMonitoringServiceRequest"),
    Part("setNetworkPolicy", "networkPolicy", "networkPolicy", "SetNetworkPolicyRequest", "SET_NETWORK_POLICY", {}),
    Part("setResourceLabels", "resourceLabels", "resourceLabels", "SetLabelsRequest", "SET_LABELS", {}),
)


def meant_version(asked: str) -> str:
    """The version that is meant: `latest`, `-`, a part of one, or one in full."""
    if asked in ("", "latest", "-"):
        return VERSION
    return next((known for known in (VERSION, *OLDER) if known.startswith(asked)), asked)


def wanted(cluster: Obj, update: Obj, messages: Mapping[str, Mapping[str, str]]) -> Obj:
    """The fields of a cluster that an update sets. Some are parts of a field; what a cluster does not show is not kept."""
    change: Obj = {}
    for key, value in update.items():
        name = key.removeprefix("desired")
        field = name[:1].lower() + name[1:]
        field = _RENAMED.get(field, field)
        if field == "masterVersion":
            change["currentMasterVersion"] = meant_version(value)
        elif field in _SWITCHES:
            part = "networkConfig"
            change[part] = {**cluster[part], **change.get(part, {}), _SWITCHES[field]: bool(value.get("enabled"))}
        elif field in messages["Cluster"]:
            change[field] = value
        else:
            for part, message in _PARTS_OF_CLUSTERS.items():
                if field in messages[message]:
                    change[part] = {**(cluster.get(part) or {}), **change.get(part, {}), field: value}
                    break
    return change


_RENAMED = {"clusterAutoscaling": "autoscaling"}
_SWITCHES = {"l4ilbSubsettingConfig": "enableL4ilbSubsetting", "intraNodeVisibilityConfig": "enableIntraNodeVisibility"}
_PARTS_OF_CLUSTERS = {
    "networkConfig": "NetworkConfig",
    "ipAllocationPolicy": "IPAllocationPolicy",
    "privateClusterConfig": "PrivateClusterConfig",
}
