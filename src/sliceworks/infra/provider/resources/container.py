"""GKE: clusters and node pools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import CloudNotFound
from sliceworks.infra.provider import conversion
from sliceworks.infra.provider.conversion import FieldNames
from sliceworks.infra.provider.rest_resource import Resource, fill_template, last_segment, wait_for_operation

if TYPE_CHECKING:
    from sliceworks.infra.provider.rest_resource import ProviderConfig
    from sliceworks.infra.provider.schema import Block

Object = dict[str, Any]
LOCATION = "projects/{project}/locations/{location}"
CLUSTER = LOCATION + "/clusters/{name}"
POOLS = LOCATION + "/clusters/{cluster:last}/nodePools"

NODE = {
    "node_config.guest_accelerator": "accelerators",
    "node_config.taint": "taints",
    "node_config.guest_accelerator.type": "acceleratorType",
    "node_config.guest_accelerator.count": "acceleratorCount",
    "node_config.reservation_affinity.consume_reservation_type": "consumeReservationType",
    "node_config.workload_metadata_config.mode": "mode",
}

POOL = FieldNames(
    renamed={
        "node_config": "config",
        "node_locations": "locations",
        "max_pods_per_node": "maxPodsConstraint.maxPodsPerNode",
        "placement_policy.tpu_topology": "tpuTopology",
        **NODE,
    },
    local=frozenset({"project", "location", "cluster", "node_count", "name_prefix", "ignore_node_count_changes"}),
)


async def run_operation(settings: ProviderConfig, state: Object, method: str, path: str, body: Object | None = None) -> None:
    """Run one operation of a cluster at a time: GKE rejects concurrent ones."""
    async with settings.lock(path.partition("/nodePools")[0].partition(":")[0]):
        answer = await settings.session("container").call(method, f"/{path}", body)
        await wait_for_operation(settings, "container", "container", state, answer)


_NAMES = FieldNames(
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
        "control_plane_endpoints_config.ip_endpoints_config": "ipEndpointsConfig",
        "enable_intranode_visibility": "networkConfig.enableIntraNodeVisibility",
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
            "maintenance_policy",
        }
    ),
    sent=frozenset({"effective_labels"}),
)

_DEFAULT_POOL = "default-pool"


class Cluster(Resource):
    """A cluster. Its default node pool is deleted after creation if the configuration says so."""

    filled_in = ("master_auth",)
    imports = (CLUSTER, "{project}/{location}/{name}")

    async def create(self, settings: ProviderConfig, block: Block, planned: Object) -> Object:
        """Create a cluster and wait until it is running."""
        body = conversion.to_api_body(block, planned, _NAMES)
        body |= {name: planned[name] for name in ("network", "subnetwork") if isinstance(planned.get(name), str)}
        if isinstance(planned.get("initial_node_count"), int | float):
            body["initialNodeCount"] = int(planned["initial_node_count"])
        if planned.get("node_config"):
            body["nodeConfig"] = conversion.to_api_body(
                block.blocks["node_config"].block, planned["node_config"][0], POOL, "node_config."
            )
        if isinstance(planned.get("min_master_version"), str):
            body["initialClusterVersion"] = planned["min_master_version"]
        if planned.get("maintenance_policy"):
            body["maintenancePolicy"] = _maintenance_policy(planned)
        if body.get("ipAllocationPolicy"):
            body["ipAllocationPolicy"]["useIpAliases"] = True
        await run_operation(settings, planned, "POST", fill_template(LOCATION, planned) + "/clusters", {"cluster": body})
        if planned.get("remove_default_node_pool"):
            pool = f"{fill_template(CLUSTER, planned)}/nodePools/{_DEFAULT_POOL}"
            await run_operation(settings, planned, "DELETE", pool)
        return await self.read(settings, block, planned)

    async def read(self, settings: ProviderConfig, block: Block, known: Object) -> Object:
        """Read the cluster."""
        answer = await settings.session("container").call("GET", "/" + fill_template(CLUSTER, known))
        state = conversion.to_state(block, answer, known, _NAMES)
        network = answer.get("networkConfig") or {}
        state["id"] = fill_template(CLUSTER, state)
        if known.get(conversion.IMPORTED):
            state["initial_node_count"] = answer.get("initialNodeCount")
        state["node_config"] = _node_config(block, answer.get("nodeConfig"), known)
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

    async def update(self, settings: ProviderConfig, block: Block, prior: Object, planned: Object) -> Object:
        """Update the changed fields, one operation each."""
        new, old = conversion.to_api_body(block, planned, _NAMES), conversion.to_api_body(block, prior, _NAMES)
        path = fill_template(CLUSTER, prior)
        for field, desired in _DESIRED.items():
            if new.get(field) != old.get(field):
                await run_operation(settings, planned, "PUT", path, {"update": {desired: new.get(field)}})
        gateways = [(item.get("networkConfig") or {}).get("gatewayApiConfig") for item in (new, old)]
        if gateways[0] != gateways[1]:
            await run_operation(settings, planned, "PUT", path, {"update": {"desiredGatewayApiConfig": gateways[0]}})
        if new.get("resourceLabels") != old.get("resourceLabels"):
            now = await settings.session("container").call("GET", f"/{path}")
            labels = {"resourceLabels": new.get("resourceLabels") or {}, "labelFingerprint": now.get("labelFingerprint", "")}
            await run_operation(settings, planned, "POST", f"{path}:setResourceLabels", labels)
        intranode = [bool((item.get("networkConfig") or {}).get("enableIntraNodeVisibility")) for item in (new, old)]
        if intranode[0] != intranode[1]:
            visibility = {"desiredIntraNodeVisibilityConfig": {"enabled": intranode[0]}}
            await run_operation(settings, planned, "PUT", path, {"update": visibility})
        if _maintenance_policy(planned) != _maintenance_policy(prior):
            policy = {"maintenancePolicy": _maintenance_policy(planned)}
            await run_operation(settings, planned, "POST", f"{path}:setMaintenancePolicy", policy)
        return await self.read(settings, block, planned)

    async def delete(self, settings: ProviderConfig, block: Block, prior: Object) -> None:
        """Delete the cluster."""
        await run_operation(settings, prior, "DELETE", fill_template(CLUSTER, prior))


def _node_config(block: Block, config: Object | None, known: Object) -> list[Object]:
    """The `node_config` of a cluster: GKE answers the configuration of its first node pool. It stays empty if not configured."""
    configured = [{conversion.IMPORTED: True}] if known.get(conversion.IMPORTED) else known.get("node_config") or []
    nodes = block.blocks["node_config"].block
    return [conversion.to_state(nodes, config or {}, item, POOL, "node_config.") for item in configured]


def _maintenance_policy(state: Object) -> Object:
    """The maintenance policy of the API, whose exclusions are a map by name."""
    policy = next(iter(state.get("maintenance_policy") or ()), None)
    if not policy:
        return {}
    window: Object = {}
    for daily in policy.get("daily_maintenance_window") or ():
        window["dailyMaintenanceWindow"] = {"startTime": daily["start_time"]}
    for recurring in policy.get("recurring_window") or ():
        times = {"startTime": recurring["start_time"], "endTime": recurring["end_time"]}
        window["recurringWindow"] = {"window": times, "recurrence": recurring["recurrence"]}
    for exclusion in policy.get("maintenance_exclusion") or ():
        options: Object = next(iter(exclusion.get("exclusion_options") or ()), {})
        fields = {"scope": options.get("scope"), "endTimeBehavior": options.get("end_time_behavior")}
        times = {"startTime": exclusion["start_time"], "endTime": exclusion.get("end_time")}
        window.setdefault("maintenanceExclusions", {})[exclusion["exclusion_name"]] = {
            **{key: value for key, value in times.items() if value},
            "maintenanceExclusionOptions": {key: value for key, value in fields.items() if value},
        }
    return {"window": window}


_DESIRED = {
    "releaseChannel": "desiredReleaseChannel",
    "locations": "desiredLocations",
    "loggingConfig": "desiredLoggingConfig",
    "monitoringConfig": "desiredMonitoringConfig",
    "addonsConfig": "desiredAddonsConfig",
    "masterAuthorizedNetworksConfig": "desiredMasterAuthorizedNetworksConfig",
    "workloadIdentityConfig": "desiredWorkloadIdentityConfig",
    "databaseEncryption": "desiredDatabaseEncryption",
    "binaryAuthorization": "desiredBinaryAuthorization",
    "securityPostureConfig": "desiredSecurityPostureConfig",
    "controlPlaneEndpointsConfig": "desiredControlPlaneEndpointsConfig",
    "authenticatorGroupsConfig": "desiredAuthenticatorGroupsConfig",
}


async def cluster(settings: ProviderConfig, block: Block, config: Object) -> Object:
    """The data source of a cluster."""
    known = {**config, "project": config.get("project") or settings.project, "location": config.get("location") or settings.region}
    return await Cluster().read(settings, block, known)


async def versions(settings: ProviderConfig, block: Block, config: Object) -> Object:
    """The data source of GKE's versions at a location."""
    known = {"project": config.get("project") or settings.project, "location": config.get("location") or settings.region}
    answer = await settings.session("container").call("GET", "/" + fill_template(LOCATION, known) + "/serverConfig")
    channels = {last_segment(channel["channel"]): channel for channel in answer.get("channels") or ()}
    return {
        **known,
        "id": "versions",
        "default_cluster_version": answer.get("defaultClusterVersion"),
        "valid_master_versions": answer.get("validMasterVersions") or [],
        "valid_node_versions": answer.get("validNodeVersions") or [],
        "latest_master_version": next(iter(answer.get("validMasterVersions") or ()), None),
        "latest_node_version": next(iter(answer.get("validNodeVersions") or ()), None),
        "release_channel_default_version": {name: entry.get("defaultVersion") for name, entry in channels.items()},
    }


