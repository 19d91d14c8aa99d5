"""Slices that were requested from the cloud, before the cluster has their nodes."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.embedded_twin import EmbeddedTwin, run_on_twin

from sliceworks.base import clock
from sliceworks.base.errors import CloudUnavailable
from sliceworks.console.cluster_cache import ClusterCache
from sliceworks.console.slice_cache import POLL_INTERVAL, get_slice_cache
from sliceworks.console.views import slice_view
from sliceworks.console.views.hosts import HostState
from sliceworks.kube.client import Client

Object = dict[str, Any]


def pool(name: str, status: str, **more: Any) -> Object:
    labels = {
        "google.com/nodepool-manager": "tpu-provisioner",
        "google.com/tpu-provisioner-jobset-name": "train",
        "google.com/tpu-provisioner-jobset-namespace": "ml",
    }
    return {
        "name": name,
        "status": status,
        "initialNodeCount": 2,
        "locations": ["us-central2-b"],
        "config": {"machineType": "ct4p-hightpu-4t", "labels": labels, "spot": True},
        "placementPolicy": {"tpuTopology": "2x2x2"},
        **more,
    }


@pytest.mark.parametrize(
    ("status", "state"), [("PROVISIONING", HostState.BOOTING), ("STOPPING", HostState.DRAINING), ("ERROR", HostState.FAILED)]
)
def test_pending_or_failed_slice_is_shown_with_its_owner(status: str, state: HostState) -> None:
    conditions = [{"canonicalCode": "RESOURCE_EXHAUSTED", "code": "GCE_STOCKOUT", "message": "no machines left"}]
    [result] = slice_view.pending_slices([pool("a", status, conditions=conditions)], set(), {"ml": "team-ml"})
    assert (result.state, result.type_name, len(result.hosts), result.chips) == (state, "v4-16", 2, 8)
    assert (result.owner, result.team, result.capacity, result.zone) == ("ml/train", "team-ml", "spot", "us-central2-b")
    assert ("no machines left" in result.hosts[0].summary) == (state is HostState.FAILED)


def test_running_slice_without_nodes_is_missing_unless_it_is_autoscaled() -> None:
    scaled = pool("b", "RUNNING", autoscaling={"enabled": True})
    [result] = slice_view.pending_slices([pool("a", "RUNNING"), scaled], set(), {})
    assert (result.name, result.state, len(result.hosts)) == ("a", HostState.MISSING, 2)


def test_running_pools_are_shown_from_the_cluster_only() -> None:
    plain = pool("cpu", "PROVISIONING", config={"machineType": "n2-standard-8"})
    odd = pool("odd", "PROVISIONING", config={"machineType": "nothing-like-it"})
    assert slice_view.pending_slices([pool("a", "RUNNING"), pool("b", "PROVISIONING"), plain, odd], {"a", "b"}, {}) == []


def test_pools_follow_the_cloud() -> None:
    class Cloud:
        def __init__(self) -> None:
            self.found: list[Object] | None = [pool("a", "PROVISIONING")]

        async def list_node_pools(self) -> list[Object]:
            if self.found is None:
                raise CloudUnavailable("no answer", code=503)
            return self.found

    async def main(twin: EmbeddedTwin) -> None:
        cloud: Any = Cloud()
        async with Client(twin.cluster.transport()) as client, ClusterCache(client) as cache:
            await cache.settled(5)
            fleet = get_slice_cache(cache)
            await fleet.poll(None)
            assert fleet.all() == []
            await fleet.poll(cloud)
            assert [item.name for item in fleet.all()] == ["a"]
            cloud.found = None
            await fleet.poll(cloud)  # polled just before
            assert [item.name for item in fleet.all()] == ["a"]
            await clock.sleep(POLL_INTERVAL)
            await fleet.poll(cloud)
            assert fleet.all() == []

    run_on_twin(main)
