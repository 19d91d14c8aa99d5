"""Node pools: create, resize, update, delete, and their Nodes."""

from __future__ import annotations

import re

import pytest
from tests.support.clouds import CLUSTER, PLACE, POOLS, Cloud, is_ready, run_on_cloud

from sliceworks.base import clock
from sliceworks.kube.resources import NODE, POD
from sliceworks.twin.cloud.google.container import node_manager

NAME = re.compile(r"gke-c-slice-[0-9a-f]{8}-[a-z0-9]{4}")


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_slice_is_created_and_deleted(version: str) -> None:
    async def main(cloud: Cloud) -> None:
        operation = await cloud.slice("slice")
        assert (operation["operationType"], operation["status"]) == ("CREATE_NODE_POOL", "RUNNING")
        assert (await cloud.pool("slice"))["status"] == "PROVISIONING"
        assert await cloud.nodes() == []

        await clock.sleep(31)
        assert [is_ready(node) for node in await cloud.nodes("slice")] == [False] * 4
        assert (await cloud.pool("slice"))["status"] == "PROVISIONING"

        ended = await cloud.done(operation)
        assert "statusMessage" not in ended
        assert "error" not in ended
        pool = await cloud.pool("slice")
        assert pool["status"] == "RUNNING"
        assert pool["placementPolicy"] == {"type": "COMPACT", "tpuTopology": "2x2x4"}
        nodes = await cloud.nodes("slice")
        assert [is_ready(node) for node in nodes] == [True] * 4
        assert all(NAME.fullmatch(node["metadata"]["name"]) for node in nodes)
        (group,) = pool["instanceGroupUrls"]
        assert group.rpartition("/")[2] == nodes[0]["metadata"]["name"].rpartition("-")[0] + "-grp"

        await cloud.done(await cloud.do("DELETE", f"{POOLS}/slice"))
        assert (await cloud.refused("GET", f"{POOLS}/slice"))[:2] == (404, "NOT_FOUND")
        assert await cloud.nodes() == []

    run_on_cloud(main, version=version)


def test_slice_nodes_have_gkes_labels_and_taints() -> None:
    async def main(cloud: Cloud) -> None:
        operation = await cloud.slice(
            "slice",
            spot=True,
            labels={"team": "ml"},
            taints=[{"key": "reserved", "value": "yes", "effect": "NO_EXECUTE"}],
        )
        await cloud.done(operation)
        node = (await cloud.nodes("slice"))[0]
        labels = node["metadata"]["labels"]
        assert {
            "cloud.google.com/gke-nodepool": "slice",
            "cloud.google.com/gke-tpu-accelerator": "tpu-v4-podslice",
            "cloud.google.com/gke-tpu-topology": "2x2x4",
            "cloud.google.com/gke-accelerator-count": "4",
            "cloud.google.com/gke-spot": "true",
            "cloud.google.com/gke-provisioning": "spot",
            "cloud.google.com/machine-family": "ct4p",
            "node.kubernetes.io/instance-type": "ct4p-hightpu-4t",
            "topology.kubernetes.io/zone": "us-central2-b",
            "topology.kubernetes.io/region": "us-central2",
            "team": "ml",
        }.items() <= labels.items()
        assert node["spec"]["taints"] == [
            {"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"},
            {"key": "reserved", "value": "yes", "effect": "NoExecute"},
        ]
        assert node["spec"]["providerID"] == f"gce://p/us-central2-b/{node['metadata']['name']}"
        capacity, left = node["status"]["capacity"], node["status"]["allocatable"]
        assert (capacity["cpu"], capacity["memory"], capacity["google.com/tpu"]) == ("240", "407Gi", "4")
        assert (left["google.com/tpu"], left["cpu"]) == ("4", "239330m")

    run_on_cloud(main)


def test_pods_are_scheduled_only_to_initialized_nodes() -> None:
    async def main(cloud: Cloud) -> None:
        cloud.fault("SlowBoot", seconds=200)
        container = {"name": "main", "image": "example.com/app:1", "resources": {"requests": {"cpu": "1"}}}
        metadata = {"name": "p", "namespace": "default"}
        await cloud.client.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}})
        operation = await cloud.create("cpu", config={"machineType": "n2-standard-4"})
        await clock.sleep(200)
        (node,) = await cloud.nodes("cpu")
        assert "node.cloudprovider.kubernetes.io/uninitialized" in [taint["key"] for taint in node["spec"]["taints"]]
        assert "nodeName" not in (await cloud.client.get(POD, "p"))["spec"]
        await cloud.done(operation)
        await clock.sleep(5)
        (node,) = await cloud.nodes("cpu")
        assert is_ready(node)
        assert not node["spec"].get("taints")
        assert (await cloud.client.get(POD, "p"))["status"]["phase"] == "Running"

    run_on_cloud(main)


