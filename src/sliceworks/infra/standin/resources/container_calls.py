"""What clusters and node pools share: their paths, how the fields of nodes are called, and that one change goes on at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.infra.standin.kinds import finished
from sliceworks.infra.standin.mapping import Names

if TYPE_CHECKING:
    from sliceworks.infra.standin.settings import Settings

Object = dict[str, Any]
PLACE = "projects/{project}/locations/{location}"
CLUSTER = PLACE + "/clusters/{name}"
POOLS = PLACE + "/clusters/{cluster:last}/nodePools"
NODE = {
    "node_config.guest_accelerator": "accelerators",
    "node_config.taint": "taints",
    "node_config.guest_accelerator.type": "acceleratorType",
    "node_config.guest_accelerator.count": "acceleratorCount",
    "node_config.reservation_affinity.consume_reservation_type": "consumeReservationType",
    "node_config.workload_metadata_config.mode": "mode",
}
POOL = Names(
    renamed={
        "node_config": "config",
        "node_locations": "locations",
        "max_pods_per_node": "maxPodsConstraint.maxPodsPerNode",
        "placement_policy.tpu_topology": "tpuTopology",
        **NODE,
    },
    local=frozenset({"project", "location", "cluster", "node_count", "name_prefix", "ignore_node_count_changes"}),
)


async def done(settings: Settings, state: Object, call: tuple[str, str], body: Object | None) -> None:
    """One change of a cluster at a time: GKE takes no other while one goes on."""
    method, path = call
    async with settings.lock(path.partition("/nodePools")[0].partition(":")[0]):
        answer = await settings.session("container").call(method, f"/{path}", body)
        await finished(settings, "container", "container", state, answer)
