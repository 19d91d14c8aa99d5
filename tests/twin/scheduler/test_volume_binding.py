"""Pods that are scheduled in one batch, and their volumes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.embedded_twin import EmbeddedTwin, run_on_twin

from sliceworks.twin.scheduler.scheduler import Scheduler

if TYPE_CHECKING:
    import pytest

Obj = dict[str, Any]
CORE = "/api/v1/namespaces/default"
CLASS = {"metadata": {"name": "local"}, "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
RESOURCES = {"cpu": "4", "memory": "8Gi", "pods": "20"}
NODE = {
    "metadata": {"name": "node", "labels": {"sliceworks.dev/node": "simulated", "kubernetes.io/hostname": "node"}},
    "status": {"capacity": RESOURCES, "allocatable": RESOURCES},
}


async def create_volume(twin: EmbeddedTwin, name: str) -> None:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node"]}]}
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "local": {"path": "/disk"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    await twin.do("POST", "/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": spec})


async def create_pod(twin: EmbeddedTwin, name: str) -> None:
    """A pod with a claim of its own."""
    spec: Obj = {"accessModes": ["ReadWriteOnce"], "storageClassName": "local", "resources": {"requests": {"storage": "1Gi"}}}
    await twin.do("POST", f"{CORE}/persistentvolumeclaims", {"metadata": {"name": name}, "spec": spec})
    containers = [{"name": "main", "image": "x", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}]
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
    await twin.do("POST", f"{CORE}/pods", {"metadata": {"name": name}, "spec": {"containers": containers, "volumes": volumes}})


async def placed(twin: EmbeddedTwin) -> list[str]:
    return [pod["metadata"]["name"] for pod in (await twin.do("GET", f"{CORE}/pods"))["items"] if pod["spec"].get("nodeName")]


def test_pods_of_a_batch_do_not_get_the_same_volume() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await twin.do("POST", "/apis/storage.k8s.io/v1/storageclasses", CLASS)
        await create_volume(twin, "first")
        for name in ("a", "b"):
            await create_pod(twin, name)
        await twin.quiet()
        await twin.do("POST", "/api/v1/nodes", NODE)  # the pods are retried together
        await twin.quiet()
        assert len(await placed(twin)) == 1
        await create_volume(twin, "second")
        await twin.quiet()
        assert await placed(twin) == ["a", "b"]
        claims = (await twin.do("GET", f"{CORE}/persistentvolumeclaims"))["items"]
        assert {claim["spec"]["volumeName"] for claim in claims} == {"first", "second"}

    run_on_twin(main, workloads=True)


def test_node_that_is_deleted_before_its_pod_is_bound_does_not_stop_the_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    deleted: list[str] = []
    schedule = Scheduler._bind_volumes

    async def main(twin: EmbeddedTwin) -> None:
        async def crossed(scheduler: Scheduler, *arguments: Any) -> None:
            if not deleted:
                deleted.append("node")
                await twin.do("DELETE", "/api/v1/nodes/node")
            await schedule(scheduler, *arguments)

        monkeypatch.setattr(Scheduler, "_bind_volumes", crossed)
        await twin.do("POST", "/apis/storage.k8s.io/v1/storageclasses", CLASS)
        await create_volume(twin, "first")
        await create_pod(twin, "a")
        await twin.do("POST", "/api/v1/nodes", NODE)
        await twin.quiet()
        assert deleted
        await twin.do("POST", "/api/v1/nodes", NODE)
        await twin.quiet()
        assert await placed(twin) == ["a"]

    run_on_twin(main, workloads=True)
