"""The slices controller on a twin with its cloud, in virtual time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.slices_controller import SETTINGS, ZONE, Rig, jobset, run_with_rig

from sliceworks.base import clock
from sliceworks.base.conditions import find_condition
from sliceworks.catalog.labels import TPU_TOPOLOGY
from sliceworks.controllers.slices import node_pool, provisioner, well_known
from sliceworks.controllers.slices.capacity import ON_DEMAND, SPOT, reservation
from sliceworks.kube.resources import JOBSET, NAMESPACE, POD

FAST: dict[str, Any] = {"seconds": {"createNodePool": 5, "deleteNodePool": 5, "boot": 5, "giveUp": 5}}


async def _running(rig: Rig, count: int) -> None:
    async def holds() -> bool:
        return len(await rig.pods("Running")) == count

    await rig.until(holds, what=f"{count} pods running")


async def _deleted(rig: Rig) -> None:
    async def holds() -> bool:
        return not await rig.slices()

    await rig.until(holds, what="all pools deleted")


async def _events(rig: Rig, reason: str, count: int = 1) -> list[tuple[str, str, str]]:
    async def find() -> list[tuple[str, str, str]]:
        result = [event for event in await rig.events() if event[1] == reason]
        return result if len(result) >= count else []

    result: list[tuple[str, str, str]] = await rig.until(find, what=f"{count} events {reason}")
    return result


def test_jobset_runs_and_releases_its_pools() -> None:
    async def main(rig: Rig) -> None:
        await rig.client.create(jobset(replicas=2, seconds=100))
        await _running(rig, 4)
        await rig.until(lambda: _is(rig, "True"), what="the slices are ready")
        assert set((await rig.slices()).values()) == {"RUNNING"}
        await _deleted(rig)
        await clock.sleep(15)
        condition = [(kind, reason) for kind, reason, _ in await rig.events()]
        assert sorted(condition) == sorted(
            [("Pod", "NodePoolCreationStarted"), ("Pod", "NodePoolCreationSucceeded")] * 2
            + [("JobSet", "NodePoolDeletionStarted"), ("JobSet", "NodePoolDeletionSucceeded")] * 2
        )
        assert rig.controller is not None
        text = rig.registry.render()
        assert "sliceworks_slices_time_to_capacity_seconds_count 2" in text
        assert 'sliceworks_slices_operations_total{kind="delete",result="succeeded"} 2' in text
        assert rig.calls["POST"] == 2
        assert rig.calls["DELETE"] == 2

    run_with_rig(main, **FAST)


def test_secondary_boot_disk() -> None:
    image = "projects/images/global/images/training-7"

    async def main(rig: Rig) -> None:
        await rig.client.create(jobset(seconds=100))
        await _running(rig, 2)
        (created,) = [pool for pool in (await rig.pools()).values() if pool["config"].get("machineType", "").startswith("ct")]
        assert created["config"]["secondaryBootDisks"] == [{"diskImage": image, "mode": "CONTAINER_IMAGE_CACHE"}]
        await clock.sleep(30)
        assert rig.calls["POST"] == 1, "the pool matches its request: it is not created again"

    run_with_rig(main, replace(SETTINGS, node_secondary_disk=image), **FAST)


async def _is(rig: Rig, status: str) -> bool:
    return (await rig.condition()).get("status") == status


def test_many_pods_need_one_list() -> None:
    async def main(rig: Rig) -> None:
        await clock.sleep(1)
        before = rig.calls["GET"]
        await rig.client.create(jobset(replicas=20, topology="2x2x1", pods=1, seconds=3600))
        await clock.sleep(1)
        assert len(await rig.slices()) == 20
        # One of them is this test's.
        assert rig.calls["GET"] - before <= 3

    run_with_rig(main, operations=50)


def test_operation_limit_follows_the_cloud() -> None:
    async def main(rig: Rig) -> None:
        await rig.client.create(jobset(replicas=12, topology="2x2x1", pods=1, seconds=3600))
        started = clock.loop_time()
        await _running(rig, 12)
        assert clock.loop_time() - started < 12 / 3 * 10 * 1.5
        refused = rig.registry.render().count("TooManyOperations")
        assert refused == 1  # one line: this kind of rejection has occurred
        assert not [event for event in await rig.events() if event[1] == "NodePoolCreationFailed"]

    run_with_rig(main, operations=3, **FAST)


def test_candidates_are_tried_in_order() -> None:
    async def main(rig: Rig) -> None:
        rig.cluster.cloud.faults.add({"fault": "Stockout", "match": {"spot": "true"}})
        rig.cluster.cloud.faults.add({"fault": "Stockout", "match": {"zone": ZONE}})
        await rig.client.create(jobset(seconds=3600))
        await _running(rig, 2)
        [pool] = (await rig.pools()).values()
        assert (pool["locations"], pool["config"].get("spot")) == (["us-central2-a"], None)
        assert pool["config"]["labels"][well_known.ATTEMPT] == "3"
        failed = [note for kind, reason, note in await rig.events() if reason == "NodePoolCreationFailed" and kind == "Pod"]
        ways = [f"spot in {ZONE}", "spot in us-central2-a", f"on-demand in {ZONE}"]
        assert sorted(note.partition(":")[0] for note in failed) == sorted(
            f"cannot create node pool ({candidate})" for candidate in ways
        )
        await rig.until(lambda: _attempts_dropped(rig), what="the failures are forgotten")

    settings = replace(SETTINGS, zones=(ZONE, "us-central2-a"), capacity=(SPOT, ON_DEMAND))
    run_with_rig(main, settings, **FAST)


def test_message_of_the_cloud_survives_a_restart_of_the_controller() -> None:
    async def main(rig: Rig) -> None:
        async def reported() -> bool:
            conditions = (await rig.jobset()).get("status", {}).get("conditions", ())
            [message] = [item["message"] for item in conditions if item["type"] == well_known.JOBSET_CONDITION] or [""]
            return "does not have enough resources" in message and "failed attempts; next: " in message

        rig.cluster.cloud.faults.add({"fault": "Stockout", "match": {"zone": ZONE}})
        await rig.client.create(jobset(seconds=3600))
        await clock.sleep(300)
        assert await reported()
        await rig.kill()
        rig.start()
        await clock.sleep(2)
        assert await reported()

    run_with_rig(main, **FAST)


async def _attempts_dropped(rig: Rig) -> bool:
    return well_known.ATTEMPTS not in (await rig.jobset())["metadata"]["annotations"]


def test_suspended_jobset_releases_pools_and_gets_new_ones() -> None:
    async def main(rig: Rig) -> None:
        await rig.client.create(jobset(seconds=3600))
        await _running(rig, 2)
        await rig.client.patch(JOBSET, "js", {"spec": {"suspend": True}}, "default")
        await clock.sleep(100)
        assert await rig.slices()
        started = clock.loop_time()
        await _deleted(rig)
        assert 150 < clock.loop_time() - started < 260
        await rig.client.patch(JOBSET, "js", {"spec": {"suspend": False}}, "default")
        await _running(rig, 2)

    run_with_rig(main, **FAST)


def test_drained_jobset_releases_pools() -> None:
    async def main(rig: Rig) -> None:
        await rig.client.create(jobset(seconds=3600, failurePolicy={"maxRestarts": 9}))
        await _running(rig, 2)
        await rig.client.patch(JOBSET, "js", {"metadata": {"annotations": {well_known.DRAIN: "true"}}}, "default")
        await _deleted(rig)
        await clock.sleep(300)
        assert not await rig.slices()
        await rig.client.patch(JOBSET, "js", {"metadata": {"annotations": {well_known.DRAIN: None}}}, "default")
        await _running(rig, 2)

    run_with_rig(main, **FAST)


@pytest.mark.parametrize("namespace", ["default", well_known.WHOLE_CLUSTER])
def test_drained_namespace_or_cluster_applies_to_new_jobsets(namespace: str) -> None:
    async def main(rig: Rig) -> None:
        await rig.client.create(jobset(seconds=3600, failurePolicy={"maxRestarts": 9}))
        await _running(rig, 2)
        await rig.client.patch(NAMESPACE, namespace, {"metadata": {"annotations": {well_known.DRAIN: "true"}}})
        await _deleted(rig)
        await rig.client.create(jobset("later", seconds=3600))
        await clock.sleep(300)
        assert not await rig.slices()
        assert (await rig.condition("later"))["reason"] == "Draining"
        await rig.client.patch(NAMESPACE, namespace, {"metadata": {"annotations": {well_known.DRAIN: None}}})
        await _running(rig, 4)

    run_with_rig(main, **FAST)


def test_drained_namespace_does_not_affect_others() -> None:
    async def main(rig: Rig) -> None:
        await rig.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        await rig.client.patch(NAMESPACE, "team", {"metadata": {"annotations": {well_known.DRAIN: "true"}}})
        await rig.client.create(jobset("held", namespace="team"))
        await rig.client.create(jobset(seconds=3600))
        await _running(rig, 2)
        assert list(await rig.slices()) == ["js-slice-0"]

    run_with_rig(main, **FAST)


def test_exhausted_reservation_is_reported_and_next_candidate_used() -> None:
    async def main(rig: Rig) -> None:
        machines = {"zone": ZONE, "machineType": "ct4p-hightpu-4t", "nodes": 1}
        rig.service.configure({"reservations": [{"name": "gold", **machines}]})
        await rig.client.create(jobset(seconds=3600))
        condition = {kind: note for kind, _, note in await _events(rig, "NodePoolCreationFailed", 2)}
        for kind in ("Pod", "JobSet"):
            assert (
                f"cannot create node pool (reservation gold in {ZONE}): Reservation does not have enough resources"
                in condition[kind]
            )
            assert condition[kind].endswith(f"short of 1 VM count of machine type ct4p-hightpu-4t; next: on-demand in {ZONE}")
        await _running(rig, 2)
        assert 'failures_total{reason="ReservationExhausted"} 1' in rig.registry.render()
        # Other requests were not delayed: this rejection is not a sign of an overloaded cloud.
        assert rig.calls["POST"] == 2

    run_with_rig(main, replace(SETTINGS, capacity=(reservation("gold"), ON_DEMAND)), **FAST)


def test_incomplete_jobset_is_suspended_and_retried() -> None:
    async def main(rig: Rig) -> None:
        rig.service.configure({"capacity": [{"zone": ZONE, "machineType": "ct4p-hightpu-4t", "nodes": 2}]})
        await rig.client.create(jobset(replicas=2, seconds=3600))
        [(kind, _, note)] = await _events(rig, "SlicesReleased")
        assert kind == "JobSet"
        assert note.startswith("1 of 2 slices were not ready within 10m0s after the first one: deleting its slices")
        await _deleted(rig)
        held = await rig.jobset()
        assert held["spec"]["suspend"] is True
        assert find_condition(held, "sliceworks.dev/SlicesReady")["message"] == "0 slices are ready: the JobSet is suspended"
        rig.service.configure({"capacity": [{"zone": ZONE, "machineType": "ct4p-hightpu-4t", "nodes": 4}]})
        await _running(rig, 4)
        result = await rig.jobset()
        assert result["status"]["restarts"] == 0
        assert well_known.HELD_UNTIL not in result["metadata"]["annotations"]

    run_with_rig(main, replace(SETTINGS, time_limit=600.0), **FAST)


@pytest.mark.parametrize(
    ("fault", "reason", "note"),
    [
        ("PermissionDenied", "PermissionDenied", 'Required "container.clusters.get" permission(s)'),
        ("ExpiredCredentials", "Unauthenticated", "Request had invalid authentication credentials"),
    ],
)
def test_cloud_error_is_reported_once(fault: str, reason: str, note: str) -> None:
    async def main(rig: Rig) -> None:
        rig.cluster.cloud.faults.add({"fault": fault, "name": "trouble"})
        await clock.sleep(70)
        await rig.client.create(jobset(seconds=3600))
        [event] = await _events(rig, "NodePoolCreationFailed")
        assert (event[0], event[2][: len(note)]) == ("Pod", note)
        await clock.sleep(600)
        assert len(await _events(rig, "NodePoolCreationFailed")) == 1
        [pod] = await rig.pods("Pending")
        condition = next(condition for condition in pod["status"]["conditions"] if condition["type"] == well_known.POD_CONDITION)
        assert (condition["status"], condition["reason"]) == ("False", reason)
        condition = await rig.condition()
        assert (condition["status"], condition["reason"]) == ("False", reason)
        rig.cluster.cloud.faults.end("trouble")
        await _running(rig, 2)
        await rig.until(lambda: _is(rig, "True"), what="the JobSet has the condition that its slices are ready")

    run_with_rig(main, **FAST)


def test_missing_cluster() -> None:
    async def main(rig: Rig) -> None:
        await rig.kill()
        rig.name = "elsewhere"
        rig.start()
        await rig.client.create(jobset())
        [(_, _, note)] = await _events(rig, "NodePoolCreationFailed")
        assert "elsewhere" in note
        await clock.sleep(100)

    run_with_rig(main)


@pytest.mark.parametrize(
    ("more", "settings", "note"),
    [
        ({"accelerator": "tpu-v44"}, {}, "unknown TPU 'tpu-v44' (closest:"),
        ({"topology": "2x2x3"}, {}, "2x2x3 is not a tpu-v4-podslice topology"),
        ({"chips": 3}, {}, "tpu-v4-podslice 2x2x2 has no hosts with 3 chips (use 4"),
        (
            {"selector": {TPU_TOPOLOGY: None}},
            {},
            "spec.nodeSelector: cloud.google.com/gke-tpu-topology is required (such",
        ),
        (
            {"selector": {well_known.SPOT: "true"}, "pod": {"tolerations": []}},
            {},
            f"spec.tolerations: a pod that selects {well_known.SPOT} must tolerate",
        ),
        ({"pods": 3}, {}, "3 pods of 4 chips do not fit on tpu-v4-podslice 2x2x2"),
        (
            {"annotations": {well_known.TIME_LIMIT: "soon"}},
            {},
            f"annotation {well_known.TIME_LIMIT}: invalid duration 'soon' (such as 90s",
        ),
        ({}, {"zones": ()}, "no zones configured"),
        ({}, {"zones": ("europe-west4-b",)}, "cannot create node pool (on-demand in europe-west4-b):"),
        ({}, {"node_service_account": "missing@x.iam.gserviceaccount.com"}, f"cannot create node pool (on-demand in {ZONE}):"),
    ],
)
def test_invalid_jobset_is_reported_once_and_does_not_block_others(
    more: dict[str, Any], settings: dict[str, Any], note: str
) -> None:
    async def main(rig: Rig) -> None:
        if "node_service_account" in settings:
            rig.cluster.cloud.faults.add({"fault": "ServiceAccountMissing", "match": {"serviceAccount": "missing*"}})
        await rig.client.create(jobset("wrong", **more))
        events = [event for event in await _events(rig, "NodePoolCreationFailed") if event[0] == "Pod"]
        assert [event[2][: len(note)] for event in events] == [note]
        own = {well_known.ZONES: ZONE, well_known.NODE_SERVICE_ACCOUNT: "present@x.iam.gserviceaccount.com"}
        await rig.client.create(jobset("right", seconds=3600, pod_annotations=own))
        await _running(rig, 2)
        await clock.sleep(300)  # long enough for several retries
        events = [event for event in await _events(rig, "NodePoolCreationFailed") if event[0] == "Pod"]
        assert [event[2][: len(note)] for event in events] == [note]

    run_with_rig(main, replace(SETTINGS, **settings), **FAST)


def test_gpu_and_cpu_pools() -> None:
    async def main(rig: Rig) -> None:
        none = dict.fromkeys(("cloud.google.com/gke-tpu-accelerator", "cloud.google.com/gke-tpu-topology"))
        gpu = {**none, "cloud.google.com/gke-accelerator": "nvidia-l4"}
        await rig.client.create(jobset("gpu", selector=gpu, amounts={"nvidia.com/gpu": 1}, seconds=3600))
        cpu = {**none, well_known.MACHINE_TYPE: "n2-standard-4"}
        await rig.client.create(jobset("cpu", selector=cpu, amounts={"cpu": 3}, seconds=3600))
        await _running(rig, 4)
        result = {pool["config"]["machineType"]: pool["initialNodeCount"] for pool in (await rig.pools()).values()}
        assert result == {"g2-standard-4": 2, "n2-standard-4": 2}

    run_with_rig(main, **FAST)


def test_pools_of_tpu_provisioner_are_adopted() -> None:
    async def main(rig: Rig) -> None:
        await rig.kill()
        labels = {
            "google.com/nodepool-manager": "tpu-provisioner",
            "google.com/tpu-provisioner-parent-kind": "job",
            "google.com/tpu-provisioner-parent-name": "js-slice-0",
            "google.com/tpu-provisioner-parent-namespace": "default",
            "google.com/tpu-provisioner-jobset-name": "js",
            "google.com/tpu-provisioner-jobset-namespace": "default",
            "google.com/tpu-provisioner-nodepool-hash": "7c9bdf6b8",
        }
        body = {"name": "js-06f6d", "initialNodeCount": 2, "locations": [ZONE]}
        placement = {"placementPolicy": {"type": "COMPACT", "tpuTopology": "2x2x2"}}
        await rig.container.create_node_pool({**body, **placement, "config": {"machineType": "ct4p-hightpu-4t", "labels": labels}})
        await rig.client.create(jobset(seconds=60))
        await clock.sleep(1)
        rig.start()
        await _running(rig, 2)
        assert list(await rig.pools()) == ["js-06f6d"]
        await _deleted(rig)

    run_with_rig(main, **FAST)


def test_stuck_operation_is_cancelled() -> None:
    async def main(rig: Rig) -> None:
        rig.cluster.cloud.faults.add({"fault": "StuckOperations", "match": {"operationType": "CREATE_NODE_POOL"}})
        await rig.client.create(jobset())
        await clock.sleep(30)
        assert list((await rig.slices()).values()) == ["PROVISIONING"]
        await rig.client.delete(JOBSET, "js", "default", propagation_policy="Background")
        await _deleted(rig)

    run_with_rig(main, **FAST)


def test_removed_job_releases_its_pool() -> None:
    async def main(rig: Rig) -> None:
        await rig.client.create(jobset(seconds=3600))
        await _running(rig, 2)
        await rig.client.delete(JOBSET, "js", "default", propagation_policy="Background")
        await _deleted(rig)
        assert not (await rig.client.list(POD)).items

    run_with_rig(main, **FAST)


def test_occupied_pool_survives_its_owner() -> None:
    async def main(rig: Rig) -> None:
        # The first pool is used by any pending leader: with one concurrent operation, the other pool is created much later.
        await rig.client.create(jobset("first", topology="2x2x1", pods=1, seconds=3600))
        await rig.client.create(jobset("second", topology="2x2x1", pods=1, seconds=3600))
        await _running(rig, 2)
        pods = {pod["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"]: pod for pod in await rig.pods("Running")}
        nodes = {name: pod["spec"]["nodeName"] for name, pod in pods.items()}
        await rig.kill()
        rig.start()
        await clock.sleep(5)
        await rig.client.delete(JOBSET, "first", "default", propagation_policy="Background")
        await clock.sleep(600)
        [left] = await rig.pods("Running")
        assert left["metadata"]["name"] == pods["second"]["metadata"]["name"]
        assert left["spec"]["nodeName"] == nodes["second"]
        assert len(await rig.pools()) == 1
        await rig.client.delete(JOBSET, "second", "default", propagation_policy="Background")
        await _deleted(rig)

    run_with_rig(main, operations=1, **FAST)


def test_unexpected_error_does_not_block_others(monkeypatch: pytest.MonkeyPatch) -> None:
    right = node_pool.shape_of

    def broken(requirements: Any) -> Any:
        if requirements.topology == "2x2x4":
            raise ZeroDivisionError("division by zero")
        return right(requirements)

    monkeypatch.setattr(provisioner, "shape_of", broken)

    async def main(rig: Rig) -> None:
        await rig.client.create(jobset("wrong", topology="2x2x4", pods=4))
        await rig.client.create(jobset("right", seconds=3600))
        await _running(rig, 2)
        [(_, _, note)] = await _events(rig, "NodePoolCreationFailed")
        assert note == "unexpected ZeroDivisionError: division by zero"

    run_with_rig(main, **FAST)
