"""Model services are deployed, share a gateway, change and are removed: ownership, server-side apply and garbage collection."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.model_services import read
from tests.support.polling import PATIENCE

from sliceworks.base import clock
from sliceworks.kube import open_client
from sliceworks.kube.resources import (
    CONFIG_MAP,
    DEPLOYMENT,
    HORIZONTAL_POD_AUTOSCALER,
    NETWORK_POLICY,
    POD,
    POD_DISRUPTION_BUDGET,
    ROLE,
    ROLE_BINDING,
    SERVICE,
    SERVICE_ACCOUNT,
)
from sliceworks.serving import cluster as seen
from sliceworks.serving.ownership import delete_service
from sliceworks.serving.record import RecordConflict
from sliceworks.serving.rollout import Rollout

if TYPE_CHECKING:
    from tests.support.clusters import Cluster

    from sliceworks.kube import Client

CLUSTER = "controllers"
TEXT = """\
apiVersion: sliceworks.dev/v1alpha1
kind: ModelService
metadata: {{name: {name}}}
spec:
  engine: vllm
  accelerator: {{type: l4-1}}
  replicas: 2
  identity: {{serviceAccount: models, googleServiceAccount: models@my-project.iam.gserviceaccount.com}}
  vllm: {{model: {{name: {name}, source: a/b}}}}
"""
GATEWAY = "  gateway: {image: 'gateway:1'}\n"
KINDS = (
    DEPLOYMENT,
    SERVICE,
    POD,
    POD_DISRUPTION_BUDGET,
    NETWORK_POLICY,
    HORIZONTAL_POD_AUTOSCALER,
    ROLE,
    ROLE_BINDING,
)


def rollout(client: Client, ns: str, name: str, gateway: str = GATEWAY, *, count: str = "replicas: 2") -> Rollout:
    service = read(TEXT.format(name=name).replace("replicas: 2", count) + gateway)
    return Rollout(client, service, service.model_dump(by_alias=True, mode="json", exclude_unset=True), ns)


async def deploy(client: Client, ns: str, name: str, gateway: str = GATEWAY, *, count: str = "replicas: 2") -> None:
    created = rollout(client, ns, name, gateway, count=count)
    await created.prepare(create_namespace=False)
    await created.apply(lambda _: None, PATIENCE)


async def remove(client: Client, ns: str, name: str) -> None:
    await delete_service(client, await seen.get_record(client, name, ns), ns, PATIENCE)


async def names(client: Client, resource: Any, ns: str) -> set[str]:
    return {item["metadata"]["name"] for item in (await client.list(resource, ns)).items}


async def until_none(client: Client, ns: str) -> None:
    ends = clock.loop_time() + PATIENCE
    for kind in KINDS:
        while result := await names(client, kind, ns):
            assert clock.loop_time() < ends, f"{kind.kind}: {result}"
            await clock.sleep(0.1)


def test_services_share_a_gateway_until_removed(cluster: Cluster, ns: str) -> None:
    async def main() -> None:
        async with open_client(cluster.kubeconfig) as client:
            await deploy(client, ns, "one")
            await deploy(client, ns, "two")
            shared = (await client.get(DEPLOYMENT, "gateway", ns))["metadata"]["ownerReferences"]
            assert {item["name"] for item in shared} == {"one-model-service", "two-model-service"}
            account = (await client.get(SERVICE_ACCOUNT, "models", ns))["metadata"]["ownerReferences"]
            assert {item["name"] for item in account} == {"one-model-service", "two-model-service"}
            text = (await client.get(CONFIG_MAP, "gateway", ns))["data"]["gateway.yaml"]
            assert "name: one\n" in text
            assert "name: two\n" in text

            await remove(client, ns, "one")
            assert await names(client, DEPLOYMENT, ns) == {"gateway", "two"}
            assert "name: one\n" not in (await client.get(CONFIG_MAP, "gateway", ns))["data"]["gateway.yaml"]
            assert "models" in await names(client, SERVICE_ACCOUNT, ns)

            await deploy(client, ns, "two", gateway="")
            assert await names(client, DEPLOYMENT, ns) == {"two"}
            assert await names(client, CONFIG_MAP, ns) == {"kube-root-ca.crt", "two-model-service"}
            await deploy(client, ns, "two", gateway="")  # a second time, which changes nothing
            assert (await client.get(DEPLOYMENT, "two", ns))["metadata"]["generation"] == 1

            await remove(client, ns, "two")
            await until_none(client, ns)
            assert await names(client, CONFIG_MAP, ns) == {"kube-root-ca.crt"}
            assert await names(client, SERVICE_ACCOUNT, ns) == {"default"}

    clock.run(main())


def test_concurrent_deployments(cluster: Cluster, ns: str) -> None:
    async def main() -> None:
        async with open_client(cluster.kubeconfig) as client:
            await asyncio.gather(deploy(client, ns, "one"), deploy(client, ns, "two"))
            text = (await client.get(CONFIG_MAP, "gateway", ns))["data"]["gateway.yaml"]
            assert "name: one\n" in text
            assert "name: two\n" in text
            shared = (await client.get(DEPLOYMENT, "gateway", ns))["metadata"]["ownerReferences"]
            assert {item["name"] for item in shared} == {"one-model-service", "two-model-service"}

            first, second = (rollout(client, ns, "one", "", count=count) for count in ("replicas: 1", "replicas: 3"))
            for item in (first, second):
                await item.prepare(create_namespace=False)
            await second.apply(lambda _: None, PATIENCE)
            with pytest.raises(RecordConflict):
                await first.apply(lambda _: None, PATIENCE)
            assert (await client.get(DEPLOYMENT, "one", ns))["spec"]["replicas"] == 3

            late = rollout(client, ns, "three")
            await late.prepare(create_namespace=False)
            await deploy(client, ns, "three")
            with pytest.raises(RecordConflict):
                await late.apply(lambda _: None, PATIENCE)
            for name in ("one", "two", "three"):
                await remove(client, ns, name)
            await until_none(client, ns)

    clock.run(main())


def test_deleting_the_record_deletes_the_service(cluster: Cluster, ns: str) -> None:
    async def main() -> None:
        async with open_client(cluster.kubeconfig) as client:
            await deploy(client, ns, "one")
            await client.delete(CONFIG_MAP, "one-model-service", ns, propagation_policy="Background")
            await until_none(client, ns)

    clock.run(main())


def test_replicas_are_kept_when_an_autoscaler_takes_over(cluster: Cluster, ns: str) -> None:
    async def replicas(client: Client) -> int:
        return int((await client.get(DEPLOYMENT, "one", ns))["spec"]["replicas"])

    async def main() -> None:
        async with open_client(cluster.kubeconfig) as client:
            await deploy(client, ns, "one", "", count="replicas: 3")
            await deploy(client, ns, "one", "", count="autoscaling: {min: 2, max: 4}")
            assert await replicas(client) == 3
            await client.patch(DEPLOYMENT, "one", {"spec": {"replicas": 4}}, ns)  # as the autoscaler does
            await deploy(client, ns, "one", "", count="autoscaling: {min: 2, max: 5}")
            assert await replicas(client) == 4
            await deploy(client, ns, "one", "", count="replicas: 2")
            assert await replicas(client) == 2
            await deploy(client, ns, "one", "", count="replicas: 0")
            await deploy(client, ns, "one", "", count="autoscaling: {min: 2, max: 4}")
            assert await replicas(client) == 1  # the autoscaler ignores a target with zero replicas
            await remove(client, ns, "one")

    clock.run(main())
