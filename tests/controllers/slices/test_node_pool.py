"""Node pools: NodePool resources, names and labels as the TPU provisioner writes them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.support import discovery
from tests.support.slice_snapshots import GPU, TPU, requirements

from sliceworks.base.errors import SliceworksError
from sliceworks.controllers.slices import well_known
from sliceworks.controllers.slices.capacity import ON_DEMAND, SPOT, Candidate, reservation
from sliceworks.controllers.slices.node_pool import job_key, pool_body, pool_labels, pool_name, read_cluster, read_pool
from sliceworks.controllers.slices.settings import Settings
from sliceworks.kube.resources import Key

JOB, JOBSET = Key("ml", "train-slice-0"), Key("ml", "train")
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


def body(requirements: Any, settings: Settings = PLAIN, candidate: Candidate = THERE) -> dict[str, Any]:
    created = pool_body("train-abc", pool_labels(JOB, "Job", JOBSET), requirements, candidate, settings)
    assert discovery.problems("container", "v1beta1", "CreateNodePoolRequest", {"nodePool": created}) == []
    assert discovery.problems("container", "v1", "CreateNodePoolRequest", {"nodePool": created}) == []
    return created


def test_multi_host_slice() -> None:
    created = body(requirements(TPU, {"google.com/tpu": 4}))
    labels = created["config"].pop("labels")
    assert created == {
        "name": "train-abc",
        "initialNodeCount": 4,
        "locations": ["a"],
        "config": {
            "machineType": "ct5p-hightpu-4t",
            "shieldedInstanceConfig": {"enableIntegrityMonitoring": True, "enableSecureBoot": True},
        },
        "management": {"autoRepair": True, "autoUpgrade": True},
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


def test_all_settings() -> None:
    config = body(requirements(TPU, {"google.com/tpu": 4}), FULL)["config"]
    assert config["serviceAccount"] == "nodes@p.iam.gserviceaccount.com"
    assert config["tags"] == ["tag"]
    assert config["secondaryBootDisks"] == [{"diskImage": "projects/p/global/images/i", "mode": "CONTAINER_IMAGE_CACHE"}]
    assert config["gcfsConfig"] == {"enabled": True}, "GKE refuses a secondary boot disk without image streaming"
    assert config["diskType"] == "pd-ssd"
    assert config["bootDiskKmsKey"].endswith("cryptoKeys/k")
    assert config["enableConfidentialStorage"] is True
    assert config["shieldedInstanceConfig"]["enableSecureBoot"] is False
    own = {well_known.NODE_SERVICE_ACCOUNT: "own@p"}
    assert body(requirements(TPU, {"google.com/tpu": 4}, annotations=own), FULL)["config"]["serviceAccount"] == "own@p"


def test_pod_networks_override_settings() -> None:
    settings = Settings(node_additional_networks="vpc:subnet")
    plain = body(requirements(TPU, {"google.com/tpu": 4}), settings)
    assert plain["networkConfig"] == {"additionalNodeNetworkConfigs": [{"network": "vpc", "subnetwork": "subnet"}]}
    own = body(requirements(TPU, {"google.com/tpu": 4}, annotations={well_known.NODE_NETWORKS: "a:b"}), settings)
    assert own["networkConfig"] == {"additionalNodeNetworkConfigs": [{"network": "a", "subnetwork": "b"}]}


def test_single_host_has_no_placement() -> None:
    selector = {**TPU, "cloud.google.com/gke-tpu-topology": "2x2x1"}
    assert "placementPolicy" not in body(requirements(selector, {"google.com/tpu": 4}))


def test_ironwood_uses_workload_policy() -> None:
    selector = {"cloud.google.com/gke-tpu-accelerator": "tpu7x", "cloud.google.com/gke-tpu-topology": "4x4x4"}
    parsed = requirements(selector, {"google.com/tpu": 4})
    assert body(parsed)["placementPolicy"] == {"policyName": "tpu-provisioner-4x4x4", "tpuTopology": "4x4x4"}
    own = body(parsed, Settings(workload_policy="own-{topology}"))["placementPolicy"]
    assert own == {"policyName": "own-4x4x4", "tpuTopology": "4x4x4"}


def test_pool_follows_its_cluster() -> None:
    parsed = requirements(TPU, {"google.com/tpu": 4})
    place = Candidate("a", ON_DEMAND)
    regular = {"releaseChannel": {"channel": "REGULAR"}, "workloadIdentityConfig": {"workloadPool": "p.svc.id.goog"}}
    created = pool_body("n", {}, parsed, place, Settings(), cluster=read_cluster(regular))
    assert created["management"]["autoUpgrade"] is True
    assert created["config"]["workloadMetadataConfig"] == {"mode": "GKE_METADATA"}
    channels: list[dict[str, Any]] = [{}, {"releaseChannel": {}}, {"releaseChannel": {"channel": "UNSPECIFIED"}}]
    for channel in channels:
        created = pool_body("n", {}, parsed, place, Settings(), cluster=read_cluster(channel))
        assert created["management"]["autoUpgrade"] is False
        assert "workloadMetadataConfig" not in created["config"]


def test_additional_networks_need_multi_networking() -> None:
    parsed, place = requirements(TPU, {"google.com/tpu": 4}), Candidate("a", ON_DEMAND)
    settings = Settings(node_additional_networks="vpc:subnet")
    with pytest.raises(SliceworksError, match="GCP_NODE_ADDITIONAL_NETWORKS: additional networks need a cluster with"):
        pool_body("n", {}, parsed, place, settings, cluster=read_cluster({}))
    multi = read_cluster({"networkConfig": {"enableMultiNetworking": True}})
    assert "networkConfig" in pool_body("n", {}, parsed, place, settings, cluster=multi)


def test_spot_taint_only_for_tolerating_pods() -> None:
    spot = Candidate("a", SPOT)
    taint = {"key": "cloud.google.com/gke-spot", "value": "true", "effect": "NO_SCHEDULE"}
    tolerations = [{"key": "cloud.google.com/gke-spot", "operator": "Exists"}]
    selector = {**TPU, "cloud.google.com/gke-spot": "true"}
    request = body(requirements(selector, {"google.com/tpu": 4}, tolerations=tolerations), candidate=spot)["config"]
    assert (request["spot"], request["taints"]) == (True, [taint])
    fallen = body(requirements(TPU, {"google.com/tpu": 4}), candidate=spot)["config"]
    assert fallen["spot"] is True
    assert "taints" not in fallen


def test_reservation() -> None:
    created = body(requirements(TPU, {"google.com/tpu": 4}), candidate=Candidate("a", reservation("r", "other")))
    assert created["config"]["reservationAffinity"] == {
        "consumeReservationType": "SPECIFIC_RESERVATION",
        "key": "compute.googleapis.com/reservation-name",
        "values": ["projects/other/reservations/r"],
    }


def test_gpu_driver() -> None:
    created = body(requirements(GPU, {"nvidia.com/gpu": 8}, pods=2))
    assert created["initialNodeCount"] == 2
    assert created["config"]["accelerators"][0]["acceleratorCount"] == "8"
    assert "placementPolicy" not in created


def test_cpu_pool() -> None:
    created = body(requirements({"slices.sliceworks.dev/machine-type": "n2-standard-8"}, {"cpu": 4}, pods=2))
    assert created["config"]["machineType"] == "n2-standard-8"
    assert created["config"]["labels"]["slices.sliceworks.dev/machine-type"] == "n2-standard-8"
    assert "maxPodsConstraint" not in created


def test_pool_name_has_80_bits_of_the_job_key() -> None:
    key = job_key(JOB)
    assert key == "a5346cf0fbf08b961557f9886d877b4ea76a67ce"
    name = pool_name("a-jobset-with-a-very-long-name-indeed", key)
    assert len(name) == 40
    assert name.startswith("a-jobset-with-a-very-lo-")
    assert len(name.rpartition("-")[2]) * 5 == 80
    assert pool_name("train", key) == pool_name("train", key)
    names = {pool_name("train", job_key(Key("ml", f"train-slice-{index}"))) for index in range(5000)}
    assert len(names) == 5000


@pytest.mark.parametrize("name", ["ends-with-a-dash-right-h-ere", "a", "dots.in.it"])
def test_pool_name_is_valid(name: str) -> None:
    assert re.fullmatch(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?", pool_name(name, job_key(JOB)))
    assert re.fullmatch(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?", pool_name(name, "not-hex"))


def test_read_pool() -> None:
    labels = {
        **pool_labels(JOB, "Job", JOBSET),
        well_known.POOL_HASH: "s1-x",
        well_known.ATTEMPT: "3",
        well_known.CREATED: "1700000000",
    }
    created = pool_body("n", labels, requirements(TPU, {"google.com/tpu": 4}), Candidate("a", SPOT), FULL)
    pool = read_pool({**created, "status": "ERROR", "conditions": [{"code": "GCE_STOCKOUT", "message": "none"}]})
    assert (pool.is_managed, pool.job, pool.jobset, pool.digest, pool.attempt, pool.created) == (
        True,
        JOB,
        JOBSET,
        "s1-x",
        3,
        1.7e9,
    )
    assert (pool.zone, pool.machine, pool.nodes, pool.topology, pool.spot) == ("a", "ct5p-hightpu-4t", 4, "2x2x4", True)
    assert pool.fault is not None
    assert pool.fault.code == "GCE_STOCKOUT"


def test_read_pool_of_other_provisioners() -> None:
    assert not read_pool({"name": "x", "status": "RUNNING"}).is_managed
    old = {"google.com/nodepool-manager": "tpu-provisioner", "provisioner-nodepool-id": "train"}
    pool = read_pool({"name": "x", "status": "RUNNING", "config": {"labels": old}})
    assert (pool.is_managed, pool.jobset) == (True, Key("default", "train"))
