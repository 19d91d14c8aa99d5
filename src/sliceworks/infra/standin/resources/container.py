"""Clusters and their node pools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import CloudError, CloudInvalid, CloudNotFound
from sliceworks.infra.standin import mapping
from sliceworks.infra.standin.kinds import Kind, fill, finished, last
from sliceworks.infra.standin.mapping import Names

if TYPE_CHECKING:
    from sliceworks.infra.standin.schemas import Block
    from sliceworks.infra.standin.settings import Settings

Object = dict[str, Any]
_PLACE = "projects/{project}/locations/{location}"
_CLUSTER = _PLACE + "/clusters/{name}"
_POOLS = _PLACE + "/clusters/{cluster:last}/nodePools"
_NODE = {
    "node_config.guest_accelerator": "accelerators",
    "node_config.taint": "taints",
    "node_config.guest_accelerator.type": "acceleratorType",
    "node_config.guest_accelerator.count": "acceleratorCount",
    "node_config.reservation_affinity.consume_reservation_type": "consumeReservationType",
    "node_config.workload_metadata_config.mode": "mode",
}
_POOL = Names(
    renamed={
        "node_config": "config",
        "node_locations": "locations",
        "max_pods_per_node": "maxPodsConstraint.maxPodsPerNode",
        "placement_policy.tpu_topology": "tpuTopology",
        **_NODE,
    },
    local=frozenset(
        {"project", "location", "cluster", "node_count", "name_prefix", "ignore_node_count_changes", "node_config.disk_type.none"}
    ),
)


class NodePool:
    """A node pool. What changes is sent by the method that GKE has for it."""

    fixed = (
        "name",
        "cluster",
        "location",
        "project",
        "placement_policy",
        "node_config.machine_type",
        "node_config.spot",
        "node_config.service_account",
        "node_config.guest_accelerator",
        "node_config.reservation_affinity",
        "node_config.disk_type",
        "node_config.disk_size_gb",
        "max_pods_per_node",
    )
    filled_in: tuple[str, ...] = ()

    async def create(self, settings: Settings, block: Block, planned: Object) -> Object:
        """A new pool."""
        body = mapping.body(block, planned, _POOL)
        count = planned.get("node_count")
        if isinstance(count, int | float):
            body["initialNodeCount"] = int(count)
        elif not isinstance(planned.get("initial_node_count"), int | float):
            body["initialNodeCount"] = 0
        if body.get("autoscaling"):
            body["autoscaling"]["enabled"] = True
        await self._do(settings, planned, "POST", fill(_POOLS, planned), {"nodePool": body})
        return await self._there(settings, block, planned)

    async def read(self, settings: Settings, block: Block, known: Object) -> Object | None:
        """The pool, and how many nodes it has in each zone."""
        try:
            answer = await settings.session("container").call("GET", "/" + self._path(known))
        except CloudNotFound:
            return None
        if answer.get("status") == "STOPPING":
            return None
        state = mapping.state(block, answer, known, _POOL)
        urls = answer.get("instanceGroupUrls") or []
        state["id"] = self._path(state)
        state["instance_group_urls"] = state["managed_instance_group_urls"] = urls
        if state.get("node_count") is not None or not (answer.get("autoscaling") or {}).get("enabled"):
            state["node_count"] = await _count(settings, urls)
        return state

    async def update(self, settings: Settings, block: Block, prior: Object, planned: Object) -> Object:
        """Size, autoscaling and management have methods of their own; the rest is an update."""
        new, old = mapping.body(block, planned, _POOL), mapping.body(block, prior, _POOL)
        path = self._path(prior)
        if planned.get("node_count") != prior.get("node_count") and planned.get("node_count") is not None:
            await self._do(settings, planned, "POST", f"{path}:setSize", {"nodeCount": int(planned["node_count"])})
        if new.get("autoscaling") != old.get("autoscaling"):
            wanted = {**(new.get("autoscaling") or {}), "enabled": bool(new.get("autoscaling"))}
            await self._do(settings, planned, "POST", f"{path}:setAutoscaling", {"autoscaling": wanted})
        if new.get("management") != old.get("management"):
            await self._do(settings, planned, "POST", f"{path}:setManagement", {"management": new.get("management") or {}})
        change = _pool_update(new, old)
        if change:
            await self._do(settings, planned, "PUT", path, change)
        return await self._there(settings, block, planned)

    async def delete(self, settings: Settings, block: Block, prior: Object) -> None:
        """Remove it."""
        try:
            await self._do(settings, prior, "DELETE", self._path(prior), None)
        except CloudNotFound:
            return

    def _path(self, state: Object) -> str:
        return fill(_POOLS, state) + f"/{state['name']}"

    async def _there(self, settings: Settings, block: Block, planned: Object) -> Object:
        found = await self.read(settings, block, planned)
        if found is None:
            raise CloudError(f"{self._path(planned)} is not there")
        return found

    async def _do(self, settings: Settings, state: Object, method: str, path: str, body: Object | None) -> None:
        await _done(settings, state, (method, path), body)


def _pool_update(new: Object, old: Object) -> Object:
    """Fields of the update of a pool, for what differs."""
    change: Object = {}
    if new.get("upgradeSettings") != old.get("upgradeSettings"):
        change["upgradeSettings"] = new.get("upgradeSettings") or {}
    if new.get("locations") != old.get("locations"):
        change["locations"] = new.get("locations") or []
    config, before = new.get("config") or {}, old.get("config") or {}
    for field, wrapped in (("labels", "labels"), ("taints", "taints"), ("tags", "tags")):
        if config.get(field) != before.get(field):
            change[field] = {wrapped: config.get(field) or ({} if field == "labels" else [])}
    if config.get("resourceLabels") != before.get("resourceLabels"):
        change["resourceLabels"] = {"labels": config.get("resourceLabels") or {}}
    return change


async def _count(settings: Settings, urls: list[str]) -> int:
    """Nodes in each zone, read where the machines are grouped."""
    sizes = []
    for url in urls:
        group = await settings.session("compute").call("GET", "/projects/" + url.partition("/projects/")[2])
        sizes.append(int(group.get("targetSize") or 0))
    return sum(sizes) // len(sizes) if sizes else 0


async def _done(settings: Settings, state: Object, call: tuple[str, str], body: Object | None) -> None:
    """One change of a cluster at a time: GKE takes no other while one goes on."""
    method, path = call
    async with settings.lock(path.partition("/nodePools")[0].partition(":")[0]):
        answer = await settings.session("container").call(method, f"/{path}", body)
        await finished(settings, "container", "container", state, answer)


_CLUSTER_NAMES = Names(
    renamed={
        "node_locations": "locations",
        "min_master_version": "initialClusterVersion",
        "master_version": "currentMasterVersion",
        "enable_autopilot": "autopilot.enabled",
        "cluster_ipv4_cidr": "clusterIpv4Cidr",
        "services_ipv4_cidr": "servicesIpv4Cidr",
        "default_max_pods_per_node": "defaultMaxPodsConstraint.maxPodsPerNode",
        "cluster_autoscaling": "autoscaling",
        "cluster_autoscaling.auto_provisioning_defaults": "autoprovisioningNodePoolDefaults",
        "dns_config": "networkConfig.dnsConfig",
        "dns_config.cluster_dns": "clusterDns",
        "logging_config.enable_components": "componentConfig.enableComponents",
        "monitoring_config.enable_components": "componentConfig.enableComponents",
        "monitoring_config.managed_prometheus": "managedPrometheusConfig",
        "maintenance_policy": "maintenancePolicy.window",
        "maintenance_policy.daily_maintenance_window": "dailyMaintenanceWindow",
        "private_cluster_config.enable_private_nodes": "enablePrivateNodes",
        "resource_labels": "resourceLabels",
        "effective_labels": "resourceLabels",
        **_NODE,
    },
    local=frozenset(
        {
            "project",
            "location",
            "deletion_protection",
            "remove_default_node_pool",
            "networking_mode",
            "terraform_labels",
            "resource_labels",
            "node_pool",
            "min_master_version",
            "node_version",
            "operation",
            "network",
            "subnetwork",
            "master_auth",
            "initial_node_count",
            "node_config",
        }
    ),
    sent=frozenset({"effective_labels"}),
)
_DEFAULT_POOL = "default-pool"


class Cluster:
    """A cluster. Its own pool is removed at once where ours take its place."""

    fixed = (
        "name",
        "location",
        "project",
        "network",
        "subnetwork",
        "enable_autopilot",
        "ip_allocation_policy",
        "networking_mode",
        "private_cluster_config.master_ipv4_cidr_block",
        "node_config.service_account",
    )
    filled_in: tuple[str, ...] = ("master_auth",)

    async def create(self, settings: Settings, block: Block, planned: Object) -> Object:
        """A new cluster, up to the point where it runs."""
        body = mapping.body(block, planned, _CLUSTER_NAMES)
        for name, key in (("network", "network"), ("subnetwork", "subnetwork")):
            if isinstance(planned.get(name), str):
                body[key] = planned[name]
        if isinstance(planned.get("initial_node_count"), int | float):
            body["initialNodeCount"] = int(planned["initial_node_count"])
        if planned.get("node_config"):
            body["nodeConfig"] = mapping.body(block.blocks["node_config"].block, planned["node_config"][0], _POOL, "node_config.")
        if isinstance(planned.get("min_master_version"), str):
            body["initialClusterVersion"] = planned["min_master_version"]
        if body.get("ipAllocationPolicy"):
            body["ipAllocationPolicy"]["useIpAliases"] = True
        await _done(settings, planned, ("POST", fill(_PLACE, planned) + "/clusters"), {"cluster": body})
        if planned.get("remove_default_node_pool"):
            pool = f"{fill(_CLUSTER, planned)}/nodePools/{_DEFAULT_POOL}"
            await _done(settings, planned, ("DELETE", pool), None)
        return await self._there(settings, block, planned)

    async def read(self, settings: Settings, block: Block, known: Object) -> Object | None:
        """The cluster as it is."""
        try:
            answer = await settings.session("container").call("GET", "/" + fill(_CLUSTER, known))
        except CloudNotFound:
            return None
        state = mapping.state(block, answer, known, _CLUSTER_NAMES)
        network = answer.get("networkConfig") or {}
        state["id"] = fill(_CLUSTER, state)
        state["network"] = network.get("network") or known.get("network")
        state["subnetwork"] = network.get("subnetwork") or known.get("subnetwork")
        state["networking_mode"] = "VPC_NATIVE"
        state["endpoint"], state["self_link"] = answer.get("endpoint"), answer.get("selfLink")
        state["master_version"] = answer.get("currentMasterVersion")
        state["node_version"] = answer.get("currentNodeVersion")
        authority = (answer.get("masterAuth") or {}).get("clusterCaCertificate", "")
        empty = dict.fromkeys(block.blocks["master_auth"].block.attributes)
        state["master_auth"] = [{**empty, "cluster_ca_certificate": authority, "client_certificate_config": []}]
        return state

    async def update(self, settings: Settings, block: Block, prior: Object, planned: Object) -> Object:
        """What GKE can change, change by change."""
        new, old = mapping.body(block, planned, _CLUSTER_NAMES), mapping.body(block, prior, _CLUSTER_NAMES)
        path = fill(_CLUSTER, prior)
        for field, desired in _DESIRED.items():
            if new.get(field) != old.get(field):
                await _done(settings, planned, ("PUT", path), {"update": {desired: new.get(field)}})
        if new.get("resourceLabels") != old.get("resourceLabels"):
            now = await settings.session("container").call("GET", f"/{path}")
            labels = {"resourceLabels": new.get("resourceLabels") or {}, "labelFingerprint": now.get("labelFingerprint", "")}
            await _done(settings, planned, ("POST", f"{path}:setResourceLabels"), labels)
        if new.get("maintenancePolicy") != old.get("maintenancePolicy"):
            policy = {"maintenancePolicy": new.get("maintenancePolicy") or {}}
            await _done(settings, planned, ("POST", f"{path}:setMaintenancePolicy"), policy)
        return await self._there(settings, block, planned)

    async def delete(self, settings: Settings, block: Block, prior: Object) -> None:
        """Remove it, unless it is protected."""
        if prior.get("deletion_protection"):
            raise CloudInvalid("Cannot destroy cluster because deletion_protection is set to true. Set it to false to proceed.")
        path = fill(_CLUSTER, prior)
        try:
            await _done(settings, prior, ("DELETE", path), None)
        except CloudNotFound:
            return

    async def _there(self, settings: Settings, block: Block, planned: Object) -> Object:
        found = await self.read(settings, block, planned)
        if found is None:
            raise CloudError(f"{fill(_CLUSTER, planned)} is not there")
        return found


_DESIRED = {
    "releaseChannel": "desiredReleaseChannel",
    "locations": "desiredLocations",
    "loggingConfig": "desiredLoggingConfig",
    "monitoringConfig": "desiredMonitoringConfig",
    "addonsConfig": "desiredAddonsConfig",
    "masterAuthorizedNetworksConfig": "desiredMasterAuthorizedNetworksConfig",
    "workloadIdentityConfig": "desiredWorkloadIdentityConfig",
}


async def cluster(settings: Settings, block: Block, config: Object) -> Object:
    """The data source of a cluster."""
    known = {**config, "project": config.get("project") or settings.project, "location": config.get("location") or settings.region}
    found = await Cluster().read(settings, block, known)
    if found is None:
        raise CloudNotFound(f"{fill(_CLUSTER, known)} not found")
    return found


async def versions(settings: Settings, block: Block, config: Object) -> Object:
    """The data source of GKE's versions at a location."""
    known = {"project": config.get("project") or settings.project, "location": config.get("location") or settings.region}
    answer = await settings.session("container").call("GET", "/" + fill(_PLACE, known) + "/serverConfig")
    channels = {last(each["channel"]): each for each in answer.get("channels") or ()}
    return {
        **known,
        "id": "versions",
        "default_cluster_version": answer.get("defaultClusterVersion"),
        "valid_master_versions": answer.get("validMasterVersions") or [],
        "valid_node_versions": answer.get("validNodeVersions") or [],
        "latest_master_version": next(iter(answer.get("validMasterVersions") or ()), None),
        "latest_node_version": next(iter(answer.get("validNodeVersions") or ()), None),
        "release_channel_default_version": {name: each.get("defaultVersion") for name, each in channels.items()},
    }


KINDS: dict[str, Kind] = {"google_container_cluster": Cluster(), "google_container_node_pool": NodePool()}
DATA_SOURCES = {"google_container_cluster": cluster, "google_container_engine_versions": versions}
