"""The whole controller beside a twin and its cloud, in virtual time: what users see, and what the cloud is asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.slices import SETTINGS, ZONE, Rig, jobset, on_rig

from sliceworks.base import clock
from sliceworks.controllers.slices import shapes, steps, words
from sliceworks.controllers.slices.capacity import ON_DEMAND, SPOT, reservation
from sliceworks.controllers.slices.watching import JOBSET
from sliceworks.kube.well_known import NAMESPACE, POD

FAST: dict[str, Any] = {"seconds": {"createNodePool": 5, "deleteNodePool": 5, "boot": 5, "giveUp": 5}}


async def _running(rig: Rig, count: int) -> None:
    async def look() -> bool:
        return len(await rig.pods("Running")) == count

    await rig.until(look, what=f"{count} pods running")


async def _given_back(rig: Rig) -> None:
    async def look() -> bool:
        return not await rig.slices()

    await rig.until(look, what="all pools given back")


async def _told(rig: Rig, reason: str, count: int = 1) -> list[tuple[str, str, str]]:
    async def look() -> list[tuple[str, str, str]]:
        found = [each for each in await rig.events() if each[1] == reason]
        return found if len(found) >= count else []

    found: list[tuple[str, str, str]] = await rig.until(look, what=f"{count} events {reason}")
    return found


def test_from_a_jobset_to_its_pods_and_back() -> None:
    async def main(rig: Rig) -> None:
        await rig.client.create(jobset(replicas=2, seconds=100))
        await _running(rig, 4)
        await rig.until(lambda: _is(rig, "True"), what="the slices are ready")
        assert set((await rig.slices()).values()) == {"RUNNING"}
        await _given_back(rig)
        await clock.sleep(15)
        told = [(kind, reason) for kind, reason, _ in await rig.events()]
        assert sorted(told) == sorted(
            [("Pod", "NodePoolCreationStarted"), ("Pod", "NodePoolCreationSucceeded")] * 2
            + [("JobSet", "NodePoolDeletionStarted"), ("JobSet", "NodePoolDeletionSucceeded")] * 2
        )
        assert rig.controller is not None
        text = rig.registry.text()
        assert "sliceworks_slices_time_to_capacity_seconds_count 2" in text
        assert 'sliceworks_slices_operations_total{kind="delete",result="succeeded"} 2' in text
        assert rig.calls["POST"] == 2
        assert rig.calls["DELETE"] == 2

    on_rig(main, **FAST)


def test_a_disk_of_images_comes_with_every_host() -> None:
    image = "projects/images/global/images/training-7"

    async def main(rig: Rig) -> None:
        await rig.client.create(jobset(seconds=100))
        await _running(rig, 2)
        (made,) = [pool for pool in (await rig.pools()).values() if pool["config"].get("machineType", "").startswith("ct")]
        assert made["config"]["secondaryBootDisks"] == [{"diskImage": image, "mode": "CONTAINER_IMAGE_CACHE"}]
        await clock.sleep(30)
        assert rig.calls["POST"] == 1, "what the cloud says of the pool is what was asked for: it is not made again"

    on_rig(main, replace(SETTINGS, node_secondary_disk=image), **FAST)


async def _is(rig: Rig, status: str) -> bool:
    return (await rig.condition()).get("status") == status


def test_many_pods_cost_one_list() -> None:
    async def main(rig: Rig) -> None:
        await clock.sleep(1)
        before = rig.calls["GET"]
        await rig.client.create(jobset(replicas=20, topology="2x2x1", pods=1, seconds=3600))
        await clock.sleep(1)
        assert len(await rig.slices()) == 20
        # One of them is this test's.
        assert rig.calls["GET"] - before <= 3

    on_rig(main, operations=50)


def test_no_more_at_once_than_the_cloud_takes() -> None:
    async def main(rig: Rig) -> None:
        await rig.client.create(jobset(replicas=12, topology="2x2x1", pods=1, seconds=3600))
        began = clock.loop_time()
        await _running(rig, 12)
        assert clock.loop_time() - began < 12 / 3 * 10 * 1.5
        refused = rig.registry.text().count("TooManyOperations")
        assert refused == 1  # one line: the kind of refusal was met
        assert not [each for each in await rig.events() if each[1] == "NodePoolCreationFailed"]

    on_rig(main, operations=3, **FAST)


def test_spot_first_then_on_demand_then_the_next_zone() -> None:
    async def main(rig: Rig) -> None:
        rig.cluster.cloud.faults.add({"fault": "Stockout", "match": {"spot": "true"}})
        rig.cluster.cloud.faults.add({"fault": "Stockout", "match": {"zone": ZONE}})
        await rig.client.create(jobset(seconds=3600))
        await _running(rig, 2)
        [pool] = (await rig.pools()).values()
        assert (pool["locations"], pool["config"].get("spot")) == (["us-central2-a"], None)
        assert pool["config"]["labels"][words.ATTEMPT] == "3"
        failed = [note for kind, reason, note in await rig.events() if reason == "NodePoolCreationFailed" and kind == "Pod"]
        ways = [f"spot in {ZONE}", "spot in us-central2-a", f"on-demand in {ZONE}"]
        assert sorted(note.partition(":")[0] for note in failed) == sorted(f"no node pool as {way}" for way in ways)
        await rig.until(lambda: _forgotten(rig), what="the failures are forgotten")

    settings = replace(SETTINGS, zones=(ZONE, "us-central2-a"), capacity=(SPOT, ON_DEMAND))
    on_rig(main, settings, **FAST)


async def _forgotten(rig: Rig) -> bool:
    return words.ATTEMPTS not in (await rig.jobset())["metadata"]["annotations"]


def test_a_suspended_jobset_gives_back_after_a_while_and_gets_new_ones() -> None:
    async def main(rig: Rig) -> None:
        await rig.client.create(jobset(seconds=3600))
        await _running(rig, 2)
        await rig.client.patch(JOBSET, "js", {"spec": {"suspend": True}}, "default")
        await clock.sleep(100)
        assert await rig.slices()
        began = clock.loop_time()
        await _given_back(rig)
        assert 150 < clock.loop_time() - began < 260
        await rig.client.patch(JOBSET, "js", {"spec": {"suspend": False}}, "default")
        await _running(rig, 2)

    on_rig(main, **FAST)


def test_a_drained_jobset_gives_back_and_gets_none() -> None:
    async def main(rig: Rig) -> None:
        await rig.client.create(jobset(seconds=3600, failurePolicy={"maxRestarts": 9}))
        await _running(rig, 2)
        await rig.client.patch(JOBSET, "js", {"metadata": {"annotations": {words.DRAIN: "true"}}}, "default")
        await _given_back(rig)
        await clock.sleep(300)
        assert not await rig.slices()
        await rig.client.patch(JOBSET, "js", {"metadata": {"annotations": {words.DRAIN: None}}}, "default")
        await _running(rig, 2)

    on_rig(main, **FAST)


@pytest.mark.parametrize("namespace", ["default", words.WHOLE_CLUSTER])
def test_a_drained_namespace_or_cluster_holds_jobsets_made_later_too(namespace: str) -> None:
    async def main(rig: Rig) -> None:
        await rig.client.create(jobset(seconds=3600, failurePolicy={"maxRestarts": 9}))
        await _running(rig, 2)
        await rig.client.patch(NAMESPACE, namespace, {"metadata": {"annotations": {words.DRAIN: "true"}}})
        await _given_back(rig)
        await rig.client.create(jobset("later", seconds=3600))
        await clock.sleep(300)
        assert not await rig.slices()
        assert (await rig.condition("later"))["reason"] == "Draining"
        await rig.client.patch(NAMESPACE, namespace, {"metadata": {"annotations": {words.DRAIN: None}}})
        await _running(rig, 4)

    on_rig(main, **FAST)


def test_a_drained_namespace_is_no_affair_of_others() -> None:
    async def main(rig: Rig) -> None:
        await rig.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
        await rig.client.patch(NAMESPACE, "team", {"metadata": {"annotations": {words.DRAIN: "true"}}})
        await rig.client.create(jobset("held", namespace="team"))
        await rig.client.create(jobset(seconds=3600))
        await _running(rig, 2)
        assert list(await rig.slices()) == ["js-slice-0"]

    on_rig(main, **FAST)


def test_a_used_up_reservation_is_told_in_words_and_the_next_way_taken() -> None:
    async def main(rig: Rig) -> None:
        machines = {"zone": ZONE, "machineType": "ct4p-hightpu-4t", "nodes": 1}
        rig.service.configure({"reservations": [{"name": "gold", **machines}]})
        await rig.client.create(jobset(seconds=3600))
        told = {kind: note for kind, _, note in await _told(rig, "NodePoolCreationFailed", 2)}
        for kind in ("Pod", "JobSet"):
            assert f"no node pool as reservation gold in {ZONE}: Reservation does not have enough resources" in told[kind]
            assert told[kind].endswith(f"short of 1 VM count of machine type ct4p-hightpu-4t; next: on-demand in {ZONE}")
        await _running(rig, 2)
        assert 'failures_total{reason="ReservationExhausted"} 1' in rig.registry.text()
        # Others were not kept waiting: this was no sign that the cloud has too much to do.
        assert rig.calls["POST"] == 2

    on_rig(main, replace(SETTINGS, capacity=(reservation("gold"), ON_DEMAND)), **FAST)


def test_half_a_jobset_is_given_back_and_tried_again() -> None:
    async def main(rig: Rig) -> None:
        rig.service.configure({"capacity": [{"zone": ZONE, "machineType": "ct4p-hightpu-4t", "nodes": 2}]})
        await rig.client.create(jobset(replicas=2, seconds=3600))
        [(kind, _, note)] = await _told(rig, "SlicesGivenBack")
        assert kind == "JobSet"
        assert note.startswith("1 of 2 slices could not be had within 10m0s: its slices are given back")
        await _given_back(rig)
        assert (await rig.jobset())["spec"]["suspend"] is True
        rig.service.configure({"capacity": [{"zone": ZONE, "machineType": "ct4p-hightpu-4t", "nodes": 4}]})
        await _running(rig, 4)
        found = await rig.jobset()
        assert found["status"]["restarts"] == 0
        assert words.HELD_UNTIL not in found["metadata"]["annotations"]

    on_rig(main, replace(SETTINGS, time_limit=600.0), **FAST)


@pytest.mark.parametrize(
    ("fault", "reason", "note"),
    [
        ("PermissionDenied", "PermissionDenied", 'Required "container.clusters.get" permission(s)'),
        ("ExpiredCredentials", "Unauthenticated", "Request had invalid authentication credentials"),
    ],
)
def test_a_cloud_that_does_not_answer_is_told_once(fault: str, reason: str, note: str) -> None:
    async def main(rig: Rig) -> None:
        rig.cluster.cloud.faults.add({"fault": fault, "name": "trouble"})
        await clock.sleep(70)
        await rig.client.create(jobset(seconds=3600))
        [told] = await _told(rig, "NodePoolCreationFailed")
        assert (told[0], told[2][: len(note)]) == ("Pod", note)
        await clock.sleep(600)
        assert len(await _told(rig, "NodePoolCreationFailed")) == 1
        [pod] = await rig.pods("Pending")
        condition = next(each for each in pod["status"]["conditions"] if each["type"] == words.POD_CONDITION)
        assert (condition["status"], condition["reason"]) == ("False", reason)
        condition = await rig.condition()
        assert (condition["status"], condition["reason"]) == ("False", reason)
        rig.cluster.cloud.faults.end("trouble")
        await _running(rig, 2)
        await rig.until(lambda: _is(rig, "True"), what="the JobSet says that it has its slices")

    on_rig(main, **FAST)


def test_a_cluster_that_is_not_there() -> None:
    async def main(rig: Rig) -> None:
        await rig.kill()
        rig.name = "elsewhere"
        rig.start()
        await rig.client.create(jobset())
        [(_, _, note)] = await _told(rig, "NodePoolCreationFailed")
        assert "elsewhere" in note
        await clock.sleep(100)

    on_rig(main)


@pytest.mark.parametrize(
    ("more", "settings", "note"),
    [
        ({"accelerator": "tpu-v44"}, {}, "no TPU is called 'tpu-v44' (the closest are"),
        ({"topology": "2x2x3"}, {}, "2x2x3 is no topology of tpu-v4-podslice"),
        ({"chips": 3}, {}, "3 chips per host do not fit tpu-v4-podslice 2x2x2 (ask for 4"),
        ({"pods": 3}, {}, "3 pods of 4 chips do not fit tpu-v4-podslice 2x2x2"),
        ({"annotations": {words.TIME_LIMIT: "soon"}}, {}, f"the annotation {words.TIME_LIMIT}: 'soon' is no time (such as 90s"),
        ({}, {"zones": ()}, "no zone to make node pools in is known"),
        ({}, {"zones": ("europe-west4-b",)}, "no node pool as on-demand in europe-west4-b:"),
        ({}, {"node_service_account": "nobody@x.iam.gserviceaccount.com"}, f"no node pool as on-demand in {ZONE}:"),
    ],
)
def test_bad_input_is_told_once_and_others_go_on(more: dict[str, Any], settings: dict[str, Any], note: str) -> None:
    async def main(rig: Rig) -> None:
        if "node_service_account" in settings:
            rig.cluster.cloud.faults.add({"fault": "ServiceAccountMissing", "match": {"serviceAccount": "nobody*"}})
        await rig.client.create(jobset("wrong", **more))
        found = [each for each in await _told(rig, "NodePoolCreationFailed") if each[0] == "Pod"]
        assert [each[2][: len(note)] for each in found] == [note]
        own = {words.ZONES: ZONE, words.NODE_SERVICE_ACCOUNT: "somebody@x.iam.gserviceaccount.com"}
        await rig.client.create(jobset("right", seconds=3600, pod_annotations=own))
        await _running(rig, 2)
        await clock.sleep(300)  # what can be tried again has been, more than once
        found = [each for each in await _told(rig, "NodePoolCreationFailed") if each[0] == "Pod"]
        assert [each[2][: len(note)] for each in found] == [note]

    on_rig(main, replace(SETTINGS, **settings), **FAST)


def test_gpus_and_helpers_have_pools_too() -> None:
    async def main(rig: Rig) -> None:
        none = dict.fromkeys(("cloud.google.com/gke-tpu-accelerator", "cloud.google.com/gke-tpu-topology"))
        gpu = {**none, "cloud.google.com/gke-accelerator": "nvidia-l4"}
        await rig.client.create(jobset("gpu", selector=gpu, amounts={"nvidia.com/gpu": 1}, seconds=3600))
        cpu = {**none, words.MACHINE_TYPE: "n2-standard-4"}
        await rig.client.create(jobset("cpu", selector=cpu, amounts={"cpu": 3}, seconds=3600))
        await _running(rig, 4)
        found = {pool["config"]["machineType"]: pool["initialNodeCount"] for pool in (await rig.pools()).values()}
        assert found == {"g2-standard-4": 2, "n2-standard-4": 2}

    on_rig(main, **FAST)


def test_pools_of_the_go_provisioner_are_taken_over() -> None:
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
        await rig.container.create({**body, **placement, "config": {"machineType": "ct4p-hightpu-4t", "labels": labels}})
        await rig.client.create(jobset(seconds=60))
        await clock.sleep(1)
        rig.start()
        await _running(rig, 2)
        assert list(await rig.pools()) == ["js-06f6d"]
        await _given_back(rig)

    on_rig(main, **FAST)


def test_an_operation_that_never_ends_is_stopped() -> None:
    async def main(rig: Rig) -> None:
        rig.cluster.cloud.faults.add({"fault": "StuckOperations", "match": {"operationType": "CREATE_NODE_POOL"}})
        await rig.client.create(jobset())
        await clock.sleep(30)
        assert list((await rig.slices()).values()) == ["PROVISIONING"]
        await rig.client.delete(JOBSET, "js", "default", propagation_policy="Background")
        await _given_back(rig)

    on_rig(main, **FAST)


def test_a_job_that_leaves_its_jobset_leaves_its_pool() -> None:
    async def main(rig: Rig) -> None:
        await rig.client.create(jobset(seconds=3600))
        await _running(rig, 2)
        await rig.client.delete(JOBSET, "js", "default", propagation_policy="Background")
        await _given_back(rig)
        assert not (await rig.client.list(POD)).items

    on_rig(main, **FAST)


def test_no_jobset_loses_its_place_because_another_ends() -> None:
    async def main(rig: Rig) -> None:
        # The first pool that comes is taken by whoever waits: with room for one operation the other's is made much later.
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
        await _given_back(rig)

    on_rig(main, operations=1, **FAST)


def test_a_bug_about_one_jobset_is_told_and_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    right = shapes.shape_of

    def broken(ask: Any) -> Any:
        if ask.topology == "2x2x4":
            raise ZeroDivisionError("division by zero")
        return right(ask)

    monkeypatch.setattr(steps, "shape_of", broken)

    async def main(rig: Rig) -> None:
        await rig.client.create(jobset("wrong", topology="2x2x4", pods=4))
        await rig.client.create(jobset("right", seconds=3600))
        await _running(rig, 2)
        [(_, _, note)] = await _told(rig, "NodePoolCreationFailed")
        assert note == "unexpected ZeroDivisionError: division by zero"

    on_rig(main, **FAST)