class NodePool(Resource):
    """A node pool. Each change is sent by its own method of GKE."""

    imports = (
        "{project}/{location}/{cluster}/{name}",
        "projects/{project}/locations/{location}/clusters/{cluster}/nodePools/{name}",
    )

    async def create(self, settings: ProviderConfig, block: Block, planned: Object) -> Object:
        """Create a node pool."""
        body = _pool_body(block, planned)
        count = planned.get("node_count")
        if isinstance(count, int | float):
            body["initialNodeCount"] = int(count)
        elif not isinstance(planned.get("initial_node_count"), int | float):
            body["initialNodeCount"] = 0
        if body.get("autoscaling"):
            body["autoscaling"]["enabled"] = True
        await run_operation(settings, planned, "POST", fill_template(POOLS, planned), {"nodePool": body})
        return await self.read(settings, block, planned)

    async def read(self, settings: ProviderConfig, block: Block, known: Object) -> Object:
        """Read the node pool and its number of nodes per zone."""
        answer = await settings.session("container").call("GET", "/" + self._path(known))
        if answer.get("status") == "STOPPING":
            raise CloudNotFound(f"{self._path(known)} is being deleted")
        state = conversion.to_state(block, _readable(answer), known, POOL)
        for placement in state.get("placement_policy") or ():
            placement["type"] = str((answer.get("placementPolicy") or {}).get("type") or "")
        urls = answer.get("instanceGroupUrls") or []
        state["id"] = self._path(state)
        state["instance_group_urls"] = state["managed_instance_group_urls"] = urls
        if state.get("node_count") is not None or not (answer.get("autoscaling") or {}).get("enabled"):
            state["node_count"] = await _count(settings, urls)
        return state

    async def update(self, settings: ProviderConfig, block: Block, prior: Object, planned: Object) -> Object:
        """Size, autoscaling and management have their own methods; all other fields use update."""
        new, old = _pool_body(block, planned), _pool_body(block, prior)
        path = self._path(prior)
        if planned.get("node_count") != prior.get("node_count") and planned.get("node_count") is not None:
            await run_operation(settings, planned, "POST", f"{path}:setSize", {"nodeCount": int(planned["node_count"])})
        if new.get("autoscaling") != old.get("autoscaling"):
            autoscaling = {**(new.get("autoscaling") or {}), "enabled": bool(new.get("autoscaling"))}
            await run_operation(settings, planned, "POST", f"{path}:setAutoscaling", {"autoscaling": autoscaling})
        if new.get("management") != old.get("management"):
            management = {"management": new.get("management") or {}}
            await run_operation(settings, planned, "POST", f"{path}:setManagement", management)
        change = _pool_update(new, old)
        if change:
            await run_operation(settings, planned, "PUT", path, change)
        return await self.read(settings, block, planned)

    async def delete(self, settings: ProviderConfig, block: Block, prior: Object) -> None:
        """Delete the node pool."""
        await run_operation(settings, prior, "DELETE", self._path(prior))

    def _path(self, state: Object) -> str:
        return fill_template(POOLS, state) + f"/{state['name']}"


