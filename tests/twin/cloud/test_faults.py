"""Faults and shortages of the cloud, with GKE's error messages."""

from __future__ import annotations

import pytest
from tests.support.clouds import CLUSTER, PLACE, POOLS, Cloud, is_ready, run_on_cloud

from sliceworks.base import clock
from sliceworks.base.errors import InvalidDocument
from sliceworks.kube.resources import NODE

ONE = {"nodePool": {"name": "one", "initialNodeCount": 1}}


def test_operations_quota_limits_concurrency() -> None:
    async def main(cloud: Cloud) -> None:
        cloud.set(operations=2)
        first = await cloud.create("a")
        await cloud.create("b")
        code, status, message = await cloud.refused("POST", POOLS, ONE)
        assert (code, status) == (429, "RESOURCE_EXHAUSTED")
        assert message == 'Too many operations: cluster "c" hits the concurrent operations quota 2, please try again later.'
        await cloud.done(first)
        await cloud.create("one")

    run_on_cloud(main)


def test_incompatible_operation_is_rejected() -> None:
    async def main(cloud: Cloud) -> None:
        running = await cloud.create("a")
        output = f"Cluster is running incompatible operation {running['name']}."
        for method, path, body in (
            ("DELETE", f"{POOLS}/a", None),
            ("POST", f"{POOLS}/a:setSize", {"nodeCount": 2}),
            ("PUT", CLUSTER, {"update": {"desiredMasterVersion": "latest"}}),
            ("DELETE", CLUSTER, None),
        ):
            assert await cloud.refused(method, path, body) == (400, "FAILED_PRECONDITION", output)
        await cloud.create("b")
        await clock.sleep(120)
        update = await cloud.do("POST", f"{CLUSTER}:setResourceLabels", {"resourceLabels": {"a": "b"}})
        assert (await cloud.refused("POST", POOLS, ONE))[2] == f"Cluster is running incompatible operation {update['name']}."

    run_on_cloud(main)


def test_stockout_sets_the_node_pool_to_error() -> None:
    async def main(cloud: Cloud) -> None:
        cloud.fault("Stockout", match={"zone": "us-central2-*"}, count=1)
        ended = await cloud.done(await cloud.slice("slice"))
        pool = await cloud.pool("slice")
        assert pool["status"] == "ERROR"
        (condition,) = pool["conditions"]
        assert (condition["code"], condition["canonicalCode"]) == ("GCE_STOCKOUT", "RESOURCE_EXHAUSTED")
        assert "The zone 'projects/p/zones/us-central2-b' does not have enough resources available" in condition["message"]
        assert ended["nodepoolConditions"] == [condition]
        assert ended["error"] == {"code": 8, "message": condition["message"]}
        assert ended["statusMessage"] == pool["statusMessage"]
        assert "Expected 4, running 0, transitioning 4. Current errors: [GCE_STOCKOUT]" in ended["statusMessage"]
        assert await cloud.nodes() == []
        await cloud.done(await cloud.do("DELETE", f"{POOLS}/slice"))
        await cloud.done(await cloud.slice("slice"))
        assert len(await cloud.nodes()) == 4

    run_on_cloud(main)


def test_zone_capacity_is_limited() -> None:
    async def main(cloud: Cloud) -> None:
        cloud.set(capacity=[{"zone": "us-central2-b", "machineType": "ct4p-*", "nodes": 6}])
        await cloud.done(await cloud.slice("a"))
        await cloud.done(await cloud.slice("b"))
        assert ((await cloud.pool("a"))["status"], (await cloud.pool("b"))["status"]) == ("RUNNING", "ERROR")
        assert len(await cloud.nodes("b")) == 0, "of a slice there is all or nothing"
        await cloud.done(await cloud.slice("c", "2x2x2"))
        assert (await cloud.pool("c"))["status"] == "RUNNING"
        await cloud.done(await cloud.do("DELETE", f"{POOLS}/a"))
        await cloud.done(await cloud.slice("d"))
        assert (await cloud.pool("d"))["status"] == "RUNNING"

    run_on_cloud(main)


def test_partial_capacity_creates_some_instances() -> None:
    async def main(cloud: Cloud) -> None:
        cloud.set(capacity=[{"machineType": "e2-*", "nodes": 2}])
        ended = await cloud.done(await cloud.create("cpu", 5))
        assert "Expected 5, running 2, transitioning 3." in ended["statusMessage"]
        assert (await cloud.pool("cpu"))["status"] == "ERROR"
        assert len(await cloud.nodes("cpu")) == 2

    run_on_cloud(main)


