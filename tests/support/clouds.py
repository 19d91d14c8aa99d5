"""A twin's cloud in the test's process and in virtual time; every request and response is checked against Google's discovery
documents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
from tests.support import discovery

from sliceworks.base import clock
from sliceworks.kube.client import Client
from sliceworks.kube.resources import NODE
from sliceworks.twin.cloud.google.container.cluster_manager import ClusterManager
from sliceworks.twin.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sliceworks.twin.cloud.core.cloud_server import CloudServer
    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
PLACE = "projects/p/locations/us-central2-b"
CLUSTER = f"{PLACE}/clusters/c"
POOLS = f"{CLUSTER}/nodePools"


class Cloud:
    """A client for a twin's cloud that has a cluster named `c`."""

    def __init__(self, twin: Cluster, version: str = "v1") -> None:
        self.twin = twin
        self.server: CloudServer = twin.cloud
        self.client = Client(twin.transport())
        self.version = version
        container = self.server.services["container"]
        assert isinstance(container, ClusterManager)
        self.container = container

    async def ask(self, method: str, path: str, body: Any = None, *, token: str | None = None) -> tuple[int, Obj]:
        """Status and body of a response; checks the request and the response against Google's discovery documents."""
        data = body if isinstance(body, bytes) else orjson.dumps(body) if body is not None else b""
        bearer = self.twin.token if token is None else token
        headers = {"authorization": f"Bearer {bearer}"} if bearer else {}
        status, given, answer = await self.server.handle(method, f"/container/{self.version}/{path}", headers, data)
        assert given["content-type"].startswith("application/json")
        result: Obj = orjson.loads(answer)
        if status == 200:
            self._check(method, path, body, result)
        return status, result

    def _check(self, method: str, path: str, body: Any, answer: Obj) -> None:
        names = discovery.messages("container", self.version, method, f"{self.version}/{path.partition('?')[0]}")
        for name, value in zip(names, (body, answer), strict=True):
            if name and isinstance(value, dict):
                assert not discovery.problems("container", self.version, name, value)

    async def do(self, method: str, path: str, body: Any = None) -> Obj:
        """The body of a response that must succeed."""
        status, result = await self.ask(method, path, body)
        assert status == 200, result
        return result

    async def refused(self, method: str, path: str, body: Any = None) -> tuple[int, str, str]:
        """Code, status and message of a response that must be an error."""
        status, result = await self.ask(method, path, body)
        assert status >= 400, result
        assert result["error"]["code"] == status
        return status, result["error"]["status"], result["error"]["message"]

    async def send(self, method: str, path: str, body: Any = None, *, token: str | None = None) -> tuple[int, Obj]:
        """Status and body of an answer of any service; the path begins with the service."""
        data = orjson.dumps(body) if body is not None else b""
        headers = {"authorization": f"Bearer {self.twin.token if token is None else token}"}
        status, _, answer = await self.server.handle(method, path, headers, data)
        return status, orjson.loads(answer)

    async def call(self, method: str, path: str, body: Any = None, *, token: str | None = None) -> Obj:
        """The body of an answer of any service that must be good."""
        status, result = await self.send(method, path, body, token=token)
        assert status == 200, result
        return result

    async def network(self, region: str, nodes: str = "10.0.0.0/20", pods: str = "10.4.0.0/14") -> None:
        """The network `net` with the subnetwork `sub` and its secondary ranges `pods` and `services`."""
        await self.call("POST", "/compute/v1/projects/p/global/networks", {"name": "net", "autoCreateSubnetworks": False})
        ranges = [{"rangeName": "pods", "ipCidrRange": pods}, {"rangeName": "services", "ipCidrRange": "10.16.0.0/20"}]
        subnetwork = {
            "name": "sub",
            "network": "projects/p/global/networks/net",
            "ipCidrRange": nodes,
            "secondaryIpRanges": ranges,
        }
        await self.call("POST", f"/compute/v1/projects/p/regions/{region}/subnetworks", subnetwork)

    async def create(self, name: str, count: int = 1, **fields: Any) -> Obj:
        """Create a node pool."""
        return await self.do("POST", POOLS, {"nodePool": {"name": name, "initialNodeCount": count, **fields}})

    async def slice(self, name: str, topology: str = "2x2x4", **config: Any) -> Obj:
        """Create a node pool that is a TPU v4 slice."""
        return await self.create(
            name,
            0,
            config={"machineType": "ct4p-hightpu-4t", **config},
            placementPolicy={"type": "COMPACT", "tpuTopology": topology},
        )

    async def pool(self, name: str) -> Obj:
        """Get a node pool."""
        return await self.do("GET", f"{POOLS}/{name}")

    async def done(self, operation: Obj, most: float = 7200.0) -> Obj:
        """Wait until an operation is done."""
        until = clock.loop_time() + most
        while clock.loop_time() < until:
            result = await self.do("GET", f"{PLACE}/operations/{operation['name']}")
            if result["status"] == "DONE":
                return result
            await clock.sleep(1)
        raise AssertionError(f"{operation['name']} did not end")

    async def nodes(self, pool: str = "") -> list[Obj]:
        """The nodes of a pool, or of all pools."""
        labels = f"cloud.google.com/gke-nodepool={pool}" if pool else ""
        return (await self.client.list_all(NODE, None, labels=labels)).items

    def fault(self, fault: str, **more: Any) -> str:
        """Inject a fault."""
        return self.server.faults.add({"fault": fault, **more})

    def set(self, **settings: Any) -> None:
        """Configure the simulated container API."""
        self.container.configure(settings)


def run_on_cloud(
    main: Callable[[Cloud], Awaitable[None]],
    store: Store | None = None,
    *,
    version: str = "v1",
    workloads: bool = True,
    seed: int = 7,
) -> None:
    """Run a test's coroutine on a new twin with a cluster in its cloud."""

    async def run_main() -> None:
        async with Cluster(store, ca="the authority", workloads=workloads) as twin:
            cloud = Cloud(twin, version)
            cloud.container.clusters.adopt("p", "us-central2-b", "c")
            await main(cloud)

    clock.run(run_main(), virtual=True, seed=seed)


def is_ready(node: Obj) -> bool:
    """Whether a node's Ready condition is True."""
    return any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in node["status"].get("conditions") or ()
    )
