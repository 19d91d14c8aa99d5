"""Node pools as they are asked for: each body as Google's document has it, and the names and labels of the Go provisioner."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.support import discovery
from tests.support.slice_asks import GPU, TPU, read

from sliceworks.controllers.slices import words
from sliceworks.controllers.slices.bodies import job_key, pool_body, pool_labels, pool_name, read_pool
from sliceworks.controllers.slices.capacity import ON_DEMAND, SPOT, Candidate, reservation
from sliceworks.controllers.slices.settings import Settings
from sliceworks.controllers.slices.views import Ref

JOB, JOBSET = Ref("ml", "train-slice-0"), Ref("ml", "train")
FULL = Settings(
    zones=("a",),
    node_service_account="nodes@p.iam.gserviceaccount.com",
    node_tags=("tag",),
    node_secondary_disk="projects/p/global/images/i",
    node_disk_type="pd-ssd",
    node_boot_disk_kms_key="projects/p/locations/l/keyRings/r/cryptoKeys/k",
    node_secure_boot=False,
    node_confidential_storage=True,
)


PLAIN, THERE = Settings(), Candidate("a", ON_DEMAND)


def body(ask: Any, settings: Settings = PLAIN, candidate: Candidate = THERE) -> dict[str, Any]:
    made = pool_body("train-abc", pool_labels(JOB, "Job", JOBSET), ask, candidate, settings)
    assert discovery.problems("container", "v1beta1", "CreateNodePoolRequest", {"nodePool": made}) == []
    assert discovery.problems("container", "v1", "CreateNodePoolRequest", {"nodePool": made}) == []
    return made


def test_a_slice_of_several_hosts() -> None:
    made = body(read(TPU, {"google.com/tpu": 4}))
    labels = made["config"].pop("labels")
    assert made == {
        "name": "train-abc",
        "initialNodeCount": 4,
        "locations": ["a"],
        "config": {
            "machineType": "ct5p-hightpu-4t",
            "shieldedInstanceConfig": {"enableIntegrityMonitoring": True, "enableSecureBoot": True},
        },
        "management": {"autoRepair": True, "autoUpgrade": False},
        "upgradeSettings": {"maxSurge": 1},
        "maxPodsConstraint": {"maxPodsPerNode": "15"},
        "placementPolicy": {"type": "COMPACT", "tpuTopology": "2x2x4"},
    }
    assert labels == {
        "google.com/nodepool-manager": "tpu-provisioner",
        "google.com/tpu-provisioner-parent-kind": "job",
        "google.com/tpu-provisioner-parent-name": "train-slice-0",
        "google.com/tpu-provisioner-parent-namespace": "ml",
        "google.com/tpu-provisioner-jobset-name": "train",
        "google.com/tpu-provisioner-jobset-namespace": "ml",
    }


def test_everything_that_can_be_set() -> None:
    config = body(read(TPU, {"google.com/tpu": 4}), FULL)["config"]
    assert config["serviceAccount"] == "nodes@p.iam.gserviceaccount.com"
    assert config["tags"] == ["tag"]
    assert config["secondaryBootDisks"] == [{"diskImage": "projects/p/global/images/i", "mode": "CONTAINER_IMAGE_CACHE"}]
    assert config["diskType"] == "pd-ssd"
    assert config["bootDiskKmsKey"].endswith("cryptoKeys/k")
    assert config["enableConfidentialStorage"] is True
    assert config["shieldedInstanceConfig"]["enableSecureBoot"] is False
    own = {words.NODE_SERVICE_ACCOUNT: "own@p"}
    assert body(read(TPU, {"google.com/tpu": 4}, annotations=own), FULL)["config"]["serviceAccount"] == "own@p"


def test_networks_of_the_pod_come_before_those_of_the_settings() -> None:
    settings = Settings(node_additional_networks="vpc:subnet")
    plain = body(read(TPU, {"google.com/tpu": 4}), settings)
    assert plain["networkConfig"] == {"additionalNodeNetworkConfigs": [{"network": "vpc", "subnetwork": "subnet"}]}
    own = body(read(TPU, {"google.com/tpu": 4}, annotations={words.NODE_NETWORKS: "a:b"}), settings)
    assert own["networkConfig"] == {"additionalNodeNetworkConfigs": [{"network": "a", "subnetwork": "b"}]}


def test_one_host_has_no_placement() -> None:
    selector = {**TPU, "cloud.google.com/gke-tpu-topology": "2x2x1"}
    assert "placementPolicy" not in body(read(selector, {"google.com/tpu": 4}))


def test_ironwood_is_placed_by_a_policy_of_its_own() -> None:
    selector = {"cloud.google.com/gke-tpu-accelerator": "tpu7x", "cloud.google.com/gke-tpu-topology": "4x4x4"}
    ask = read(selector, {"google.com/tpu": 4})
    assert body(ask)["placementPolicy"] == {"policyName": "tpu-provisioner-4x4x4"}
    assert body(ask, Settings(workload_policy="own-{topology}"))["placementPolicy"] == {"policyName": "own-4x4x4"}


def test_spot_nodes_are_tainted_for_those_who_expect_it() -> None:
    spot = Candidate("a", SPOT)
    taint = {"key": "cloud.google.com/gke-spot", "value": "true", "effect": "NO_SCHEDULE"}
    asked = body(read({**TPU, "cloud.google.com/gke-spot": "true"}, {"google.com/tpu": 4}), candidate=spot)["config"]
    assert (asked["spot"], asked["taints"]) == (True, [taint])
    fallen = body(read(TPU, {"google.com/tpu": 4}), candidate=spot)["config"]
    assert fallen["spot"] is True
    assert "taints" not in fallen


def test_a_reservation_by_name() -> None:
    made = body(read(TPU, {"google.com/tpu": 4}), candidate=Candidate("a", reservation("r", "other")))
    assert made["config"]["reservationAffinity"] == {
        "consumeReservationType": "SPECIFIC_RESERVATION",
        "key": "compute.googleapis.com/reservation-name",
        "values": ["projects/other/reservations/r"],
    }


def test_gpus_come_with_a_driver() -> None:
    made = body(read(GPU, {"nvidia.com/gpu": 8}, pods=2))
    assert made["initialNodeCount"] == 2
    assert made["config"]["accelerators"][0]["acceleratorCount"] == "8"
    assert "placementPolicy" not in made


def test_a_pool_for_helpers() -> None:
    made = body(read({"slices.sliceworks.dev/machine-type": "n2-standard-8"}, {"cpu": 4}, pods=2))
    assert made["config"]["machineType"] == "n2-standard-8"
    assert made["config"]["labels"]["slices.sliceworks.dev/machine-type"] == "n2-standard-8"
    assert "maxPodsConstraint" not in made


def test_names_have_eighty_bits_of_the_job() -> None:
    key = job_key(JOB)
    assert key == "a5346cf0fbf08b961557f9886d877b4ea76a67ce"
    name = pool_name("a-jobset-with-a-very-long-name-indeed", key)
    assert len(name) == 40
    assert name.startswith("a-jobset-with-a-very-lo-")
    assert len(name.rpartition("-")[2]) * 5 == 80
    assert pool_name("train", key) == pool_name("train", key)
    names = {pool_name("train", job_key(Ref("ml", f"train-slice-{index}"))) for index in range(5000)}
    assert len(names) == 5000


@pytest.mark.parametrize("name", ["ends-with-a-dash-right-h-ere", "a", "dots.in.it"])
def test_names_are_names_of_node_pools(name: str) -> None:
    assert re.fullmatch(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?", pool_name(name, job_key(JOB)))
    assert re.fullmatch(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?", pool_name(name, "not-hex"))


def test_pools_are_read_back() -> None:
    labels = {**pool_labels(JOB, "Job", JOBSET), words.POOL_HASH: "s1-x", words.ATTEMPT: "3", words.CREATED: "1700000000"}
    made = pool_body("n", labels, read(TPU, {"google.com/tpu": 4}), Candidate("a", SPOT), FULL)
    pool = read_pool({**made, "status": "ERROR", "conditions": [{"code": "GCE_STOCKOUT", "message": "none"}]})
    assert (pool.ours, pool.job, pool.jobset, pool.digest, pool.attempt, pool.created) == (True, JOB, JOBSET, "s1-x", 3, 1.7e9)
    assert (pool.zone, pool.machine, pool.nodes, pool.topology, pool.spot) == ("a", "ct5p-hightpu-4t", 4, "2x2x4", True)
    assert pool.fault is not None
    assert pool.fault.code == "GCE_STOCKOUT"


def test_pools_of_others_and_of_old() -> None:
    assert not read_pool({"name": "x", "status": "RUNNING"}).ours
    old = {"google.com/nodepool-manager": "tpu-provisioner", "provisioner-nodepool-id": "train"}
    pool = read_pool({"name": "x", "status": "RUNNING", "config": {"labels": old}})
    assert (pool.ours, pool.jobset) == (True, Ref("default", "train"))