def test_regional_quota_is_checked_on_create() -> None:
    async def main(cloud: Cloud) -> None:
        cloud.set(quotas=[{"region": "us-central2", "metric": "CPUS", "limit": 24}])
        request = {"name": "cpu", "initialNodeCount": 9, "config": {"machineType": "n1-standard-8"}}
        code, status, message = await cloud.refused("POST", POOLS, {"nodePool": request})
        assert (code, status) == (403, "PERMISSION_DENIED")
        assert message == (
            "Insufficient regional quota to satisfy request: resource \"CPUS\": request requires '72.0' and is short '48.0'."
            " project has a quota of '24.0' with '24.0' available. View and manage quotas at"
            " https://console.cloud.google.com/iam-admin/quotas?usage=USED&project=p."
        )
        await cloud.do("POST", POOLS, {"nodePool": {**request, "initialNodeCount": 3}})
        assert "with '0.0' available" in (await cloud.refused("POST", POOLS, ONE))[2]
        cloud.set(quotas=[{"region": "us-central2", "metric": "CPUS", "limit": None}])
        await cloud.do("POST", POOLS, ONE)

    run_on_cloud(main, workloads=False)


def test_tpu_quota_fails_instance_creation() -> None:
    async def main(cloud: Cloud) -> None:
        cloud.set(quotas=[{"region": "us-central2", "metric": "TPU_PODSLICE_V4", "limit": 8}])
        await cloud.done(await cloud.slice("slice"))
        (condition,) = (await cloud.pool("slice"))["conditions"]
        assert condition["code"] == "GCE_QUOTA_EXCEEDED"
        assert "Quota 'TPU_PODSLICE_V4' exceeded.  Limit: 8.0 in region us-central2." in condition["message"]

    run_on_cloud(main)


def test_reservation_must_exist_and_have_capacity() -> None:
    async def main(cloud: Cloud) -> None:
        affinity = {
            "consumeReservationType": "SPECIFIC_RESERVATION",
            "key": "compute.googleapis.com/reservation-name",
            "values": ["r"],
        }
        pool = {
            "name": "one",
            "config": {"machineType": "ct4p-hightpu-4t", "reservationAffinity": affinity},
            "placementPolicy": {"type": "COMPACT", "tpuTopology": "2x2x4"},
        }
        refused = await cloud.refused("POST", POOLS, {"nodePool": pool})
        assert refused[:2] == (404, "NOT_FOUND")
        assert refused[2] == 'Google Compute Engine: reservation "r" not found for node pool "one" at zone "us-central2-b".'
        cloud.set(reservations=[{"name": "r", "zone": "us-central2-b", "machineType": "ct4p-hightpu-4t", "nodes": 6}])
        await cloud.done(await cloud.do("POST", POOLS, {"nodePool": pool}))
        labels = (await cloud.nodes("one"))[0]["metadata"]["labels"]
        assert labels["cloud.google.com/reservation-name"] == "r"
        refused = await cloud.refused("POST", POOLS, {"nodePool": {**pool, "name": "two"}})
        assert refused[:2] == (429, "RESOURCE_EXHAUSTED")
        assert refused[2].startswith(
            'Reservation does not have enough resources for the request: specific reservation "r" is insufficient'
        )
        assert refused[2].endswith("required 4 and short of 2 VM count of machine type ct4p-hightpu-4t.")

    run_on_cloud(main)


@pytest.mark.parametrize(
    ("fault", "code", "status", "words"),
    [
        ("PermissionDenied", 403, "PERMISSION_DENIED", f'Required "container.clusters.update" permission(s) for "{CLUSTER}".'),
        ("ExpiredCredentials", 401, "UNAUTHENTICATED", "Request had invalid authentication credentials."),
        ("TooManyOperations", 429, "RESOURCE_EXHAUSTED", 'Too many operations: cluster "c" hits the concurrent operations quota'),
        ("IncompatibleOperation", 400, "FAILED_PRECONDITION", "Cluster is running incompatible operation"),
        ("RateLimited", 429, "RESOURCE_EXHAUSTED", "Quota exceeded for quota metric"),
        (
            "QuotaExceeded",
            403,
            "PERMISSION_DENIED",
            "Insufficient regional quota to satisfy request: resource \"CPUS\": request requires '1.0'",
        ),
        ("Unavailable", 503, "UNAVAILABLE", "The service is currently unavailable."),
        ("InternalError", 500, "INTERNAL", "Internal error encountered."),
    ],
)
def test_request_fault_fails_the_call(fault: str, code: int, status: str, words: str) -> None:
    async def main(cloud: Cloud) -> None:
        cloud.fault(fault, match={"method": "nodePools.create"}, count=2)
        for _ in range(2):
            refused = await cloud.refused("POST", POOLS, ONE)
            assert refused[:2] == (code, status)
            assert refused[2].startswith(words)
            assert "nodePools" not in await cloud.do("GET", POOLS)
        await cloud.do("POST", POOLS, ONE)

    run_on_cloud(main, workloads=False)


