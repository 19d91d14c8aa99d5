"""Slices that the cloud was asked for, before the cluster has a node of them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.embedded import Embedded, on_twin

from sliceworks.base import clock
from sliceworks.base.errors import CloudUnavailable
from sliceworks.console.fleet import LOOK_EVERY, fleet_of
from sliceworks.console.views import pools
from sliceworks.console.views.hosts import HostState
from sliceworks.console.world import World
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
def test_a_slice_that_is_made_or_cannot_be_had_is_there_with_whom_it_is_for(status: str, state: HostState) -> None:
    conditions = [{"canonicalCode": "RESOURCE_EXHAUSTED", "code": "GCE_STOCKOUT", "message": "no machines left"}]
    [found] = pools.coming([pool("a", status, conditions=conditions)], set(), {"ml": "team-ml"})
    assert (found.state, found.type_name, len(found.hosts), found.chips) == (state, "v4-16", 2, 8)
    assert (found.owner, found.team, found.capacity, found.zone) == ("ml/train", "team-ml", "spot", "us-central2-b")
    assert ("no machines left" in found.hosts[0].told) == (state is HostState.FAILED)


def test_pools_that_run_or_have_nodes_or_no_chips_are_told_of_by_the_cluster_alone() -> None:
    plain = pool("cpu", "PROVISIONING", config={"machineType": "n2-standard-8"})
    odd = pool("odd", "PROVISIONING", config={"machineType": "nothing-like-it"})
    assert pools.coming([pool("a", "RUNNING"), pool("b", "PROVISIONING"), plain, odd], {"b"}, {}) == []


def test_what_the_cloud_tells_comes_and_goes_with_it() -> None:
    class Cloud:
        def __init__(self) -> None:
            self.found: list[Object] | None = [pool("a", "PROVISIONING")]

        async def node_pools(self) -> list[Object]:
            if self.found is None:
                raise CloudUnavailable("no answer", code=503)
            return self.found

    async def main(twin: Embedded) -> None:
        cloud: Any = Cloud()
        async with Client(twin.cluster.transport()) as client, World(client) as world:
            await world.settled(5)
            fleet = fleet_of(world)
            await fleet.ask(None)
            assert fleet.all() == []
            await fleet.ask(cloud)
            assert [each.name for each in fleet.all()] == ["a"]
            cloud.found = None
            await fleet.ask(cloud)  # somebody just has
            assert [each.name for each in fleet.all()] == ["a"]
            await clock.sleep(LOOK_EVERY)
            await fleet.ask(cloud)
            assert fleet.all() == []

    on_twin(main)
