"""Node pools: validate, create, resize, update, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.catalog import gke_rules
from sliceworks.twin.cloud.core.document_store import Document
from sliceworks.twin.cloud.core.exceptions import GoogleError, already_exists, enforce, refuse
from sliceworks.twin.cloud.google.container import resource_names
from sliceworks.twin.cloud.google.container.capacity import pool_usage
from sliceworks.twin.cloud.google.container.gke_state import instances, pool_path, set_instances
from sliceworks.twin.cloud.google.container.node_pool_validation import (
    has_private_nodes,
    initial_size,
    resolve_node_version,
    validate_node_pool,
)
from sliceworks.twin.cloud.google.container.node_template import resolve_shape
from sliceworks.twin.cloud.google.container.resource_names import check_zones, cluster_path, project_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sliceworks.twin.cloud.core.routes import Call
    from sliceworks.twin.cloud.google.container.cluster_operation import ContainerOperations
    from sliceworks.twin.cloud.google.container.gke_state import GkeState
    from sliceworks.twin.cloud.google.container.node_template import Instance

Obj = dict[str, Any]
_LINK = "https://container.googleapis.com/v1/"
_OUTPUT_FIELDS = ("status", "statusMessage", "selfLink", "instanceGroupUrls", "conditions", "etag", "updateInfo", "podIpv4CidrSize")


class NodePools:
    """The methods of node pools."""

    def __init__(self, state: GkeState, operations: ContainerOperations) -> None:
        self._state = state
        self._operations = operations

    def find_all(self, call: Call) -> Obj:
        """List the node pools of a cluster."""
        path = cluster_path(call.params)
        self._state.cluster(path)
        pools = [pool.body for pool in self._state.pools.all(path)]
        return {"nodePools": pools} if pools else {}

    def get(self, call: Call) -> Obj:
        """Return a node pool."""
        return self._state.pool(cluster_path(call.params), call.params["pool"]).body

    def create(self, call: Call) -> Obj:
        """Start to create a node pool."""
        cluster = self._mutable_cluster(cluster_path(call.params))
        self.check_references(self.build(cluster, call.body.get("nodePool") or {}), call.caller)
        return self.add(cluster, call.body.get("nodePool") or {})

    def check_references(self, pool: Document, caller: str) -> None:
        """Raise GoogleError if a node pool refers to a service account or policy that is missing, or that the caller may not use.

        An adopted cluster belongs to a project whose other resources the twin does not know; its references are not checked.
        """
        config, policy = pool.body.get("config") or {}, pool.body.get("placementPolicy") or {}
        self._state.dependencies.check_caller(caller, project_of(pool.parent), config.get("serviceAccount") or "")
        parent, _, name = pool.parent.rpartition("/clusters/")
        cluster = self._state.clusters.get(parent, name)
        if cluster is not None and cluster.inner.get("adopted"):
            return
        region = resource_names.region_of(resource_names.location_of(pool.parent))
        self._state.dependencies.check_account(config.get("serviceAccount") or "")
        self._state.dependencies.check_policy(project_of(pool.parent), region, policy.get("policyName") or "")

    def _mutable_cluster(self, path: str) -> Document:
        """Return a cluster; raises INVALID_ARGUMENT for an Autopilot cluster, whose node pools users cannot change."""
        cluster = self._state.cluster(path)
        if (cluster.body.get("autopilot") or {}).get("enabled"):
            raise refuse("autopilot-node-pools")
        return cluster

    def add(self, cluster: Document, spec: Obj) -> Obj:
        """Start to create a node pool, also in an Autopilot cluster."""
        pool = self.build(cluster, spec)
        path = pool.parent
        if self._state.pools.get(path, pool.name) is not None:
            raise already_exists(pool_path(pool))
        self._operations.check(path, pool.name)
        self.reserve(pool)
        self._state.put(pool)
        seconds = self._state.settings.seconds("createNodePool")
        return self._operations.begin("CREATE_NODE_POOL", path, pool, step="machines", seconds=seconds)

    def build(self, cluster: Document, spec: Obj) -> Document:
        """Return the document of a new node pool; raises INVALID_ARGUMENT."""
        path, name = f"{cluster.parent}/clusters/{cluster.name}", spec.get("name") or ""
        enforce(gke_rules.check_node_pool_name(name))
        body = {key: value for key, value in spec.items() if key not in _OUTPUT_FIELDS}
        body["locations"] = check_zones(spec.get("locations") or cluster.body["locations"], cluster.body["location"])
        body["version"] = resolve_node_version(cluster.body, body, body.get("version") or cluster.body["currentNodeVersion"])
        if (cluster.body.get("workloadIdentityConfig") or {}).get("workloadPool"):
            # GKE enables the metadata server on new node pools of such a cluster.
            body["config"] = {"workloadMetadataConfig": {"mode": "GKE_METADATA"}, **(body.get("config") or {})}
        body["selfLink"] = f"{_LINK}{path}/nodePools/{name}"
        body["status"] = "PROVISIONING"
        if (body.get("placementPolicy") or {}).get("policyName"):
            # GKE does not store the type of a named policy.
            body["placementPolicy"] = {key: value for key, value in body["placementPolicy"].items() if key != "type"}
        validate_node_pool(cluster.body, body, self._state.settings.is_offered)
        return Document(path, name, body, {"private": has_private_nodes(cluster.body, body)})

    def reserve(self, pool: Document) -> None:
        """Allocate the initial instances of a node pool; raises GoogleError if quotas or reservations do not suffice."""
        shape, project = resolve_shape(pool.body), project_of(pool.parent)
        starts_empty = (pool.body.get("autoscaling") or {}).get("enabled") and not initial_size(pool.body)
        count = 0 if starts_empty else shape.slice_hosts or initial_size(pool.body)
        zones = [zone for zone in pool.body["locations"] for _ in range(count)]
        self._state.capacity.check(pool_path(pool), pool_usage(project, pool, shape, zones))
        locations = pool.body["locations"]
        set_instances(pool, [instance for zone in locations for instance in self._state.new_instances(pool, zone, count)])
        cluster = pool.parent.rpartition("/")[2]
        pool.body["instanceGroupUrls"] = [
            resource_names.instance_group_url(project, zone, resource_names.instance_group_name(cluster, pool.name, group_hash))
            for zone, group_hash in pool.inner["marks"].items()
        ]

    def delete(self, call: Call) -> Obj:
        """Start to drain and delete a node pool."""
        path = cluster_path(call.params)
        pool = self._state.pool(path, call.params["pool"])
        self._mutable_cluster(path)
        return self.begin_delete(pool)

    def begin_delete(self, pool: Document) -> Obj:
        """Start to drain and delete a node pool, also of an Autopilot cluster."""
        path, name = pool.parent, pool.name
        self._operations.check(path, name)
        for repair in self._operations.hidden(path, name):
            self._operations.finish(repair)
        pool.body["status"] = "STOPPING"
        self._state.put(pool)
        seconds = self._state.settings.seconds("deleteNodePool")
        return self._operations.begin("DELETE_NODE_POOL", path, pool, step="drain", seconds=0.0, rest=seconds)

    def set_size(self, call: Call) -> Obj:
        """Start to resize a node pool to a number of nodes per zone."""
        path, name, count = cluster_path(call.params), call.params["pool"], int(call.body.get("nodeCount") or 0)
        pool = self._state.pool(path, name)
        self._mutable_cluster(path)
        enforce(gke_rules.check_node_count(count))
        self._operations.check(path, name)
        if resolve_shape(pool.body).slice_hosts:
            raise refuse("tpu-slice-resize", pool=name)
        return self.resize(pool, dict.fromkeys(pool.body["locations"], count), "SET_NODE_POOL_SIZE")

    def resize(
        self, pool: Document, counts: Mapping[str, int], kind: str, *, drop: Sequence[Instance] | None = None, hidden: bool = False
    ) -> Obj:
        """Start to create and delete instances until each zone has its count; `drop` names the instances to delete."""
        add: list[Instance] = []
        removed = list(drop or ())
        for zone, count in counts.items():
            existing = [instance for instance in instances(pool) if instance.zone == zone]
            if drop is None:
                removed += existing[count:]
            add += self._state.new_instances(pool, zone, max(0, count - len(existing)))
        zones = [instance.zone for instance in (*instances(pool), *add) if instance not in removed]
        usage = pool_usage(project_of(pool.parent), pool, resolve_shape(pool.body), zones)
        try:
            self._state.capacity.check(pool_path(pool), usage)
        except GoogleError:
            self._state.node_manager.free(instance.number for instance in add)
            raise
        set_instances(pool, [*instances(pool), *add])
        if not hidden:
            pool.body["status"] = "RECONCILING"
        self._state.put(pool)
        return self._operations.begin(
            kind,
            pool.parent,
            pool,
            step="machines",
            seconds=self._state.settings.seconds("resizeNodePool"),
            hidden=hidden,
            drop=[list(instance) for instance in removed],
            add=[list(instance) for instance in add],
        )

    def set_management(self, call: Call) -> Obj:
        """Change auto-repair and auto-upgrade."""
        return self._change(call, "SET_NODE_POOL_MANAGEMENT", {"management": call.body.get("management") or {}})

    def set_autoscaling(self, call: Call) -> Obj:
        """Change autoscaling."""
        return self._change(call, "UPDATE_CLUSTER", {"autoscaling": call.body.get("autoscaling") or {}})

    def update(self, call: Call) -> Obj:
        """Change other fields of a node pool."""
        fields = dict(call.body)
        for key in ("name", "projectId", "zone", "clusterId", "nodePoolId", "etag", "nodeConfigUpdateMode"):
            fields.pop(key, None)
        change: Obj = {_POOL_FIELDS[key]: value for key, value in fields.items() if key in _POOL_FIELDS}
        if "version" in change:
            cluster = self._state.cluster(cluster_path(call.params))
            pool = self._state.pool(cluster_path(call.params), call.params["pool"])
            change["version"] = resolve_node_version(cluster.body, pool.body, change["version"])
        config = {key: value for key, value in fields.items() if key not in _POOL_FIELDS}
        if config:
            old = self._state.pool(cluster_path(call.params), call.params["pool"]).body.get("config") or {}
            change["config"] = {**old, **{key: _unwrap(key, value) for key, value in config.items() if not key.startswith("image")}}
            if "imageType" in config:
                change["config"]["imageType"] = config["imageType"]
        return self._change(call, "UPGRADE_NODES" if "nodeVersion" in fields else "UPDATE_CLUSTER", change)

    def _change(self, call: Call, kind: str, change: Obj) -> Obj:
        """Start an operation that changes fields of a node pool."""
        path, name = cluster_path(call.params), call.params["pool"]
        pool = self._state.pool(path, name)
        cluster = self._mutable_cluster(path)
        if "locations" in change:
            change["locations"] = check_zones(change["locations"], cluster.body["location"])
        validate_node_pool(cluster.body, {**pool.body, **change}, self._state.settings.is_offered)
        self._operations.check(path, name)
        seconds = self._state.settings.seconds("updateNodePool")
        return self._operations.begin(kind, path, pool, step="change", seconds=seconds, change=change)


_POOL_FIELDS = {
    "nodeVersion": "version",
    "locations": "locations",
    "upgradeSettings": "upgradeSettings",
    "nodeNetworkConfig": "networkConfig",
    "queuedProvisioning": "queuedProvisioning",
    "maintenancePolicy": "maintenancePolicy",
    "nodeDrainConfig": "nodeDrainConfig",
}


def _unwrap(key: str, value: Any) -> Any:
    """The value of a config field; an update wraps labels, taints and tags in messages, and has the disk size as a string."""
    if key == "diskSizeGb":
        return int(value)
    inner = {"labels": "labels", "taints": "taints", "tags": "tags", "resourceLabels": "labels"}.get(key)
    return value.get(inner, value) if isinstance(value, dict) and inner else value