def test_lost_response_keeps_the_effect() -> None:
    async def main(cloud: Cloud) -> None:
        cloud.fault("LostAnswers", match={"method": "nodePools.create"}, count=1)
        assert (await cloud.refused("POST", POOLS, ONE))[0] == 503
        assert (await cloud.refused("POST", POOLS, ONE))[0] == 409

    run_on_cloud(main, workloads=False)


def test_slow_response_is_delayed() -> None:
    async def main(cloud: Cloud) -> None:
        cloud.fault("SlowAnswers", seconds=20)
        started = clock.loop_time()
        await cloud.do("GET", POOLS)
        assert clock.loop_time() - started == 20

    run_on_cloud(main, workloads=False)


def test_operation_faults_delay_fail_and_block() -> None:
    async def main(cloud: Cloud) -> None:
        cloud.fault("SlowOperations", match={"nodePool": "slow"}, seconds=1000)
        cloud.fault("FailedOperations", match={"nodePool": "bad"}, message="the {nodePool} one")
        stuck = cloud.fault("StuckOperations", match={"nodePool": "stuck"})
        started = clock.loop_time()
        operations = {name: await cloud.create(name) for name in ("slow", "bad", "stuck")}
        failed = await cloud.done(operations["bad"])
        assert (failed["statusMessage"], failed["error"]) == ("the bad one", {"code": 13, "message": "the bad one"})
        assert (await cloud.pool("bad"))["status"] == "ERROR"
        await cloud.done(operations["slow"])
        assert clock.loop_time() - started > 1000
        await clock.sleep(10_000)
        assert (await cloud.do("GET", f"{PLACE}/operations/{operations['stuck']['name']}"))["status"] == "RUNNING"
        assert (await cloud.pool("stuck"))["status"] == "PROVISIONING"
        assert cloud.server.faults.end(stuck)
        await cloud.done(operations["stuck"])
        assert (await cloud.pool("stuck"))["status"] == "RUNNING"

    run_on_cloud(main)


def test_failed_deletion_keeps_the_node_pool() -> None:
    async def main(cloud: Cloud) -> None:
        await cloud.done(await cloud.create("one"))
        cloud.fault("FailedOperations", match={"operationType": "DELETE_NODE_POOL"}, count=1)
        assert "error" in await cloud.done(await cloud.do("DELETE", f"{POOLS}/one"))
        assert (await cloud.pool("one"))["status"] == "RUNNING_WITH_ERROR"
        assert len(await cloud.nodes("one")) == 1
        await cloud.done(await cloud.do("DELETE", f"{POOLS}/one"))
        assert await cloud.nodes("one") == []

    run_on_cloud(main)


def test_operation_can_be_cancelled() -> None:
    async def main(cloud: Cloud) -> None:
        cloud.fault("StuckOperations")
        operation = await cloud.create("one")
        path = f"{PLACE}/operations/{operation['name']}"
        await cloud.do("POST", f"{path}:cancel", {})
        assert (await cloud.do("GET", path))["status"] == "ABORTING"
        assert (await cloud.done(operation))["error"]["code"] == 1
        assert (await cloud.pool("one"))["status"] == "ERROR"
        assert (await cloud.refused("POST", f"{path}:cancel", {}))[1] == "FAILED_PRECONDITION"

    run_on_cloud(main)


def test_fault_ends_after_its_duration() -> None:
    async def main(cloud: Cloud) -> None:
        cloud.fault("Unavailable", **{"for": 60})
        assert (await cloud.refused("GET", POOLS))[0] == 503
        await clock.sleep(61)
        await cloud.do("GET", POOLS)
        assert cloud.server.faults.all() == []

    run_on_cloud(main, workloads=False)


