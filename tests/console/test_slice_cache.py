"""The slices of a live cluster: updated incrementally, and equal to a full rebuild."""

from typing import Any

import pytest
from tests.support.embedded_twin import EmbeddedTwin, run_on_twin

from sliceworks.base import clock
from sliceworks.console.cluster_cache import ClusterCache
from sliceworks.console.kinds import JOBSETS, NODES, PODS
from sliceworks.console.slice_cache import get_slice_cache
from sliceworks.console.views import slice_view
from sliceworks.kube.client import Client

Object = dict[str, Any]
_GKE = "cloud.google.com/gke-"


def node(name: str, pool: str) -> Object:
    labels = {f"{_GKE}nodepool": pool, f"{_GKE}tpu-accelerator": "tpu-v5-lite-podslice", f"{_GKE}tpu-topology": "2x4"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"sliceworks.dev/node": "simulated", **labels}},
        "status": {"capacity": {"cpu": "8", "memory": "8Gi", "pods": "10", "google.com/tpu": "4"}},
    }


def pod(name: str) -> Object:
    container = {"name": "c", "image": "i", "resources": {"limits": {"google.com/tpu": "4"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"jobset.sigs.k8s.io/jobset-name": "train"}},
        "spec": {"containers": [container]},
    }


def test_only_changed_pools_are_rebuilt(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    of_pool = slice_view.slices_of_pool

    def counted(pool: str, *rest: Any) -> Any:
        read.append(pool)
        return of_pool(pool, *rest)

    async def main(twin: EmbeddedTwin) -> None:
        for name, pool in (("a-0", "a"), ("a-1", "a"), ("b-0", "b"), ("b-1", "b")):
            await twin.do("POST", "/api/v1/nodes", node(name, pool))
        await twin.quiet()
        async with Client(twin.cluster.transport()) as client, ClusterCache(client) as cache:
            await cache.settled(5)
            result = get_slice_cache(cache)
            assert get_slice_cache(cache) is result

            def rebuilt_slices() -> dict[str, str]:
                now = {view.name: view.status for view in result.all()}
                tables = [cache.table(item).all() for item in (NODES, PODS, JOBSETS)]
                assert {view.name: view.status for view in slice_view.list_slices(*tables)} == now
                return now

            assert rebuilt_slices() == {"a": "2 ready", "b": "2 ready"}
            read.clear()
            await twin.do("POST", "/api/v1/namespaces/default/pods", pod("w"))
            await clock.sleep(30)
            [busy] = [view.name for view in result.all() if view.owner]
            assert set(read) == {busy}
            after = rebuilt_slices()
            assert sorted(after.values()) == ["1 running, 1 ready", "2 ready"]
            one = result.named(busy)
            assert one is not None
            assert (one.owner, after[busy]) == ("default/train", "1 running, 1 ready")
            version = result.version
            assert result.all() is result.all()
            await twin.do("DELETE", "/api/v1/namespaces/default/pods/w?gracePeriodSeconds=0")
            await twin.do("DELETE", "/api/v1/nodes/b-0")
            await clock.sleep(5)
            assert rebuilt_slices() == {"a": "2 ready", "b": "1 missing, 1 ready"}
            assert result.version > version
            await twin.do("DELETE", "/api/v1/nodes/b-1")
            await clock.sleep(5)
            assert rebuilt_slices() == {"a": "2 ready"}
            assert result.named("b") is None

    monkeypatch.setattr(slice_view, "slices_of_pool", counted)
    run_on_twin(main, workloads=True)
