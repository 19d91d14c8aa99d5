"""Clusters: create, read, update, delete. The first cluster is backed by the twin's own Kubernetes."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.base import clock
from sliceworks.catalog import gke_rules
from sliceworks.twin.cloud.core import schema
from sliceworks.twin.cloud.core.document_store import Document
from sliceworks.twin.cloud.core.exceptions import already_exists, enforce, refuse
from sliceworks.twin.cloud.google.container.cluster_operation import UPGRADE_MASTER
from sliceworks.twin.cloud.google.container.dependencies import base_name, host_project
from sliceworks.twin.cloud.google.container.gke_state import instances
from sliceworks.twin.cloud.google.container.node_pool_validation import release_channel, resolve_node_version, validate_autoscaling
from sliceworks.twin.cloud.google.container.resource_names import (
    ANY_LOCATION,
    check_zones,
    cluster_path,
    location_of,
    location_path,
    region_of,
    zones_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sliceworks.twin.cloud.core.routes import Call
    from sliceworks.twin.cloud.google.container.cluster_operation import ContainerOperations
    from sliceworks.twin.cloud.google.container.gke_state import GkeState
    from sliceworks.twin.cloud.google.container.node_pool import NodePools
Obj = dict[str, Any]


class ClusterSetting(NamedTuple):
    """A field of a cluster with its own API method: the field, its key in the body, and its value without the key."""

    method: str
    field: str
    key: str
    request: str
    kind: str = "UPDATE_CLUSTER"
    empty: Any = ""


CLUSTER_SETTINGS = (
    ClusterSetting("setAddons", "addonsConfig", "addonsConfig", "SetAddonsConfigRequest", empty={}),
    ClusterSetting("setLegacyAbac", "legacyAbac", "enabled", "SetLegacyAbacRequest", empty=False),
    ClusterSetting("setLocations", "locations", "locations", "SetLocationsRequest", empty=()),
    ClusterSetting("setLogging", "loggingService", "loggingService", "SetLoggingServiceRequest"),
    ClusterSetting(
        "setMaintenancePolicy",
        "maintenancePolicy",
        "maintenancePolicy",
        "SetMaintenancePolicyRequest",
        "SET_MAINTENANCE_POLICY",
        {},
    ),
    ClusterSetting("setMonitoring", "monitoringService", "monitoringService", "SetMonitoringServiceRequest"),
    ClusterSetting("setNetworkPolicy", "networkPolicy", "networkPolicy", "SetNetworkPolicyRequest", "SET_NETWORK_POLICY", {}),
    ClusterSetting("setResourceLabels", "resourceLabels", "resourceLabels", "SetLabelsRequest", "SET_LABELS", {}),
)


def resolve_version(alias: str, channel: str = "") -> str:
    """The full version of `latest`, `-`, a version prefix or a full version; raises GoogleError if GKE does not offer it."""
    enforce(gke_rules.check_control_plane_version(alias))
    return gke_rules.resolve_version(alias, channel) or alias


def resolve_update(cluster: Obj, update: Obj, messages: Mapping[str, Mapping[str, str]]) -> Obj:
    """The changed fields of a cluster. Some updates set part of a field; fields that a cluster does not have are ignored."""
    change: Obj = {}
    for key, value in update.items():
        name = key.removeprefix("desired")
        field = name[:1].lower() + name[1:]
        field = _RENAMED_FIELDS.get(field, field)
        if field == "masterVersion":
            change["currentMasterVersion"] = resolve_version(value)
        elif field in _NETWORK_FLAGS:
            part = "networkConfig"
            change[part] = {**cluster[part], **change.get(part, {}), _NETWORK_FLAGS[field]: bool(value.get("enabled"))}
        elif field in messages["Cluster"]:
            change[field] = value
        else:
            for part, message in _NESTED_MESSAGES.items():
                if field in messages[message]:
                    change[part] = {**(cluster.get(part) or {}), **change.get(part, {}), field: value}
                    break
    return change


_RENAMED_FIELDS = {"clusterAutoscaling": "autoscaling"}
_NETWORK_FLAGS = {"l4ilbSubsettingConfig": "enableL4ilbSubsetting", "intraNodeVisibilityConfig": "enableIntraNodeVisibility"}
_NESTED_MESSAGES = {
    "networkConfig": "NetworkConfig",
    "ipAllocationPolicy": "IPAllocationPolicy",
    "privateClusterConfig": "PrivateClusterConfig",
}
_LINK = "https://container.googleapis.com/v1/"
_OUTPUT_FIELDS = (
    "status",
    "statusMessage",
    "conditions",
    "selfLink",
    "createTime",
    "currentNodeCount",
    "id",
    "zone",
    "nodePools",
    "etag",
)
_AUTOPILOT_POOL = {
    "name": "default-pool",
    "config": {"machineType": "e2-standard-8"},
    "autoscaling": {"enabled": True, "minNodeCount": 0, "maxNodeCount": 1000},
}
_ADDRESS = "203.0.113.10"
_DEFAULT_CHANNEL = "REGULAR"


class Clusters:
    """The methods of clusters. `authority` is the CA certificate of the twin's Kubernetes, `address` its endpoint."""

    def __init__(self, state: GkeState, operations: ContainerOperations, pools: NodePools) -> None:
        self._state = state
        self._operations = operations
        self._pools = pools
        self.authority = ""
        self.address = _ADDRESS

    def find_all(self, call: Call) -> Obj:
        """List the clusters of a location, or of all locations."""
        parent = location_path(call.params)
        scope = None if call.params["location"] == ANY_LOCATION else parent
        prefix = f"projects/{call.params['project']}/"
        clusters = (cluster for cluster in self._state.clusters.all(scope) if cluster.parent.startswith(prefix))
        rendered = [self._render(cluster) for cluster in clusters]
        return {"clusters": rendered} if rendered else {}

    def get(self, call: Call) -> Obj:
        """Return a cluster with its node pools."""
        return self._render(self._state.cluster(cluster_path(call.params)))

    def create(self, call: Call) -> Obj:
        """Start to create a cluster and its initial node pools."""
        parent, spec = location_path(call.params), dict(call.body.get("cluster") or {})
        name = spec.get("name") or ""
        enforce(gke_rules.check_cluster_name(name))
        _validate(spec)
        path = f"{parent}/clusters/{name}"
        if self._state.clusters.get(parent, name) is not None:
            raise already_exists(path)
        self._state.dependencies.check_network(call.params["project"], location_of(parent), spec)
        cluster = self._build(parent, name, spec)
        pools = [self._pools.build(cluster, pool) for pool in self._initial_pools(spec)]
        for pool in pools:
            self._pools.check_references(pool, call.caller)
            self._pools.reserve(pool)
        self._state.clusters.put(cluster)
        if spec.get("workloadIdentityConfig") or (spec.get("autopilot") or {}).get("enabled"):
            self._state.dependencies.create_identity_pool(call.params["project"])
        for pool in pools:
            self._state.put(pool)
        seconds = self._state.settings.seconds("createCluster")
        return self._operations.begin("CREATE_CLUSTER", path, None, step="machines", seconds=seconds)

    def adopt(self, project: str, location: str, name: str) -> Obj:
        """Return a cluster, creating a running one without node pools if it does not exist."""
        parent = location_path({"project": project, "location": location})
        cluster = self._state.clusters.get(parent, name)
        if cluster is None:
            cluster = self._build(parent, name, {"name": name})
            cluster.body["status"] = "RUNNING"
            cluster.inner["adopted"] = True
            self._state.dependencies.create_identity_pool(project)
            self._state.clusters.put(cluster)
        return self._render(cluster)

    def _initial_pools(self, spec: Obj) -> list[Obj]:
        """The node pools that are created with a cluster: those of its spec, else `default-pool`."""
        if (spec.get("autopilot") or {}).get("enabled"):
            return [dict(_AUTOPILOT_POOL)]
        if pools := spec.get("nodePools"):
            if spec.get("nodeConfig") or spec.get("initialNodeCount"):
                raise refuse("initial-node-pools")
            return list(pools)
        count = spec.get("initialNodeCount") or 0
        if not count:
            raise refuse("initial-node-count")
        return [
            {
                "name": "default-pool",
                "initialNodeCount": count,
                **({"config": spec["nodeConfig"]} if spec.get("nodeConfig") else {}),
            }
        ]

    def _build(self, parent: str, name: str, spec: Obj) -> Document:
        location, path = location_of(parent), f"{parent}/clusters/{name}"
        host = host_project(spec.get("network") or "", parent.split("/")[1])
        body = {key: value for key, value in spec.items() if key not in _OUTPUT_FIELDS}
        network, subnetwork = base_name(spec.get("network") or "default"), base_name(spec.get("subnetwork") or "default")
        body["releaseChannel"] = _release_channel(spec)
        version = resolve_version(spec.get("initialClusterVersion") or "", release_channel(body))
        zones = check_zones(spec.get("locations") or zones_of(location), location)
        body |= {
            "name": name,
            "network": network,
            "subnetwork": subnetwork,
            "location": location,
            "zone": location,
            "locations": zones,
            "selfLink": f"{_LINK}{path}",
            "status": "PROVISIONING",
            "createTime": clock.timestamp(),
            "initialClusterVersion": version,
            "currentMasterVersion": version,
            "currentNodeVersion": version,
            "endpoint": self.address,
            "id": clock.uid().replace("-", "") * 2,
            "labelFingerprint": f"{clock.rng().getrandbits(32):08x}",
            "masterAuth": {
                **(spec.get("masterAuth") or {}),
                "clusterCaCertificate": base64.b64encode(self.authority.encode()).decode(),
            },
        }
        body.setdefault("legacyAbac", {})
        body["networkConfig"] = {
            **(spec.get("networkConfig") or {}),
            "network": f"projects/{host}/global/networks/{network}",
            "subnetwork": f"projects/{host}/regions/{region_of(location)}/subnetworks/{subnetwork}",
        }
        body["ipAllocationPolicy"] = {"stackType": "IPV4", **(spec.get("ipAllocationPolicy") or {}), "useIpAliases": True}
        is_first = not any(cluster.inner.get("kubernetes") for cluster in self._state.clusters.all())
        return Document(parent, name, body, {"kubernetes": is_first})

    def delete(self, call: Call) -> Obj:
        """Delete a cluster and its node pools."""
        path = cluster_path(call.params)
        cluster = self._state.cluster(path)
        self._operations.check(path, "")
        for pool in list(self._state.pools.all(path)):
            for repair in self._operations.hidden(path, pool.name):
                self._operations.finish(repair)
            pool.body["status"] = "STOPPING"
            self._state.put(pool)
        cluster.body["status"] = "STOPPING"
        self._state.clusters.put(cluster)
        seconds = self._state.settings.seconds("deleteCluster")
        return self._operations.begin("DELETE_CLUSTER", path, None, step="drain", seconds=0.0, rest=seconds)

    def update(self, call: Call) -> Obj:
        """Update a cluster: `desiredX` sets the field `x`."""
        path, update = cluster_path(call.params), dict(call.body.get("update") or {})
        cluster = self._state.cluster(path)
        pools: Obj = {}
        if (scaling := update.pop("desiredNodePoolAutoscaling", None)) is not None:
            pool = self._state.pool(path, update.pop("desiredNodePoolId", "") or "default-pool")
            validate_autoscaling({**pool.body, "autoscaling": scaling})
            pools[pool.name] = {"autoscaling": scaling}
        if (version := update.pop("desiredNodeVersion", None)) is not None:
            pool_id = update.pop("desiredNodePoolId", None)
            names = [pool_id] if pool_id else [pool.name for pool in self._state.pools.all(path)]
            for name in names:
                pool = self._state.pool(path, name)
                pools.setdefault(pool.name, {})["version"] = resolve_node_version(cluster.body, pool.body, version)
        messages = schema.load(call.service, call.version).messages
        change = resolve_update(cluster.body, update, messages)
        upgrades = update.get("desiredMasterVersion") is not None
        return self._change(path, UPGRADE_MASTER if upgrades else "UPDATE_CLUSTER", change, pools)

    def set_field(self, setting: ClusterSetting) -> Callable[[Call], Obj]:
        """Return the handler of a method that sets one field of a cluster."""

        def handle(call: Call) -> Obj:
            path, value = cluster_path(call.params), call.body.get(setting.key, setting.empty)
            cluster = self._state.cluster(path)
            change: Obj = {setting.field: {"enabled": value} if setting.field == "legacyAbac" else value}
            if setting.field == "locations":
                change = {"locations": check_zones(value or zones_of(cluster.body["location"]), cluster.body["location"])}
            elif setting.field == "resourceLabels":
                change["labelFingerprint"] = f"{clock.rng().getrandbits(32):08x}"
            return self._change(path, setting.kind, change)

        return handle

    def _change(self, path: str, kind: str, change: Obj, pools: Obj | None = None) -> Obj:
        cluster = self._state.cluster(path)
        _validate({**cluster.body, **change})
        self._operations.check(path, "")
        cluster.body["status"] = "RECONCILING"
        self._state.clusters.put(cluster)
        seconds = self._state.settings.seconds("updateCluster")
        return self._operations.begin(kind, path, None, step="change", seconds=seconds, change=change, pools=pools or {})

    def server_config(self, call: Call) -> Obj:
        """Return the supported versions and image types."""
        location_path(call.params)
        versions = list(gke_rules.offered_versions())
        return {
            "defaultClusterVersion": gke_rules.default_version(),
            "defaultImageType": "COS_CONTAINERD",
            "validImageTypes": ["COS_CONTAINERD", "UBUNTU_CONTAINERD"],
            "validMasterVersions": versions,
            "validNodeVersions": versions,
            "channels": [
                {"channel": channel, "defaultVersion": gke_rules.default_version(channel), "validVersions": versions}
                for channel in gke_rules.release_channels()
            ],
        }

    def _render(self, cluster: Document) -> Obj:
        """A cluster with its node pools and the fields that depend on them."""
        pools = list(self._state.pools.all(f"{cluster.parent}/clusters/{cluster.name}"))
        body = {**cluster.body, "endpoint": self.address}  # a restarted twin may listen on another port
        if pools:
            body["nodePools"] = [pool.body for pool in pools]
            body["nodeConfig"] = pools[0].body.get("config") or {}
            body["instanceGroupUrls"] = [url for pool in pools for url in pool.body.get("instanceGroupUrls") or ()]
            body["currentNodeCount"] = sum(len(instances(pool)) for pool in pools)
        return body


