"""Kueue is killed before one of its requests and restarts without state: it never reserves more than the quota of a cohort."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.support.embedded_twin import EmbeddedTwin

from sliceworks.base import clock, quantity
from sliceworks.twin.cluster import Cluster
from sliceworks.twin.controllers.manager import current_component

KUEUE = "kueue-controller-manager"
GROUP = "/apis/kueue.x-k8s.io/v1beta2"
Obj = dict[str, Any]


class _Killer:
    """Blocks the n-th request of Kueue; `dying` is set then."""

    def __init__(self, requests: int) -> None:
        self.left, self.dying = requests, asyncio.Event()

    async def before_request(self) -> None:
        if current_component.get() != KUEUE:
            return
        self.left -= 1
        if self.left == 0:
            self.dying.set()
        if self.left <= 0 and self.dying.is_set():
            await asyncio.get_running_loop().create_future()

    def recover(self) -> None:
        self.left, self.dying = -1, asyncio.Event()


async def _create_cohort(twin: EmbeddedTwin) -> None:
    """Queues a, b and c of one cohort with 32 CPUs; c may reclaim none of it."""
    await twin.do("GET", f"{GROUP}/workloads")  # The store replays the resources in the order of their first use.
    await twin.do("POST", f"{GROUP}/resourceflavors", _object("ResourceFlavor", "f", {}))
    for name, nominal in (("a", 16), ("b", 8), ("c", 8)):
        resources = [{"name": "cpu", "nominalQuota": nominal}]
        groups = [{"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": resources}]}]
        spec = {"namespaceSelector": {}, "cohortName": "all", "resourceGroups": groups}
        await twin.do("POST", f"{GROUP}/clusterqueues", _object("ClusterQueue", name, spec))
        await twin.do("POST", f"{GROUP}/namespaces/default/localqueues", _object("LocalQueue", name, {"clusterQueue": name}))


def _object(kind: str, name: str, spec: Obj) -> Obj:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec}


async def _submit(twin: EmbeddedTwin, name: str, queue: str, cpu: int) -> None:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    metadata = {"name": name, "labels": {"kueue.x-k8s.io/queue-name": queue}}
    await twin.do("POST", "/apis/batch/v1/namespaces/default/jobs", {"metadata": metadata, "spec": spec})


async def _reserved(twin: EmbeddedTwin) -> dict[str, int]:
    """The CPUs that each job has reserved."""
    items = (await twin.do("GET", f"{GROUP}/workloads"))["items"]
    return {
        item["metadata"]["ownerReferences"][0]["name"]: sum(
            int(quantity.parse(pods["resourceUsage"]["cpu"])) for pods in item["status"]["admission"]["podSetAssignments"]
        )
        for item in items
        if (item.get("status") or {}).get("admission")
    }


@pytest.mark.parametrize("requests", [1, 2, 3, 5, 8, 13, 21])
@pytest.mark.parametrize("down", [0.0, 30.0])
def test_usage_is_rebuilt_before_the_first_decision(requests: int, down: float) -> None:
    async def main() -> None:
        killer = _Killer(-1)
        async with Cluster(between=killer.before_request) as cluster:
            twin = EmbeddedTwin(cluster)
            await _create_cohort(twin)
            await twin.quiet()
            [kueue] = [item for item in cluster.controllers.components if item.name == KUEUE]
            killer.left = requests
            for name, queue, cpu in (("a", "a", 16), ("b1", "b", 8), ("b2", "b", 8)):
                await _submit(twin, name, queue, cpu)
            await asyncio.wait_for(killer.dying.wait(), 3600)
            await _submit(twin, "c", "c", 8)
            await kueue.kill()
            await clock.sleep(down)
            killer.recover()
            cluster.controllers.restart(kueue)
            await twin.quiet()
            reserved = await _reserved(twin)
            assert sum(reserved.values()) == 32
            await kueue.kill()
            cluster.controllers.restart(kueue)
            await twin.quiet()
            assert await _reserved(twin) == reserved

    clock.run(main(), virtual=True, seed=7)
