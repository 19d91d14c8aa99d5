"""On a cluster of GKE's, pods that ask for devices tolerate the taints of their nodes."""

from __future__ import annotations

from typing import Any

from tests.support.clouds import Cloud, on_cloud

from sliceworks.base import clock
from sliceworks.kube.client import Client
from sliceworks.kube.well_known import POD, SERVICE_ACCOUNT
from sliceworks.twin.cluster import Cluster

TPU = {"key": "google.com/tpu", "operator": "Exists", "effect": "NoSchedule"}
SPOT = {"key": "cloud.google.com/gke-spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"}


def pod(name: str, *tolerations: dict[str, Any], **limits: str) -> dict[str, Any]:
    amounts = {key.replace("__", "/").replace("_", "."): value for key, value in limits.items()}
    container = {"name": "main", "image": "i", "resources": {"limits": amounts}}
    spec = {"containers": [container], "tolerations": list(tolerations)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


async def tolerated(client: Client, body: dict[str, Any]) -> list[dict[str, Any]]:
    made = await client.create(body, resource=POD)
    return [each for each in made["spec"]["tolerations"] if each["effect"] == "NoSchedule"]


def test_pods_tolerate_what_they_ask_for() -> None:
    async def main(cloud: Cloud) -> None:
        await clock.sleep(2)
        assert await tolerated(cloud.client, pod("one", google_com__tpu="4")) == [TPU]
        assert await tolerated(cloud.client, pod("two", SPOT, google_com__tpu="4")) == [SPOT, TPU]
        assert await tolerated(cloud.client, pod("three", TPU, google_com__tpu="4")) == [TPU]
        assert await tolerated(cloud.client, pod("four", cpu="1")) == []
        both = await tolerated(cloud.client, pod("five", nvidia_com__gpu="1", google_com__tpu="1"))
        assert [each["key"] for each in both] == ["google.com/tpu", "nvidia.com/gpu"]

    on_cloud(main)


def test_a_twin_that_is_not_googles_leaves_pods_alone() -> None:
    async def main() -> None:
        async with Cluster() as twin, Client(twin.transport()) as client:
            while not (await client.list(SERVICE_ACCOUNT, "default")).items:
                await clock.sleep(0.1)
            assert await tolerated(client, pod("one", google_com__tpu="4")) == []

    clock.run(main(), virtual=True)
