"""On a GKE cluster, pods that request devices get tolerations for their nodes' taints."""

from __future__ import annotations

from typing import Any

from tests.support.clouds import Cloud, run_on_cloud

from sliceworks.base import clock
from sliceworks.kube.client import Client
from sliceworks.kube.resources import POD, SERVICE_ACCOUNT
from sliceworks.twin.cluster import Cluster

TPU = {"key": "google.com/tpu", "operator": "Exists", "effect": "NoSchedule"}
SPOT = {"key": "cloud.google.com/gke-spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"}


def pod(name: str, *tolerations: dict[str, Any], **limits: str) -> dict[str, Any]:
    amounts = {key.replace("__", "/").replace("_", "."): value for key, value in limits.items()}
    container = {"name": "main", "image": "i", "resources": {"limits": amounts}}
    spec = {"containers": [container], "tolerations": list(tolerations)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


async def tolerations_of(client: Client, body: dict[str, Any]) -> list[dict[str, Any]]:
    created = await client.create(body, resource=POD)
    return [toleration for toleration in created["spec"]["tolerations"] if toleration["effect"] == "NoSchedule"]


def test_pods_tolerate_the_taints_of_requested_devices() -> None:
    async def main(cloud: Cloud) -> None:
        await clock.sleep(2)
        assert await tolerations_of(cloud.client, pod("one", google_com__tpu="4")) == [TPU]
        assert await tolerations_of(cloud.client, pod("two", SPOT, google_com__tpu="4")) == [SPOT, TPU]
        assert await tolerations_of(cloud.client, pod("three", TPU, google_com__tpu="4")) == [TPU]
        assert await tolerations_of(cloud.client, pod("four", cpu="1")) == []
        both = await tolerations_of(cloud.client, pod("five", nvidia_com__gpu="1", google_com__tpu="1"))
        assert [item["key"] for item in both] == ["google.com/tpu", "nvidia.com/gpu"]

    run_on_cloud(main)


def test_other_clusters_add_no_tolerations() -> None:
    async def main() -> None:
        async with Cluster() as twin, Client(twin.transport()) as client:
            while not (await client.list(SERVICE_ACCOUNT, "default")).items:
                await clock.sleep(0.1)
            assert await tolerations_of(client, pod("one", google_com__tpu="4")) == []

    clock.run(main(), virtual=True)
