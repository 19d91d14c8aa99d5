"""The cluster autoscaler: scale up from zero and down to zero, limits, and multi-host slices as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.clouds import PLACE, POOLS, Cloud, run_on_cloud

from sliceworks.base import clock
from sliceworks.kube.resources import POD
from sliceworks.twin.cloud.google.container import cluster_autoscaler
from sliceworks.twin.cloud.google.container.cluster_autoscaler import ScalablePool, scale_up
from sliceworks.twin.cloud.google.container.node_manager import NodeManager
from sliceworks.twin.scheduler.node_plugins import check_resources

if TYPE_CHECKING:
    import pytest


def pod(name: str, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}, **spec.pop("limits", {})}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"containers": [container], **spec},
    }


def template(zone: str = "a", cpu: str = "4", **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": "new", "labels": {"zone": zone, **labels}},
        "status": {"allocatable": {"cpu": cpu, "memory": "16Gi", "pods": "110"}},
    }


def scalable_pool(name: str = "one", max_per_zone: int = 5, **more: Any) -> ScalablePool:
    return ScalablePool(name, {"a": 0}, {"a": template(pool=name)}, max_per_zone, **more)


def test_scale_up_adds_the_nodes_that_pods_need() -> None:
    nine_pods = [pod(f"p-{number}") for number in range(9)]
    assert scale_up([scalable_pool()], nine_pods).counts == {"one": {"a": 3}}
    assert scale_up([scalable_pool(max_per_zone=2)], nine_pods).counts == {"one": {"a": 2}}
    assert scale_up([scalable_pool(max_per_zone=0, max_total=1)], nine_pods).counts == {"one": {"a": 1}}
    assert scale_up([scalable_pool(upcoming=["a"])], [pod(f"p-{number}") for number in range(4)]).counts == {}
    assert scale_up([scalable_pool()], [pod("large", cpu="5")]).remaining == [pod("large", cpu="5")]


def test_scale_up_does_not_try_equal_pods_on_full_nodes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = 0

    def count_checks(*arguments: Any) -> Any:
        nonlocal checks
        checks += 1
        return check_resources(*arguments)

    monkeypatch.setattr(cluster_autoscaler, "check_resources", count_checks)
    counts = scale_up([scalable_pool(max_per_zone=500)], [pod(f"p-{number}", cpu="4") for number in range(500)]).counts
    assert counts == {"one": {"a": 500}}
    assert checks <= 4 * 500


def test_scale_up_uses_the_selected_node_pool() -> None:
    pools = [scalable_pool("one"), scalable_pool("two")]
    assert scale_up(pools, [pod("p", nodeSelector={"pool": "two"})]).counts == {"two": {"a": 1}}


def test_scale_up_balances_zones_and_keeps_slices_whole() -> None:
    zones = {"a": template("a"), "b": template("b")}
    pool = ScalablePool("one", {"a": 1, "b": 0}, zones, 5)
    assert scale_up([pool], [pod("p", cpu="4"), pod("q", cpu="4")]).counts == {"one": {"a": 2, "b": 1}}
    assert scale_up([scalable_pool(step=4)], [pod("p")]).counts == {"one": {"a": 4}}
    assert scale_up([scalable_pool(step=4, max_per_zone=3)], [pod("p")]).counts == {}


def test_node_pool_scales_from_and_to_zero() -> None:
    async def main(cloud: Cloud) -> None:
        scaling = {"enabled": True, "minNodeCount": 0, "maxNodeCount": 3}
        await cloud.done(await cloud.create("cpu", 0, config={"machineType": "n2-standard-4"}, autoscaling=scaling))
        assert await cloud.nodes() == []
        for number in range(6):
            await cloud.client.create(pod(f"p-{number}", cpu="1500m"))
        await clock.sleep(200)
        assert len(await cloud.nodes("cpu")) == 3
        result = await cloud.client.list_all(POD, "default")
        assert {item["status"]["phase"] for item in result.items} == {"Running"}
        operations = (await cloud.do("GET", f"{PLACE}/operations"))["operations"]
        assert [operation["operationType"] for operation in operations] == ["CREATE_NODE_POOL"]

        for number in range(6):
            await cloud.client.delete(POD, f"p-{number}", "default")
        await clock.sleep(500)
        assert len(await cloud.nodes("cpu")) == 3
        await clock.sleep(400)
        assert await cloud.nodes("cpu") == []
        assert (await cloud.pool("cpu"))["status"] == "RUNNING"

        await cloud.client.create(pod("again"))
        await clock.sleep(200)
        assert len(await cloud.nodes("cpu")) == 1
        await cloud.done(await cloud.do("DELETE", f"{POOLS}/cpu"))
        assert await cloud.nodes() == []

    run_on_cloud(main)


def test_node_pool_deleted_during_a_scan_stays_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(cloud: Cloud) -> None:
        scaling = {"enabled": True, "minNodeCount": 0, "maxNodeCount": 3}
        await cloud.done(await cloud.create("cpu", 0, config={"machineType": "n2-standard-4"}, autoscaling=scaling))
        await cloud.client.create(pod("p"))
        count, requests = NodeManager.unschedulable_pods, list[Any]()

        async def slowly(manager: NodeManager) -> list[Any]:
            result = await count(manager)
            if result and not requests:
                requests.append(await cloud.do("DELETE", f"{POOLS}/cpu"))
                await cloud.done(requests[0])
            return result

        monkeypatch.setattr(NodeManager, "unschedulable_pods", slowly)
        await clock.sleep(300)
        assert requests
        assert "nodePools" not in await cloud.do("GET", POOLS)
        assert await cloud.nodes() == []

    run_on_cloud(main)


def test_autoscaler_continues_after_a_failed_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(cloud: Cloud) -> None:
        scaling = {"enabled": True, "minNodeCount": 0, "maxNodeCount": 3}
        await cloud.done(await cloud.create("cpu", 0, config={"machineType": "n2-standard-4"}, autoscaling=scaling))
        count, failed = NodeManager.unschedulable_pods, list[str]()

        async def at_first_not(manager: NodeManager) -> list[Any]:
            if not failed:
                failed.append("once")
                raise KeyError("a pod like no other")
            return await count(manager)

        monkeypatch.setattr(NodeManager, "unschedulable_pods", at_first_not)
        await cloud.client.create(pod("p"))
        await clock.sleep(300)
        assert len(await cloud.nodes("cpu")) == 1

    run_on_cloud(main)


def test_node_pool_keeps_its_minimum_size() -> None:
    async def main(cloud: Cloud) -> None:
        scaling = {"enabled": True, "minNodeCount": 1, "maxNodeCount": 3}
        await cloud.done(await cloud.create("cpu", 3, autoscaling=scaling))
        await clock.sleep(1500)
        assert len(await cloud.nodes("cpu")) == 1

    run_on_cloud(main)


def test_slice_scales_as_a_whole() -> None:
    async def main(cloud: Cloud) -> None:
        pool = {
            "name": "slice",
            "config": {"machineType": "ct4p-hightpu-4t"},
            "placementPolicy": {"type": "COMPACT", "tpuTopology": "2x2x4"},
            "autoscaling": {"enabled": True, "minNodeCount": 0, "maxNodeCount": 4},
        }
        await cloud.done(await cloud.do("POST", POOLS, {"nodePool": pool}))
        await clock.sleep(900)
        assert await cloud.nodes() == [], "no pod needs it"
        chips = {"requests": {"google.com/tpu": "4"}, "limits": {"google.com/tpu": "4"}}
        selector = {"cloud.google.com/gke-tpu-topology": "2x2x4"}
        tolerations = [{"key": "google.com/tpu", "operator": "Exists"}]
        await cloud.client.create(pod("worker", limits=chips, nodeSelector=selector, tolerations=tolerations))
        await clock.sleep(200)
        assert len(await cloud.nodes("slice")) == 4
        await clock.sleep(2000)
        assert len(await cloud.nodes("slice")) == 4, "one of its hosts is needed"
        await cloud.client.delete(POD, "worker", "default")
        await clock.sleep(1000)
        assert await cloud.nodes("slice") == []

    run_on_cloud(main)


def test_scale_up_is_retried_after_a_stockout() -> None:
    async def main(cloud: Cloud) -> None:
        scaling = {"enabled": True, "minNodeCount": 0, "maxNodeCount": 3}
        await cloud.done(await cloud.create("cpu", 0, autoscaling=scaling))
        cloud.fault("Stockout", **{"for": 600})
        await cloud.client.create(pod("p", cpu="100m"))
        await clock.sleep(500)
        assert await cloud.nodes() == []
        assert (await cloud.pool("cpu"))["status"] == "RUNNING"
        await clock.sleep(700)
        assert len(await cloud.nodes()) == 1

    run_on_cloud(main)


def test_autopilot_cluster_creates_node_pools_for_pods() -> None:
    async def main(cloud: Cloud) -> None:
        for cluster in list(cloud.container._state.clusters.all()):
            cloud.container._state.clusters.delete(cluster)
        place = "projects/p/locations/us-central1"
        operation = await cloud.do("POST", f"{place}/clusters", {"cluster": {"name": "auto", "autopilot": {"enabled": True}}})
        await clock.sleep(400)
        assert (await cloud.do("GET", f"{place}/operations/{operation['name']}"))["status"] == "DONE"
        chips = {"requests": {"google.com/tpu": "4"}, "limits": {"google.com/tpu": "4"}}
        gpus = {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}
        topology = {"cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice", "cloud.google.com/gke-tpu-topology": "4x4"}
        anywhere = [{"operator": "Exists"}]
        await cloud.client.create(pod("web", cpu="500m"))
        await cloud.client.create(pod("large", cpu="40"))
        await cloud.client.create(pod("tpu", limits=chips, nodeSelector=topology, tolerations=anywhere))
        await cloud.client.create(
            pod("gpu", limits=gpus, nodeSelector={"cloud.google.com/gke-accelerator": "nvidia-l4"}, tolerations=anywhere)
        )
        await clock.sleep(600)
        result = {item["metadata"]["name"]: item for item in (await cloud.client.list_all(POD, "default")).items}
        assert {name: item["status"]["phase"] for name, item in result.items()} == dict.fromkeys(result, "Running")
        nodes = {node["metadata"]["name"]: node["metadata"]["labels"] for node in await cloud.nodes()}
        machines = {name: nodes[item["spec"]["nodeName"]]["node.kubernetes.io/instance-type"] for name, item in result.items()}
        assert machines == {"web": "e2-standard-8", "large": "n2-standard-48", "tpu": "ct5lp-hightpu-4t", "gpu": "g2-standard-4"}
        for name in result:
            await cloud.client.delete(POD, name, "default")
        await clock.sleep(2000)
        assert await cloud.nodes() == []
        pools = (await cloud.do("GET", f"{place}/clusters/auto/nodePools"))["nodePools"]
        assert [pool["name"] for pool in pools] == ["default-pool"]

    run_on_cloud(main)