def _release_channel(spec: Obj) -> Obj:
    """The release channel of a new cluster: REGULAR unless the request names one, or UNSPECIFIED for none."""
    given = spec.get("releaseChannel")
    if given is None or not given.get("channel"):
        return {"channel": _DEFAULT_CHANNEL}
    return {} if given["channel"] == "UNSPECIFIED" else dict(given)


def _validate(spec: Obj) -> None:
    """Raise GoogleError for the first rule that a new or changed cluster breaks."""
    datapath = spec.get("datapathProvider") or (spec.get("networkConfig") or {}).get("datapathProvider")
    policy = bool((spec.get("networkPolicy") or {}).get("enabled"))
    ranges = spec.get("ipAllocationPolicy") or {}
    enforce(
        gke_rules.check_network_policy(network_policy=policy, dataplane_v2=datapath == "ADVANCED_DATAPATH"),
        gke_rules.check_secondary_ranges(
            ranges.get("clusterSecondaryRangeName") or "", ranges.get("servicesSecondaryRangeName") or ""
        ),
    )
    private = bool((spec.get("privateClusterConfig") or {}).get("enablePrivateEndpoint"))
    for block in (spec.get("masterAuthorizedNetworksConfig") or {}).get("cidrBlocks") or ():
        enforce(gke_rules.check_authorized_network(block.get("cidrBlock") or "", private_endpoint=private))
