"""The container API (google.container.v1.ClusterManager): routes in both versions, and the parts behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.cloud.core import schema
from sliceworks.twin.cloud.core.document_store import Table
from sliceworks.twin.cloud.core.routes import Call, Route, Routes
from sliceworks.twin.cloud.google.container.auto_repair import AutoRepair
from sliceworks.twin.cloud.google.container.capacity import Capacity, ContainerSettings
from sliceworks.twin.cloud.google.container.cluster_autoscaler import ClusterAutoscaler
from sliceworks.twin.cloud.google.container.cluster_operation import ContainerOperations
from sliceworks.twin.cloud.google.container.dependencies import Dependencies
from sliceworks.twin.cloud.google.container.gke_cluster import CLUSTER_SETTINGS, Clusters
from sliceworks.twin.cloud.google.container.gke_state import GkeState
from sliceworks.twin.cloud.google.container.managed_addons import ManagedAddons
from sliceworks.twin.cloud.google.container.node_manager import NodeManager
from sliceworks.twin.cloud.google.container.node_pool import NodePools
from sliceworks.twin.cloud.google.container.operation_steps import OperationSteps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sliceworks.kube.client import Client
    from sliceworks.twin.cloud.core.faults import Faults
    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_CREATE, _GET, _LIST, _UPDATE, _DELETE = (f"container.clusters.{verb}" for verb in ("create", "get", "list", "update", "delete"))


class ClusterManager:
    """Clusters, node pools and operations. Nodes are created with `client`; `own` says that its cluster uses `store` itself."""

    name = "container"

    def __init__(self, store: Store, client: Client, faults: Faults, *, own: bool = True) -> None:
        settings = ContainerSettings(store)
        clusters = Table(store, "container/clusters", "Cluster")
        pools = Table(store, "container/nodePools", "NodePool")
        self.settings = settings
        node_manager = NodeManager(client, store if own else None)
        self._state = GkeState(clusters, pools, settings, faults, Capacity(settings), node_manager, Dependencies(store))
        steps = OperationSteps(self._state)
        self.operations = steps.operations = ContainerOperations(store, self._state, steps.advance)
        self.pools = NodePools(self._state, self.operations)
        self.clusters = Clusters(self._state, self.operations, self.pools)
        self._addons = ManagedAddons(store, client) if own else None
        self._auto_repair = AutoRepair(self._state, self.operations, steps)
        self._autoscaler = ClusterAutoscaler(self._state, self.operations, self.pools)
        steps.on_scale_up_failed = self._autoscaler.back_off
        self.versions = {version: Routes(self._routes(), schema.load("container", version)) for version in ("v1", "v1beta1")}

    def start(self) -> None:
        """Load the state and resume operations."""
        self._auto_repair.start()
        self._state.on_pool_changed = self._autoscaler.on_pool_changed
        self._state.load()
        self.operations.start()
        if self._addons is not None:
            self._addons.start()

    async def stop(self) -> None:
        """Stop all tasks; the stored state stays as it is."""
        await self._autoscaler.stop()
        if self._addons is not None:
            await self._addons.stop()
        await self.operations.queue.stop()
        await self._state.node_manager.stop()

    def configure(self, settings: Obj) -> None:
        """Change settings, and adopt the clusters under `clusters`."""
        change = dict(settings)
        for cluster in change.pop("clusters", None) or ():
            self.clusters.adopt(cluster["project"], cluster["location"], cluster["name"])
        self.settings.change(change)

    def cluster_names(self) -> list[Obj]:
        """Project, location and name of every cluster."""
        paths = ([*cluster.parent.split("/"), cluster.name] for cluster in self._state.clusters.all())
        return [{"project": path[1], "location": path[3], "name": path[4]} for path in paths]

    def quotas(self, project: str, region: str) -> list[Obj]:
        """The limited quotas of a project in a region, and their usage."""
        return self._state.capacity.quotas(project, region)

    def resolve_alias(self, path: str) -> str | None:
        """No aliases."""
        return None

    def attributes(self, call: Call) -> dict[str, str]:
        """The attributes by which a fault selects calls."""
        params = call.params
        path = f"projects/{params['project']}/locations/{params['location']}/clusters/{params.get('cluster', '')}"
        pool = call.body.get("nodePool")
        if pool is None and "pool" in params:
            document = self._state.pools.get(path, params["pool"])
            pool = document.body if document else {"name": params["pool"]}
        attributes = self._state.attributes(path, pool)
        return attributes if "cluster" in params else {**attributes, "resource": f"projects/{params['project']}"}

    def _routes(self) -> Iterator[Route]:
        permissions, operations = "container.operations", self.operations
        for scope in ("locations", "zones"):
            location = f"projects/{{project}}/{scope}/{{location}}"
            cluster, zonal = f"{location}/clusters/{{cluster}}", scope == "zones"
            yield from self._cluster_routes(location, cluster, zonal=zonal)
            yield from self._pool_routes(cluster, f"{cluster}/nodePools/{{pool}}", zonal=zonal)
            path, request = f"{location}/operations/{{operation}}", "CancelOperationRequest"
            yield Route("GET", f"{location}/operations", "operations.list", operations.find_all, f"{permissions}.list")
            yield Route("GET", path, "operations.get", operations.get, f"{permissions}.get")
            yield Route("POST", f"{path}:cancel", "operations.cancel", operations.cancel, f"{permissions}.cancel", request)

    def _cluster_routes(self, location: str, cluster: str, *, zonal: bool) -> Iterator[Route]:
        clusters = self.clusters
        server_config = "serverconfig" if zonal else "serverConfig"
        yield Route("GET", f"{location}/{server_config}", "getServerConfig", clusters.server_config, _LIST)
        yield Route("GET", f"{location}/clusters", "clusters.list", clusters.find_all, _LIST)
        yield Route("POST", f"{location}/clusters", "clusters.create", clusters.create, _CREATE, "CreateClusterRequest")
        yield Route("GET", cluster, "clusters.get", clusters.get, _GET)
        yield Route("PUT", cluster, "clusters.update", clusters.update, _UPDATE, "UpdateClusterRequest")
        yield Route("DELETE", cluster, "clusters.delete", clusters.delete, _DELETE)
        for setting in CLUSTER_SETTINGS:
            paths = [f"{cluster}:{setting.method}"]
            if zonal:
                paths.append(f"{cluster}/{_ZONAL_NAMES.get(setting.method, setting.method[3].lower() + setting.method[4:])}")
            for path in paths:
                yield Route("POST", path, f"clusters.{setting.method}", clusters.set_field(setting), _UPDATE, setting.request)

    def _pool_routes(self, cluster: str, pool: str, *, zonal: bool) -> Iterator[Route]:
        pools = self.pools
        yield Route("GET", f"{cluster}/nodePools", "nodePools.list", pools.find_all, _GET)
        yield Route("POST", f"{cluster}/nodePools", "nodePools.create", pools.create, _UPDATE, "CreateNodePoolRequest")
        yield Route("GET", pool, "nodePools.get", pools.get, _GET)
        yield Route("DELETE", pool, "nodePools.delete", pools.delete, _UPDATE)
        yield Route("PUT", pool, "nodePools.update", pools.update, _UPDATE, "UpdateNodePoolRequest")
        verbs: dict[str, tuple[Callable[[Call], Obj], str]] = {
            "setSize": (pools.set_size, "SetNodePoolSizeRequest"),
            "setManagement": (pools.set_management, "SetNodePoolManagementRequest"),
            "setAutoscaling": (pools.set_autoscaling, "SetNodePoolAutoscalingRequest"),
            "update": (pools.update, "UpdateNodePoolRequest"),
        }
        for verb, (handler, request) in verbs.items():
            path = f"{pool}/{'autoscaling' if verb == 'setAutoscaling' else verb}" if zonal else f"{pool}:{verb}"
            yield Route("POST", path, f"nodePools.{verb}", handler, _UPDATE, request)


_ZONAL_NAMES = {"setAddons": "addons", "setResourceLabels": "resourceLabels"}
