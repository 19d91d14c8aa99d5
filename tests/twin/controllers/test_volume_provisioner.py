"""The storage classes of GKE: volumes are created where their pods run, expanded with their claims, and deleted or retained."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.embedded_twin import EmbeddedTwin, run_on_twin

Obj = dict[str, Any]
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/api/v1/namespaces/default/events"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
ZONES = {"node-a": "us-central2-a", "node-b": "us-central2-b"}


async def create_nodes(twin: EmbeddedTwin) -> None:
    for name, zone in ZONES.items():
        labels = {"sliceworks.dev/node": "simulated", "topology.kubernetes.io/zone": zone, "topology.gke.io/zone": zone}
        resources = {"cpu": "4", "memory": "8Gi", "pods": "20"}
        status = {"capacity": resources, "allocatable": resources}
        await twin.do("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}, "status": status})


async def create_claim(twin: EmbeddedTwin, name: str = "data", size: str = "10Gi", **spec: Any) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
    await twin.do("POST", CLAIMS, {"metadata": {"name": name}, "spec": spec})


async def create_pod(twin: EmbeddedTwin, name: str = "one", **spec: Any) -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    containers = [{"name": "main", "image": "x", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}]
    await twin.do("POST", PODS, {"metadata": {"name": name}, "spec": {"containers": containers, "volumes": volumes, **spec}})


async def messages(twin: EmbeddedTwin, reason: str) -> list[str]:
    items = (await twin.do("GET", EVENTS))["items"]
    return [item["message"] for item in items if item["reason"] == reason]


def test_classes_of_gke_exist_and_the_default_waits_for_a_pod() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        classes = {item["metadata"]["name"]: item for item in (await twin.do("GET", CLASSES))["items"]}
        assert {name: (item["provisioner"], item["volumeBindingMode"]) for name, item in classes.items()} == {
            "premium-rwo": ("pd.csi.storage.gke.io", "WaitForFirstConsumer"),
            "premium-rwx": ("filestore.csi.storage.gke.io", "WaitForFirstConsumer"),
            "standard": ("kubernetes.io/gce-pd", "Immediate"),
            "standard-rwo": ("pd.csi.storage.gke.io", "WaitForFirstConsumer"),
            "standard-rwx": ("filestore.csi.storage.gke.io", "WaitForFirstConsumer"),
        }
        await create_nodes(twin)
        await create_claim(twin)
        await twin.quiet()
        assert (await twin.do("GET", f"{CLAIMS}/data"))["status"] == {"phase": "Pending"}
        await create_pod(twin, nodeSelector={"topology.gke.io/zone": "us-central2-b"})
        await twin.quiet()
        claim = await twin.do("GET", f"{CLAIMS}/data")
        assert (claim["spec"]["storageClassName"], claim["status"]["phase"]) == ("standard-rwo", "Bound")
        volume = await twin.do("GET", f"{VOLUMES}/{claim['spec']['volumeName']}")
        (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        expected = {"key": "topology.gke.io/zone", "operator": "In", "values": ["us-central2-b"]}
        assert term["matchExpressions"] == [expected]
        pod = await twin.do("GET", f"{PODS}/one")
        assert (pod["spec"]["nodeName"], pod["status"]["phase"]) == ("node-b", "Running")

    run_on_twin(main, workloads=True)


def test_claim_of_an_ephemeral_volume_waits_for_its_pod() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
        volumes = [{"name": "data", "ephemeral": {"volumeClaimTemplate": template}}]
        await create_pod(twin, volumes=volumes)
        await twin.quiet()
        assert await messages(twin, "WaitForPodScheduled") == ["waiting for pod one to be scheduled"]
        assert not await messages(twin, "WaitForFirstConsumer")

    run_on_twin(main, workloads=True)


def test_volume_of_a_claim_without_name_stays_pending(caplog: pytest.LogCaptureFixture) -> None:
    """Kubernetes does not validate the claim of a volume."""

    async def main(twin: EmbeddedTwin) -> None:
        spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "nfs": {"server": "192.0.2.1", "path": "/"}}
        await twin.do("POST", VOLUMES, {"metadata": {"name": "lost"}, "spec": {**spec, "claimRef": {"uid": "unknown"}}})
        await twin.quiet()
        assert (await twin.do("GET", f"{VOLUMES}/lost"))["status"]["phase"] == "Pending"

    run_on_twin(main, workloads=True)
    assert "Traceback" not in caplog.text


def test_later_pods_run_in_the_zone_of_the_volume() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await create_nodes(twin)
        await create_claim(twin, storageClassName="standard")
        await twin.quiet()
        claim = await twin.do("GET", f"{CLAIMS}/data")
        assert claim["status"]["phase"] == "Bound"  # Immediate
        volume = await twin.do("GET", f"{VOLUMES}/{claim['spec']['volumeName']}")
        assert volume["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"] == "pd.csi.storage.gke.io"
        (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        (zone,) = term["matchExpressions"][0]["values"]
        for name in ("one", "two", "three"):
            await create_pod(twin, name)
        await twin.quiet()
        nodes = {pod["spec"]["nodeName"] for pod in (await twin.do("GET", PODS))["items"]}
        assert {ZONES[node] for node in nodes} == {zone}

    run_on_twin(main, workloads=True)


@pytest.mark.parametrize(("name", "is_bound"), [("standard-rwo", False), ("standard-rwx", True)])
def test_disk_cannot_be_written_by_many_nodes(name: str, is_bound: bool) -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await create_nodes(twin)
        await create_claim(twin, storageClassName=name, accessModes=["ReadWriteMany"])
        await create_pod(twin)
        await twin.quiet()
        assert ((await twin.do("GET", f"{CLAIMS}/data"))["status"]["phase"] == "Bound") is is_bound
        assert ((await twin.do("GET", f"{PODS}/one"))["status"]["phase"] == "Running") is is_bound
        problems = await messages(twin, "ProvisioningFailed")
        assert all("specified multi writer with mount access type" in problem for problem in problems)
        assert bool(problems) is not is_bound

    run_on_twin(main, workloads=True)


def test_volume_grows_with_its_claim() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await create_nodes(twin)
        await create_claim(twin, storageClassName="standard")
        await twin.quiet()
        await twin.do("PATCH", f"{CLAIMS}/data", {"spec": {"resources": {"requests": {"storage": "20500Mi"}}}})
        await twin.quiet()
        claim = await twin.do("GET", f"{CLAIMS}/data")
        assert claim["status"]["capacity"] == {"storage": "21Gi"}
        volume = await twin.do("GET", f"{VOLUMES}/{claim['spec']['volumeName']}")
        assert volume["spec"]["capacity"] == {"storage": "21Gi"}
        status, refused = await twin.ask("PATCH", f"{CLAIMS}/data", {"spec": {"resources": {"requests": {"storage": "5Gi"}}}})
        assert status == 422
        assert "field can not be less than status.capacity" in refused["message"]

    run_on_twin(main, workloads=True)


@pytest.mark.parametrize("policy", ["Delete", "Retain"])
def test_released_volume_is_deleted_unless_it_is_retained(policy: str) -> None:
    async def main(twin: EmbeddedTwin) -> None:
        body = {"metadata": {"name": "own"}, "provisioner": "pd.csi.storage.gke.io", "reclaimPolicy": policy}
        await twin.do("POST", CLASSES, body)
        await create_nodes(twin)
        await create_claim(twin, storageClassName="own")
        await twin.quiet()
        name = (await twin.do("GET", f"{CLAIMS}/data"))["spec"]["volumeName"]
        await twin.do("DELETE", f"{CLAIMS}/data")
        await twin.quiet()
        assert await twin.gone(f"{VOLUMES}/{name}") is (policy == "Delete")
        if policy == "Retain":
            assert (await twin.do("GET", f"{VOLUMES}/{name}"))["status"]["phase"] == "Released"
            await twin.do("DELETE", f"{VOLUMES}/{name}")
            await twin.quiet()
            assert await twin.gone(f"{VOLUMES}/{name}")

    run_on_twin(main, workloads=True)


def test_claims_of_a_stateful_set_follow_its_retention_policy() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await create_nodes(twin)
        spec = {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "db"}},
            "serviceName": "db",
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}},
            "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete", "whenDeleted": "Retain"},
            "volumeClaimTemplates": [
                {
                    "metadata": {"name": "data"},
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
                }
            ],
        }
        sets = "/apis/apps/v1/namespaces/default/statefulsets"
        await twin.do("POST", sets, {"metadata": {"name": "db"}, "spec": spec})
        for _ in range(6):
            await twin.quiet()
        phases = {item["metadata"]["name"]: item["status"]["phase"] for item in (await twin.do("GET", CLAIMS))["items"]}
        assert phases == {"data-db-0": "Bound", "data-db-1": "Bound"}
        assert (await twin.do("GET", f"{sets}/db"))["status"]["readyReplicas"] == 2
        await twin.do("PATCH", f"{sets}/db", {"spec": {"replicas": 1}})
        for _ in range(10):
            await twin.quiet()
        assert [item["metadata"]["name"] for item in (await twin.do("GET", CLAIMS))["items"]] == ["data-db-0"]
        assert len((await twin.do("GET", VOLUMES))["items"]) == 1

    run_on_twin(main, workloads=True)


def test_twin_without_provisioner_has_no_classes() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        assert (await twin.do("GET", CLASSES))["items"] == []

    run_on_twin(main, workloads=True, without=("volume-provisioner",))