def test_regional_cluster_has_nodes_in_each_zone() -> None:
    async def main(cloud: Cloud) -> None:
        cloud.container.clusters.adopt("p", "europe-west4", "other")
        request = {"name": "cpu", "initialNodeCount": 2, "config": {"machineType": "n2-standard-4"}}
        pools = "projects/p/locations/europe-west4/clusters/other/nodePools"
        await cloud.do("POST", pools, {"nodePool": request})
        pool = await cloud.do("GET", f"{pools}/cpu")
        assert pool["locations"] == ["europe-west4-a", "europe-west4-b", "europe-west4-c"]
        assert len(pool["instanceGroupUrls"]) == 3
        assert pool["config"] == request["config"]
        assert pool["initialNodeCount"] == 2

    run_on_cloud(main)


def test_node_pool_leaves_other_nodes_alone() -> None:
    async def main(cloud: Cloud) -> None:
        mine = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "mine", "labels": {"cloud.google.com/gke-nodepool": "one"}},
        }
        await cloud.client.create(mine, resource=NODE)
        operations = [await cloud.create(name, 2) for name in ("one", "two")]
        for operation in operations:
            await cloud.done(operation)
        assert len(await cloud.nodes()) == 5
        await cloud.done(await cloud.do("DELETE", f"{POOLS}/one"))
        left = {node["metadata"]["name"] for node in await cloud.nodes()}
        assert "mine" in left
        assert len(left) == 3
        assert [pool["name"] for pool in (await cloud.do("GET", POOLS))["nodePools"]] == ["two"]

    run_on_cloud(main)


def test_set_size_scales_up_and_down_to_zero() -> None:
    async def main(cloud: Cloud) -> None:
        await cloud.done(await cloud.create("cpu", 1))
        first = {node["metadata"]["name"] for node in await cloud.nodes("cpu")}
        for count in (3, 1, 0, 2):
            operation = await cloud.do("POST", f"{POOLS}/cpu:setSize", {"nodeCount": count})
            assert operation["operationType"] == "SET_NODE_POOL_SIZE"
            assert (await cloud.pool("cpu"))["status"] == "RECONCILING"
            await cloud.done(operation)
            names = {node["metadata"]["name"] for node in await cloud.nodes("cpu")}
            assert len(names) == count
            assert (await cloud.pool("cpu"))["status"] == "RUNNING"
            assert first <= names or count in (0, 2)

    run_on_cloud(main)


def test_node_pools_that_exceed_the_nodes_of_the_twin_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_manager, "_END_NUMBER", node_manager._FIRST_NUMBER + 3)

    async def main(cloud: Cloud) -> None:
        await cloud.done(await cloud.create("cpu", 1))
        code, status, message = await cloud.refused("POST", f"{POOLS}/cpu:setSize", {"nodeCount": 4})
        assert (code, status, message) == (429, "RESOURCE_EXHAUSTED", "The twin supports 3 nodes of node pools.")
        await cloud.done(await cloud.do("POST", f"{POOLS}/cpu:setSize", {"nodeCount": 3}))
        assert len(await cloud.nodes("cpu")) == 3

    run_on_cloud(main)


def test_multi_host_slice_cannot_be_resized() -> None:
    async def main(cloud: Cloud) -> None:
        await cloud.done(await cloud.slice("slice"))
        code, status, message = await cloud.refused("POST", f"{POOLS}/slice:setSize", {"nodeCount": 2})
        assert (code, status) == (400, "INVALID_ARGUMENT")
        assert "multi-host TPU" in message
        assert len(await cloud.nodes("slice")) == 4

    run_on_cloud(main)


