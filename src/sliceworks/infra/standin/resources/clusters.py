"""Clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import CloudError, CloudInvalid, CloudNotFound
from sliceworks.infra.standin import mapping
from sliceworks.infra.standin.kinds import Kind, fill, last
from sliceworks.infra.standin.mapping import Names
from sliceworks.infra.standin.resources.container_calls import CLUSTER, NODE, PLACE, POOL, done

if TYPE_CHECKING:
    from sliceworks.infra.standin.schemas import Block
    from sliceworks.infra.standin.settings import Settings

Object = dict[str, Any]
_NAMES = Names(
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
        "gateway_api_config": "networkConfig.gatewayApiConfig",
        "datapath_provider": "networkConfig.datapathProvider",
        "dns_config.cluster_dns": "clusterDns",
        "logging_config.enable_components": "componentConfig.enableComponents",
        "monitoring_config.enable_components": "componentConfig.enableComponents",
        "monitoring_config.managed_prometheus": "managedPrometheusConfig",
        "maintenance_policy": "maintenancePolicy.window",
        "maintenance_policy.daily_maintenance_window": "dailyMaintenanceWindow",
        "private_cluster_config.enable_private_nodes": "enablePrivateNodes",
        "resource_labels": "resourceLabels",
        "effective_labels": "resourceLabels",
        **NODE,
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
        "datapath_provider",
        "private_cluster_config.master_ipv4_cidr_block",
        "node_config.service_account",
    )
    filled_in: tuple[str, ...] = ("master_auth",)
    imports = (CLUSTER, "{project}/{location}/{name}")

    async def create(self, settings: Settings, block: Block, planned: Object) -> Object:
        """A new cluster, up to the point where it runs."""
        body = mapping.body(block, planned, _NAMES)
        for name, key in (("network", "network"), ("subnetwork", "subnetwork")):
            if isinstance(planned.get(name), str):
                body[key] = planned[name]
        if isinstance(planned.get("initial_node_count"), int | float):
            body["initialNodeCount"] = int(planned["initial_node_count"])
        if planned.get("node_config"):
            body["nodeConfig"] = mapping.body(block.blocks["node_config"].block, planned["node_config"][0], POOL, "node_config.")
        if isinstance(planned.get("min_master_version"), str):
            body["initialClusterVersion"] = planned["min_master_version"]
        if body.get("ipAllocationPolicy"):
            body["ipAllocationPolicy"]["useIpAliases"] = True
        await done(settings, planned, ("POST", fill(PLACE, planned) + "/clusters"), {"cluster": body})
        if planned.get("remove_default_node_pool"):
            pool = f"{fill(CLUSTER, planned)}/nodePools/{_DEFAULT_POOL}"
            await done(settings, planned, ("DELETE", pool), None)
        return await self._there(settings, block, planned)

    async def read(self, settings: Settings, block: Block, known: Object) -> Object | None:
        """The cluster as it is."""
        try:
            answer = await settings.session("container").call("GET", "/" + fill(CLUSTER, known))
        except CloudNotFound:
            return None
        state = mapping.state(block, answer, known, _NAMES)
        network = answer.get("networkConfig") or {}
        state["id"] = fill(CLUSTER, state)
        if known.get(mapping.IMPORTED):
            state |= _taken_over(block, answer)
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
        new, old = mapping.body(block, planned, _NAMES), mapping.body(block, prior, _NAMES)
        path = fill(CLUSTER, prior)
        for field, desired in _DESIRED.items():
            if new.get(field) != old.get(field):
                await done(settings, planned, ("PUT", path), {"update": {desired: new.get(field)}})
        gateways = [(each.get("networkConfig") or {}).get("gatewayApiConfig") for each in (new, old)]
        if gateways[0] != gateways[1]:
            await done(settings, planned, ("PUT", path), {"update": {"desiredGatewayApiConfig": gateways[0]}})
        if new.get("resourceLabels") != old.get("resourceLabels"):
            now = await settings.session("container").call("GET", f"/{path}")
            labels = {"resourceLabels": new.get("resourceLabels") or {}, "labelFingerprint": now.get("labelFingerprint", "")}
            await done(settings, planned, ("POST", f"{path}:setResourceLabels"), labels)
        if new.get("maintenancePolicy") != old.get("maintenancePolicy"):
            policy = {"maintenancePolicy": new.get("maintenancePolicy") or {}}
            await done(settings, planned, ("POST", f"{path}:setMaintenancePolicy"), policy)
        return await self._there(settings, block, planned)

    async def delete(self, settings: Settings, block: Block, prior: Object) -> None:
        """Remove it, unless it is protected."""
        if prior.get("deletion_protection"):
            raise CloudInvalid("Cannot destroy cluster because deletion_protection is set to true. Set it to false to proceed.")
        path = fill(CLUSTER, prior)
        try:
            await done(settings, prior, ("DELETE", path), None)
        except CloudNotFound:
            return

    async def _there(self, settings: Settings, block: Block, planned: Object) -> Object:
        found = await self.read(settings, block, planned)
        if found is None:
            raise CloudError(f"{fill(CLUSTER, planned)} is not there")
        return found


def _taken_over(block: Block, answer: Object) -> Object:
    """What of a cluster is otherwise known to Terraform alone: how its first nodes were to be."""
    nodes = block.blocks["node_config"].block
    given = answer.get("nodeConfig") or {}
    made = mapping.state(nodes, given, {mapping.IMPORTED: True}, POOL, "node_config.") if given else None
    return {"node_config": [made] if made else [], "initial_node_count": answer.get("initialNodeCount")}


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
        raise CloudNotFound(f"{fill(CLUSTER, known)} not found")
    return found


async def versions(settings: Settings, block: Block, config: Object) -> Object:
    """The data source of GKE's versions at a location."""
    known = {"project": config.get("project") or settings.project, "location": config.get("location") or settings.region}
    answer = await settings.session("container").call("GET", "/" + fill(PLACE, known) + "/serverConfig")
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


KINDS: dict[str, Kind] = {"google_container_cluster": Cluster()}
DATA_SOURCES = {"google_container_cluster": cluster, "google_container_engine_versions": versions}
