"""The container API as a service of the cloud: its routes in both versions, and the parts behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.cloud import schema
from sliceworks.twin.cloud.container.clusters import Clusters
from sliceworks.twin.cloud.container.fleet import Fleet
from sliceworks.twin.cloud.container.jobs import Jobs
from sliceworks.twin.cloud.container.pools import Pools
from sliceworks.twin.cloud.container.scaling import Scaling
from sliceworks.twin.cloud.container.settings import Settings
from sliceworks.twin.cloud.container.steps import Steps
from sliceworks.twin.cloud.container.stock import Stock
from sliceworks.twin.cloud.container.tending import Tending
from sliceworks.twin.cloud.container.updates import PARTS
from sliceworks.twin.cloud.container.yard import Yard
from sliceworks.twin.cloud.routes import Call, Route, Routes
from sliceworks.twin.cloud.state import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sliceworks.kube.client import Client
    from sliceworks.twin.cloud.faults import Faults
    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_CREATE, _GET, _LIST, _UPDATE, _DELETE = (f"container.clusters.{verb}" for verb in ("create", "get", "list", "update", "delete"))


class Container:
    """Clusters, node pools and operations. Nodes are made through `client`, which may lead to any Kubernetes; whether it is the
    store's `own` is told."""

    name = "container"

    def __init__(self, store: Store, client: Client, faults: Faults, *, own: bool = True) -> None:
        settings, fleet = Settings(store), Fleet(client, store if own else None)
        clusters = Table(store, "container/clusters", "Cluster")
        pools = Table(store, "container/nodePools", "NodePool")
        self.settings = settings
        self._yard = Yard(clusters, pools, settings, faults, Stock(settings), fleet)
        steps = Steps(self._yard)
        self.jobs = steps.jobs = Jobs(store, settings, faults, steps.advance)
        self.pools = Pools(self._yard, self.jobs)
        self.clusters = Clusters(self._yard, self.jobs, self.pools)
        self._tending = Tending(self._yard, self.jobs, steps)
        self._scaling = Scaling(self._yard, self.jobs, self.pools)
        steps.not_grown = self._scaling.failed
        self.versions = {version: Routes(self._routes(), schema.load("container", version)) for version in ("v1", "v1beta1")}

    def start(self) -> None:
        """Know what there is, and go on with what was begun."""
        self._tending.start()
        self._yard.saw = self._scaling.saw
        self._yard.load()
        self.jobs.start()

    async def stop(self) -> None:
        """Leave everything as it is."""
        await self._scaling.stop()
        await self.jobs.work.stop()
        await self._yard.fleet.stop()

    def configure(self, settings: Obj) -> None:
        """Behave like this from now on; the rest stays as it is."""
        given = dict(settings)
        for cluster in given.pop("clusters", None) or ():
            self.clusters.adopt(cluster["project"], cluster["location"], cluster["name"])
        self.settings.change(given)

    def quotas(self, project: str, region: str) -> list[Obj]:
        """What a project may have in a region, and how much of it is taken: only what is limited."""
        return self._yard.stock.quotas(project, region)

    def facts(self, call: Call) -> dict[str, str]:
        """What a fault may select a call by."""
        params = call.params
        path = f"projects/{params['project']}/locations/{params['location']}/clusters/{params.get('cluster', '')}"
        asked = call.body.get("nodePool")
        if asked is None and "pool" in params:
            known = self._yard.pools.get(path, params["pool"])
            asked = known.body if known else {"name": params["pool"]}
        found = self._yard.facts(path, asked)
        return found if "cluster" in params else {**found, "resource": f"projects/{params['project']}"}

    def _routes(self) -> Iterator[Route]:
        for place in ("locations", "zones"):
            at = f"projects/{{project}}/{place}/{{location}}"
            cluster, old = f"{at}/clusters/{{cluster}}", place == "zones"
            yield from self._cluster_routes(at, cluster, old=old)
            yield from self._pool_routes(cluster, f"{cluster}/nodePools/{{pool}}", old=old)
            operation = f"{at}/operations/{{operation}}"
            yield Route("GET", f"{at}/operations", "operations.list", self.jobs.find_all, "container.operations.list")
            yield Route("GET", operation, "operations.get", self.jobs.get, "container.operations.get")
            yield Route(
                "POST",
                f"{operation}:cancel",
                "operations.cancel",
                self.jobs.cancel,
                "container.operations.cancel",
                "CancelOperationRequest",
            )

    def _cluster_routes(self, at: str, cluster: str, *, old: bool) -> Iterator[Route]:
        clusters = self.clusters
        yield Route("GET", f"{at}/{'serverconfig' if old else 'serverConfig'}", "getServerConfig", clusters.server_config, _LIST)
        yield Route("GET", f"{at}/clusters", "clusters.list", clusters.find_all, _LIST)
        yield Route("POST", f"{at}/clusters", "clusters.create", clusters.create, _CREATE, "CreateClusterRequest")
        yield Route("GET", cluster, "clusters.get", clusters.get, _GET)
        yield Route("PUT", cluster, "clusters.update", clusters.update, _UPDATE, "UpdateClusterRequest")
        yield Route("DELETE", cluster, "clusters.delete", clusters.delete, _DELETE)
        for part in PARTS:
            paths = [f"{cluster}:{part.method}"]
            if old:
                paths.append(f"{cluster}/{_OLD_NAMES.get(part.method, part.method[3].lower() + part.method[4:])}")
            for path in paths:
                yield Route("POST", path, f"clusters.{part.method}", clusters.set_part(part), _UPDATE, part.request)

    def _pool_routes(self, cluster: str, pool: str, *, old: bool) -> Iterator[Route]:
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
        for verb, (answer, request) in verbs.items():
            path = f"{pool}/{'autoscaling' if verb == 'setAutoscaling' else verb}" if old else f"{pool}:{verb}"
            yield Route("POST", path, f"nodePools.{verb}", answer, _UPDATE, request)


_OLD_NAMES = {"setAddons": "addons", "setResourceLabels": "resourceLabels"}