def test_management_and_autoscaling_change_when_operations_end() -> None:
    async def main(cloud: Cloud) -> None:
        await cloud.done(await cloud.create("cpu", 1))
        management = {"autoRepair": True, "autoUpgrade": True}
        operation = await cloud.do("POST", f"{POOLS}/cpu:setManagement", {"management": management})
        assert "management" not in await cloud.pool("cpu")
        await cloud.done(operation)
        scaling = {"enabled": True, "minNodeCount": 0, "maxNodeCount": 5}
        await cloud.done(await cloud.do("POST", f"{POOLS}/cpu:setAutoscaling", {"autoscaling": scaling}))
        await cloud.done(
            await cloud.do("PUT", f"{POOLS}/cpu", {"labels": {"labels": {"a": "b"}}, "upgradeSettings": {"maxSurge": 1}})
        )
        pool = await cloud.pool("cpu")
        assert (pool["management"], pool["autoscaling"]) == (management, scaling)
        assert (pool["config"], pool["upgradeSettings"]) == ({"labels": {"a": "b"}}, {"maxSurge": 1})
        assert (await cloud.nodes("cpu"))[0]["metadata"]["labels"]["a"] == "b"
        taints = [{"key": "k", "value": "v", "effect": "NO_SCHEDULE"}]
        change = {"labels": {"labels": {"c": "d"}}, "taints": {"taints": taints}}
        await cloud.done(await cloud.do("PUT", f"{POOLS}/cpu", change))
        (node,) = await cloud.nodes("cpu")
        labels = node["metadata"]["labels"]
        assert ("a" in labels, labels["c"], labels["cloud.google.com/gke-nodepool"]) == (False, "d", "cpu")
        assert node["spec"]["taints"] == [{"key": "k", "value": "v", "effect": "NoSchedule"}]

    run_on_cloud(main)


@pytest.mark.parametrize(
    ("pool", "words"),
    [
        ({"name": "Big"}, 'Invalid value for field "node_pool.name": "Big"'),
        ({"name": "a" * 41}, "no longer than 40 characters"),
        ({}, 'Invalid value for field "node_pool.name": ""'),
        ({"name": "a", "config": {"machineType": "x9"}}, 'Machine type with name "x9" does not exist.'),
        ({"name": "a", "initialNodeCount": -1}, "Node count -1 is not valid"),
        ({"name": "a", "locations": ["us-east1-b"]}, 'Location "us-east1-b" is not a zone of region "us-central2".'),
        (
            {"name": "a", "config": {"machineType": "ct4p-hightpu-4t"}, "placementPolicy": {"tpuTopology": "2x2x1"}},
            "TPU topology can't be specified with single-host TPU slice pool",
        ),
        (
            {"name": "a", "config": {"machineType": "ct4p-hightpu-4t"}, "placementPolicy": {"tpuTopology": "2x3x4"}},
            "Invalid TPU topology '2x3x4'",
        ),
        (
            {
                "name": "a",
                "initialNodeCount": 3,
                "config": {"machineType": "ct4p-hightpu-4t"},
                "placementPolicy": {"type": "COMPACT", "tpuTopology": "2x2x4"},
            },
            "Initial node count 3 is not a valid size of TPU pod slice with topology 2x2x4.",
        ),
        (
            {"name": "a", "initialNodeCount": 1, "autoscaling": {"enabled": True, "minNodeCount": 3, "maxNodeCount": 2}},
            "maximum node count",
        ),
        ({"name": "a", "colour": "red"}, "Unknown name \"colour\" at 'node_pool': Cannot find field."),
        (
            {"name": "a", "config": {"taints": [{"effect": "NEVER"}]}},
            "Invalid value at 'node_pool.config.taints[0].effect'",
        ),
        ({"name": "a", "initialNodeCount": "many"}, "Invalid value at 'node_pool.initial_node_count' (TYPE_INT32), \"many\""),
    ],
)
def test_invalid_node_pool_is_rejected(pool: dict[str, object], words: str) -> None:
    async def main(cloud: Cloud) -> None:
        code, status, message = await cloud.refused("POST", POOLS, {"nodePool": pool})
        assert (code, status) == (400, "INVALID_ARGUMENT")
        assert words in message
        assert "nodePools" not in await cloud.do("GET", POOLS)

    run_on_cloud(main, workloads=False)


def test_duplicate_name_is_rejected() -> None:
    async def main(cloud: Cloud) -> None:
        await cloud.create("one")
        code, status, message = await cloud.refused("POST", POOLS, {"nodePool": {"name": "one"}})
        assert (code, status, message) == (409, "ALREADY_EXISTS", f"Already exists: {POOLS}/one.")
        assert (await cloud.refused("GET", f"{PLACE}/clusters/x/nodePools"))[2] == f"Not found: {PLACE}/clusters/x."
        assert (await cloud.refused("DELETE", f"{CLUSTER}/nodePools/two"))[0] == 404

    run_on_cloud(main, workloads=False)