_READ_ONLY_PORT = "insecureKubeletReadonlyPortEnabled"


def _pool_body(block: Block, planned: Object) -> Object:
    """The node pool of the API: a string of Terraform is a boolean there, and an empty placement type is not sent."""
    body = conversion.to_api_body(block, planned, POOL)
    kubelet = (body.get("config") or {}).get("kubeletConfig") or {}
    if _READ_ONLY_PORT in kubelet:
        kubelet[_READ_ONLY_PORT] = kubelet[_READ_ONLY_PORT] == "TRUE"
    if not (body.get("placementPolicy") or {}).get("type", "-"):
        del body["placementPolicy"]["type"]
    return body


def _readable(answer: Object) -> Object:
    """The API's node pool with the strings that Terraform has for booleans."""
    config = answer.get("config") or {}
    kubelet = config.get("kubeletConfig") or {}
    if _READ_ONLY_PORT not in kubelet:
        return answer
    kubelet = {**kubelet, _READ_ONLY_PORT: "TRUE" if kubelet[_READ_ONLY_PORT] else "FALSE"}
    return {**answer, "config": {**config, "kubeletConfig": kubelet}}


def _pool_update(new: Object, old: Object) -> Object:
    """The update request for changed fields."""
    change: Object = {}
    if new.get("upgradeSettings") != old.get("upgradeSettings"):
        change["upgradeSettings"] = new.get("upgradeSettings") or {}
    if new.get("locations") != old.get("locations"):
        change["locations"] = new.get("locations") or []
    config, before = new.get("config") or {}, old.get("config") or {}
    for field in sorted({*config, *before}):
        if config.get(field) != before.get(field):
            key, empty = _WRAPPED.get(field, ("", {}))
            value = config.get(field) or empty
            change[field] = {key: value} if key else value
    return change


_WRAPPED: dict[str, tuple[str, Any]] = {
    "labels": ("labels", {}),
    "resourceLabels": ("labels", {}),
    "taints": ("taints", []),
    "tags": ("tags", []),
}
"""Fields of an update that are messages with one field, and their empty values."""


async def _count(settings: ProviderConfig, urls: list[str]) -> int:
    """The number of nodes per zone, from the instance groups."""
    sizes = []
    for url in urls:
        group = await settings.session("compute").call("GET", "/projects/" + url.partition("/projects/")[2])
        sizes.append(int(group.get("targetSize") or 0))
    return sum(sizes) // len(sizes) if sizes else 0


RESOURCES: dict[str, Resource] = {"google_container_cluster": Cluster(), "google_container_node_pool": NodePool()}
DATA_SOURCES = {"google_container_cluster": cluster, "google_container_engine_versions": versions}