def test_unknown_fault_or_duration_is_rejected() -> None:
    async def main(cloud: Cloud) -> None:
        with pytest.raises(InvalidDocument, match="fault: unknown cloud fault 'Earthquake'"):
            cloud.fault("Earthquake")
        with pytest.raises(InvalidDocument, match=r"container\.seconds\.tea: unknown duration"):
            cloud.set(seconds={"tea": 1})

    run_on_cloud(main, workloads=False)


def test_unregistered_nodes_fail_the_operation() -> None:
    async def main(cloud: Cloud) -> None:
        ended = await cloud.done(await cloud.create("one", 2))
        assert ended["statusMessage"] == (
            "All cluster resources were brought up, but: only 0 nodes out of 2 have registered; cluster may be unhealthy."
        )
        assert (await cloud.pool("one"))["status"] == "RUNNING_WITH_ERROR"

    run_on_cloud(main, workloads=False)


async def annotate(cloud: Cloud, node: str, state: str | None) -> None:
    await cloud.client.patch(NODE, node, {"metadata": {"annotations": {"sliceworks.dev/state": state}}})


def test_preempted_spot_instance_is_recreated() -> None:
    async def main(cloud: Cloud) -> None:
        await cloud.done(await cloud.create("spot", 2, config={"spot": True}))
        names = sorted(node["metadata"]["name"] for node in await cloud.nodes("spot"))
        await annotate(cloud, names[0], "preempted")
        await clock.sleep(60)
        assert [node["metadata"]["name"] for node in await cloud.nodes("spot")] == names[1:]
        await clock.sleep(300)
        nodes = await cloud.nodes("spot")
        assert sorted(node["metadata"]["name"] for node in nodes) == names
        assert all(is_ready(node) for node in nodes)
        assert len((await cloud.do("GET", f"{PLACE}/operations"))["operations"]) == 1, "that is the cloud's own affair"

    run_on_cloud(main)


def test_slice_is_recreated_when_it_loses_an_instance() -> None:
    async def main(cloud: Cloud) -> None:
        await cloud.done(await cloud.slice("slice", spot=True))
        before = {node["metadata"]["name"]: node["metadata"]["uid"] for node in await cloud.nodes("slice")}
        await annotate(cloud, next(iter(before)), "preempted")
        await clock.sleep(600)
        after = {node["metadata"]["name"]: node["metadata"]["uid"] for node in await cloud.nodes("slice")}
        assert after.keys() == before.keys()
        assert not set(after.values()) & set(before.values())

    run_on_cloud(main)


def test_unhealthy_node_is_repaired_with_auto_repair() -> None:
    async def main(cloud: Cloud) -> None:
        await cloud.done(await cloud.create("kept", 1, management={"autoRepair": True, "autoUpgrade": True}))
        await cloud.done(await cloud.create("left", 1))
        before = {pool: (await cloud.nodes(pool))[0]["metadata"] for pool in ("kept", "left")}
        for node in before.values():
            await annotate(cloud, node["name"], "silent")
        await clock.sleep(1200)
        after = {pool: (await cloud.nodes(pool))[0]["metadata"] for pool in ("kept", "left")}
        assert after["kept"]["name"] == before["kept"]["name"]
        assert after["kept"]["uid"] != before["kept"]["uid"]
        assert after["left"]["uid"] == before["left"]["uid"]
        assert is_ready((await cloud.nodes("kept"))[0])

    run_on_cloud(main)


def test_repair_waits_for_maintenance() -> None:
    async def main(cloud: Cloud) -> None:
        await cloud.done(await cloud.create("one", 1, management={"autoRepair": True, "autoUpgrade": True}))
        node = (await cloud.nodes("one"))[0]["metadata"]
        await annotate(cloud, node["name"], "maintenance")
        await clock.sleep(900)
        (after,) = await cloud.nodes("one")
        assert after["metadata"]["uid"] == node["uid"]
        assert is_ready(after)

    run_on_cloud(main)


def test_node_pool_is_deleted_during_a_repair() -> None:
    async def main(cloud: Cloud) -> None:
        await cloud.done(await cloud.slice("slice", spot=True))
        node = (await cloud.nodes("slice"))[0]["metadata"]["name"]
        await cloud.client.delete(NODE, node)
        await clock.sleep(1)
        await cloud.done(await cloud.do("DELETE", f"{POOLS}/slice"))
        await clock.sleep(1000)
        assert await cloud.nodes() == []

    run_on_cloud(main)
