"""The examples on a twin in virtual time: they become ready, share a gateway, change, fail with a reason, and leave nothing
behind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.model_services import EXAMPLES, changed, example

from sliceworks import __version__, catalog
from sliceworks.base import clock, yaml_documents
from sliceworks.base.errors import SliceworksError, TimedOut, Unreachable
from sliceworks.kube.client import Client
from sliceworks.kube.resources import (
    CONFIG_MAP,
    DEPLOYMENT,
    HORIZONTAL_POD_AUTOSCALER,
    JOB,
    NAMESPACE,
    NODE,
    POD,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    STATEFUL_SET,
    Resource,
)
from sliceworks.serving import cluster, ownership, publication, rollout
from sliceworks.serving import record as records
from sliceworks.serving.compiler import manifests
from sliceworks.serving.ingress_route import ROUTE_KINDS, referenced_services
from sliceworks.serving.service_status import UNMEASURED
from sliceworks.serving.validation import parse_valid
from sliceworks.twin.cluster import Cluster
from sliceworks.twin.nodes.node_shape import NodeShape, create_nodes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sliceworks.specs.model_service import ModelService

Object = dict[str, Any]
SLICES = {"v5litepod-4": 1, "v5litepod-1": 1, "v5litepod-16": 2, "v5litepod-8": 1, "v6e-4": 2, "l4-1": 2, "t4-1": 3}
_USUAL, _SIZES = ("n2-highmem-32", "32", "256Gi"), {"huge": ("n2-highmem-80", "80", "640Gi")}
POOLS = {"default": (), "saxml-admin": ("saxml-admin",), "saxml-proxy": ("saxml-proxy",), "large": (), "huge": ()}
ROUTES = (
    ("gateway.networking.k8s.io", "Gateway"),
    ("gateway.networking.k8s.io", "HTTPRoute"),
    ("networking.istio.io", "Gateway"),
    ("networking.istio.io", "VirtualService"),
    ("networking.istio.io", "DestinationRule"),
)


class Platform:
    """Namespaces, accounts and nodes of every type that the examples need."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.told: list[str] = []

    async def build(self) -> None:
        for name in ("models", "triton"):
            await self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, resource=NAMESPACE)
        for place, name in (("models", "models"), ("triton", "triton-sa")):
            account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": place}}
            await self.client.apply(account, resource=SERVICE_ACCOUNT)
        first = 0
        for name, taints in POOLS.items():
            tainted = tuple({"key": key, "value": "true", "effect": "NoSchedule"} for key in taints)
            await create_nodes(self.client, NodeShape(name, *_SIZES.get(name, _USUAL), taints=tainted), 2, first=first)
            first += 2
        for kind, count in SLICES.items():
            shape = catalog.find(kind)
            room = shape.machine.allocatable()
            for number in range(count):
                pool = NodeShape(
                    f"{kind}-{number}",
                    shape.machine.name,
                    cpu=room["cpu"],
                    memory=room["memory"],
                    resources={shape.resource: str(shape.chips_per_host)},
                    labels=shape.node_labels(),
                    taints=tuple(shape.node_taints()),
                )
                await create_nodes(self.client, pool, shape.hosts, first=first)
                first += shape.hosts

    async def create_secrets(self) -> None:
        """The credentials that pods of the examples mount."""
        keys = {"hugging-face": "token", "kaggle-secret": "kaggle.json", "gateway-keys": "team-a", "gateway-admin": "key"}
        for name, key in keys.items():
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "models"}}
            await self.client.create({**secret, "stringData": {key: "x"}}, resource=SECRET)

    async def install_routes(self) -> None:
        """Install the kinds of the Gateway API and Istio; their schemas are tested elsewhere."""
        for group, kind in ROUTES:
            plural = f"{kind.lower()}s"
            schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
            version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
            spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
            metadata = {"name": f"{plural}.{group}", "annotations": {"api-approved.kubernetes.io": "https://example.com"}}
            definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata}
            await self.client.create({**definition, "spec": spec})
        await clock.sleep(5)

    async def routes(self, namespace: str) -> list[Object]:
        kinds = [Resource(group, "v1", kind, f"{kind.lower()}s") for group, kind in ROUTES if kind in ROUTE_KINDS]
        return [item for kind in kinds for item in (await self.client.list(kind, namespace)).items]

    async def deploy(self, service: ModelService, timeout: float = 3600, *, wait: bool = True) -> rollout.Rollout:
        document = service.model_dump(by_alias=True, exclude_unset=True, mode="json")
        created = rollout.Rollout(self.client, service, document, service.metadata.namespace or "default")
        await created.prepare()
        record = await created.apply(self.told.append, timeout, wait=wait)
        if wait:
            await created.follow(record, self.told.append, timeout)
        return created

    async def seen(self, name: str, namespace: str) -> cluster.ServiceDetails:
        return await cluster.describe(self.client, await cluster.get_record(self.client, name, namespace), namespace)

    async def delete(self, name: str, namespace: str) -> None:
        await ownership.delete_service(self.client, await cluster.get_record(self.client, name, namespace), namespace, 600)

    async def names(self, resource: Any, namespace: str) -> set[str]:
        return {item["metadata"]["name"] for item in (await self.client.list(resource, namespace)).items}


def run_on_platform(scenario: Callable[[Platform], Awaitable[None]], *, secrets: bool = True) -> None:
    async def main() -> None:
        async with Cluster() as twin:
            platform = Platform(Client(twin.transport()))
            await platform.build()
            if secrets:
                await platform.create_secrets()
            await scenario(platform)

    clock.run(main(), virtual=True, seed=1)


@pytest.mark.parametrize("name", EXAMPLES)
def test_example_becomes_ready_and_leaves_nothing_behind(name: str) -> None:
    async def scenario(platform: Platform) -> None:
        service = example(name)
        place, front = service.metadata.namespace or "", service.spec.gateway
        if service.spec.route:
            await platform.install_routes()
        await platform.deploy(service)
        seen = await platform.seen(service.metadata.name, place)
        assert seen.status.state == "ready"
        assert not seen.causes
        gateways = [workload.name for workload in seen.status.workloads if workload.component == "gateway"]
        assert gateways == ([front.name] if front else [])
        await platform.delete(service.metadata.name, place)
        await clock.sleep(120)
        for kind in (DEPLOYMENT, STATEFUL_SET, POD, SERVICE):
            assert await platform.names(kind, place) == set(), kind.kind
        assert await platform.names(CONFIG_MAP, place) == {"kube-root-ca.crt"}

    run_on_platform(scenario)


def test_multi_host_slice_runs_on_one_pool() -> None:
    async def scenario(platform: Platform) -> None:
        await platform.deploy(example("llama2-70b-saxml"))
        pods = (await platform.client.list(POD, "saxml", labels="app.kubernetes.io/component=server")).items
        by_slice: dict[str, set[str]] = {}
        for pod in pods:
            pool = pod["spec"]["nodeName"].rpartition("-")[0]
            by_slice.setdefault(pod["metadata"]["labels"]["sliceworks.dev/slice"], set()).add(pool)
        assert len(pods) == 8
        assert [len(item) for item in by_slice.values()] == [1, 1]
        assert len(set.union(*by_slice.values())) == 2

    run_on_platform(scenario)


def test_gateway_is_shared_until_the_last_service_is_deleted() -> None:
    async def scenario(platform: Platform) -> None:
        await platform.deploy(example("llama2-7b-saxml"))
        await platform.deploy(example("llama2-13b-saxml"))
        configuration = (await platform.client.get(CONFIG_MAP, "gateway", "saxml"))["data"]["gateway.yaml"]
        assert "name: llama2-7b\n" in configuration
        assert "name: llama2-13b\n" in configuration
        await platform.delete("llama2-7b", "saxml")
        configuration = (await platform.client.get(CONFIG_MAP, "gateway", "saxml"))["data"]["gateway.yaml"]
        assert "name: llama2-7b\n" not in configuration
        assert (await platform.seen("llama2-13b", "saxml")).status.state == "ready"
        assert "saxml-sa" in await platform.names(SERVICE_ACCOUNT, "saxml")
        await platform.delete("llama2-13b", "saxml")
        assert await platform.names(DEPLOYMENT, "saxml") == set()

    run_on_platform(scenario)


def test_obsolete_objects_are_deleted() -> None:
    async def scenario(platform: Platform) -> None:
        await platform.deploy(example("llama2-7b-saxml"))
        before = await platform.names(DEPLOYMENT, "saxml")
        await platform.deploy(changed("llama2-7b-saxml", "    cell: /sax/test", "    shell: false\n    cell: /sax/test"))
        assert before - await platform.names(DEPLOYMENT, "saxml") == {"llama2-7b-shell"}
        service = example("llama2-7b-saxml")
        bare = service.model_copy(update={"spec": service.spec.model_copy(update={"gateway": None})})
        await platform.deploy(bare)
        await clock.sleep(60)
        assert "gateway" not in await platform.names(DEPLOYMENT, "saxml")
        assert "gateway" not in await platform.names(CONFIG_MAP, "saxml")

    run_on_platform(scenario)


def test_deletion_order() -> None:
    async def scenario(platform: Platform) -> None:
        await platform.install_routes()
        whole = example("densenet-triton-mesh")
        await platform.deploy(whole)
        bare = whole.spec.model_copy(update={"route": None, "canary": None})
        deleted: list[str] = []

        class Watched(Client):
            async def delete(self, resource: Resource, name: str, *places: Any, **options: Any) -> Object:
                deleted.append(f"{resource.kind} {name}")
                return await super().delete(resource, name, *places, **options)

        await Platform(Watched(platform.client.transport)).deploy(whole.model_copy(update={"spec": bare}))
        assert deleted == [
            "VirtualService densenet-mesh",
            "DestinationRule densenet-mesh-canary",
            "DestinationRule densenet-mesh-stable",
            "Gateway densenet-mesh",
            "Service densenet-mesh-canary",
            "Service densenet-mesh-stable",
            "Deployment densenet-mesh-canary",
        ]

    run_on_platform(scenario)


def test_every_kind_has_a_deletion_order() -> None:
    created = {records.reference(obj) for name in EXAMPLES for obj in manifests(example(name))}
    unknown = records.Reference("example.com/v1", "Unheard", "a")
    ordered = [item.kind for item in records.deletion_order({unknown, *created})]
    assert ordered[-1] == "Unheard"
    assert ordered[-2] == "ServiceAccount"
    assert max(index for index, kind in enumerate(ordered) if kind == "Service") < ordered.index("Deployment")
    assert ordered.index("NetworkPolicy") > max(index for index, kind in enumerate(ordered) if kind == "StatefulSet")


def test_second_deploy_changes_nothing() -> None:
    async def scenario(platform: Platform) -> None:
        await platform.deploy(example("gemma-jetstream"))
        started = clock.loop_time()
        before = {item["metadata"]["uid"] for item in (await platform.client.list(POD, "models")).items}
        await platform.deploy(example("gemma-jetstream"))
        assert {item["metadata"]["uid"] for item in (await platform.client.list(POD, "models")).items} == before
        assert clock.loop_time() - started < 60  # the loader runs twenty minutes, once

    run_on_platform(scenario)


def test_missing_machines_are_reported() -> None:
    async def scenario(platform: Platform) -> None:
        service = example("qwen-vllm-gpu")
        expected = service.model_copy(update={"spec": service.spec.model_copy(update={"replicas": 5, "route": None})})
        with pytest.raises(TimedOut) as caught:
            await platform.deploy(expected, timeout=120)
        assert caught.value.message.startswith("model service qwen is not ready: pod/qwen-")
        assert "unschedulable: " in caught.value.message
        assert "a node pool of nvidia-l4 is free" in caught.value.hint
        assert (await platform.seen("qwen", "models")).status.state == "degraded"

    run_on_platform(scenario)


def test_autoscalers_of_a_twin_lack_metrics_without_a_failure() -> None:
    async def scenario(platform: Platform) -> None:
        await platform.deploy(example("densenet-triton"))
        await clock.sleep(60)
        seen = await platform.seen("densenet", "triton")
        assert {(item.name, item.state, item.cause) for item in seen.autoscalers} == {
            ("densenet", UNMEASURED, None),
            ("gateway", UNMEASURED, None),
        }

    run_on_platform(scenario)


def test_change_waits_for_new_pods() -> None:
    async def scenario(platform: Platform) -> None:
        await platform.deploy(example("gemma-jetstream"))
        await clock.sleep(60)  # until the autoscaler has scaled one to two
        image = f"gateway:{__version__}"
        elsewhere = changed("gemma-jetstream", image, f"{image}\n    pool: {{name: nowhere}}")
        with pytest.raises(TimedOut) as caught:
            await platform.deploy(elsewhere, timeout=120)
        assert "pod/gateway-" in caught.value.message
        assert caught.value.hint == "check that the node pool nowhere exists and has free capacity"
        assert any("deployment/gateway 2/2 updating" in item for item in platform.told)
        seen = await platform.seen("gemma", "models")
        words = {workload.name: (workload.ready, workload.desired, workload.state) for workload in seen.status.workloads}
        assert (seen.status.state, words["gateway"]) == ("updating", (2, 2, "updating"))

    run_on_platform(scenario)


def test_missing_references_are_reported_before_apply() -> None:
    async def scenario(platform: Platform) -> None:
        service = changed("llama3-vllm-tpu", "{serviceAccount: models}", "{serviceAccount: missing-account}")

        async def missing() -> list[str]:
            created = rollout.Rollout(platform.client, service, {}, "models")
            await created.prepare()
            return created.missing

        assert await missing() == [
            "serviceaccount/missing-account in models; create it with `kubectl create serviceaccount missing-account -n models`",
            (
                "secret/hugging-face in models; create it with "
                "`kubectl create secret generic hugging-face -n models --from-literal=token=…`"
            ),
            "secret/gateway-admin in models",
            "secret/gateway-keys in models",
        ]
        for name, data in (("hugging-face", {"wrong": "eA=="}), ("gateway-admin", {}), ("gateway-keys", {})):
            metadata = {"name": name, "namespace": "models"}
            await platform.client.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "missing-account", "namespace": "models"}}
        await platform.client.create(account)
        assert await missing() == ["token of secret/hugging-face in models"]

    run_on_platform(scenario, secrets=False)


def test_account_that_an_environment_took_over_outlives_the_service() -> None:
    """The service created it, with itself as owner; an environment that is applied later removes the owner."""
    identity = "{serviceAccount: server, googleServiceAccount: server@my-project.iam.gserviceaccount.com}"

    async def main(platform: Platform) -> None:
        service = changed("llama3-vllm-tpu", "{serviceAccount: models}", identity)
        await platform.deploy(service)
        account = await platform.client.get(SERVICE_ACCOUNT, "server", "models")
        assert len(account["metadata"]["ownerReferences"]) == 1
        await platform.client.patch(SERVICE_ACCOUNT, "server", {"metadata": {"ownerReferences": None}}, "models")
        await platform.deploy(service)
        await platform.delete("llama3", "models")
        await clock.sleep(60)
        assert "server" in await platform.names(SERVICE_ACCOUNT, "models")

    run_on_platform(main)


def test_model_names_are_unique_per_gateway() -> None:
    async def scenario(platform: Platform) -> None:
        await platform.deploy(example("gemma-jetstream"))
        other = changed("llama3-vllm-tpu", "name: llama-3.1-8b", "name: gemma-7b-it")
        with pytest.raises(
            SliceworksError, match="model gemma-7b-it is also served by gemma behind the same gateway gateway"
        ) as caught:
            await platform.deploy(other)
        assert caught.value.hint == "rename the model, or use another gateway for one of the services"
        assert "llama3" not in await platform.names(DEPLOYMENT, "models")
        await platform.deploy(example("gemma-jetstream"))  # the service itself is not another

    run_on_platform(scenario)


def test_sax_cell_has_one_admin_server() -> None:
    async def scenario(platform: Platform) -> None:
        await platform.deploy(example("llama2-7b-saxml"), wait=False)
        place = ("name: llama2-7b\n  namespace: saxml", "name: second\n  namespace: models")
        second = rollout.Rollout(platform.client, changed("llama2-7b-saxml", *place), {}, "models")
        with pytest.raises(
            SliceworksError, match="/sax-root/sax/test is the cell of model service llama2-7b in namespace saxml"
        ) as caught:
            await second.prepare()
        assert caught.value.hint == "set spec.saxml.cell to another, such as /sax/second"
        for setting in ("cell: /sax/second", "cell: /sax/test\n    root: gs://elsewhere/root"):
            other = changed("llama2-7b-saxml", *place, ("cell: /sax/test", setting))
            await rollout.Rollout(platform.client, other, {}, "models").prepare()
        await platform.deploy(example("llama2-7b-saxml"), wait=False)  # the service itself is not another

    run_on_platform(scenario)


def test_rejected_service_creates_no_namespace() -> None:
    async def scenario(platform: Platform) -> None:
        created = rollout.Rollout(platform.client, example("qwen-vllm-gpu"), {}, "elsewhere")
        with pytest.raises(SliceworksError, match="the Gateway API is not installed"):
            await created.prepare()
        assert await platform.client.find(NAMESPACE, "elsewhere") is None

    run_on_platform(scenario)


def test_failed_job_ends_the_deployment() -> None:
    async def scenario(platform: Platform) -> None:
        service = example("llama2-7b-saxml")
        notes = {"sliceworks.dev/exit-code": "3", "sliceworks.dev/run-seconds": "5"}
        failing = service.model_copy(update={"metadata": service.metadata.model_copy(update={"annotations": notes})})
        with pytest.raises(SliceworksError, match="model service llama2-7b failed: job/llama2-7b-convert-"):
            await platform.deploy(failing)
        assert await platform.names(DEPLOYMENT, "saxml") == set()  # nothing was started without the converted weights

    run_on_platform(scenario)


def test_missing_mesh_is_an_error_before_apply() -> None:
    async def scenario(platform: Platform) -> None:
        with pytest.raises(SliceworksError, match="Istio is not installed"):
            await platform.deploy(example("densenet-triton-mesh"))
        assert await platform.names(SERVICE, "triton") == set()

    run_on_platform(scenario)


def test_canary_gets_requests_when_ready() -> None:
    async def scenario(platform: Platform) -> None:
        await platform.install_routes()
        canary = "  canary:\n    weight: 10\n    image: nvcr.io/nvidia/tritonserver:25.09-py3\n"
        alone = changed("densenet-triton-mesh", canary, "")
        await platform.deploy(alone)
        platform.told.clear()
        await platform.deploy(example("densenet-triton-mesh"))
        waited = platform.told.index("deployment/densenet-mesh-canary 0/1 starting")
        assert waited < platform.told.index("VirtualService densenet-mesh")
        before = clock.loop_time()
        await platform.deploy(alone)
        assert clock.loop_time() - before >= 10
        assert await platform.names(SERVICE, "triton") == {"densenet-mesh"}

    run_on_platform(scenario)


@pytest.mark.parametrize("via", ["via: istio", "via: gateway-api"])
def test_unready_canary_gets_no_requests(via: str) -> None:
    async def scenario(platform: Platform) -> None:
        await platform.install_routes()
        canary = "  canary:\n    weight: 10\n    image: nvcr.io/nvidia/tritonserver:25.09-py3\n"
        alone = changed("densenet-triton-mesh", canary, "", ("via: istio", via))
        await platform.deploy(alone)
        too_many = changed("densenet-triton-mesh", "weight: 10", "weight: 10\n    replicas: 9", ("via: istio", via))
        for _ in range(2):  # the second time the record already has it
            with pytest.raises(TimedOut):
                await platform.deploy(too_many, timeout=30)
            [route] = await platform.routes("triton")
            assert referenced_services(route) == {"densenet-mesh"}
        before = clock.loop_time()
        await platform.deploy(alone)
        assert clock.loop_time() - before < 15
        assert await platform.names(SERVICE, "triton") == {"densenet-mesh"}

    run_on_platform(scenario)


def test_canary_without_wait_is_completed_later() -> None:
    async def scenario(platform: Platform) -> None:
        async def left(service: ModelService) -> tuple[str, ...]:
            started = clock.loop_time()
            await platform.deploy(service, wait=False)
            assert clock.loop_time() - started < 1
            return (await cluster.get_record(platform.client, "densenet-mesh", "triton")).pending_steps

        async def leads_to() -> set[str]:
            [route] = await platform.routes("triton")
            return referenced_services(route)

        await platform.install_routes()
        both = example("densenet-triton-mesh")
        alone = changed("densenet-triton-mesh", "  canary:\n    weight: 10\n    image: nvcr.io/nvidia/tritonserver:25.09-py3\n", "")
        versions = {"densenet-mesh-stable", "densenet-mesh-canary"}
        await platform.deploy(alone)
        # 1. The new servers start and get no requests yet.
        assert await left(both) == ("apply virtualservice/densenet-mesh", "remove destinationrule/densenet-mesh")
        assert await leads_to() == {"densenet-mesh"}
        assert "densenet-mesh-canary" in await platform.names(DEPLOYMENT, "triton")
        # 2. A command that waits, or one that runs when they are ready, gives them their share.
        await platform.deploy(both)
        assert not await left(both)
        assert await leads_to() == versions
        # 3. They are deleted when all proxies have the new route; only a command that waits knows that.
        deleted = await left(alone)
        assert {f"remove service/{name}" for name in versions} <= set(deleted)
        assert "remove deployment/densenet-mesh-canary" in deleted
        assert await leads_to() == {"densenet-mesh"}
        assert versions <= await platform.names(SERVICE, "triton")
        await platform.deploy(alone)
        assert not (await platform.seen("densenet-mesh", "triton")).record.pending_steps
        assert await platform.names(SERVICE, "triton") == {"densenet-mesh"}

    run_on_platform(scenario)


def test_steps_after_a_job_are_pending_without_wait() -> None:
    async def scenario(platform: Platform) -> None:
        started = clock.loop_time()
        await platform.deploy(example("llama2-7b-saxml"), wait=False)
        assert clock.loop_time() - started < 1
        seen = await platform.seen("llama2-7b", "saxml")
        assert {"apply deployment/llama2-7b-admin", "apply deployment/llama2-7b"} <= set(seen.record.pending_steps)
        assert await platform.names(DEPLOYMENT, "saxml") == set()
        assert len(await platform.names(JOB, "saxml")) == 1
        await platform.deploy(example("llama2-7b-saxml"))
        seen = await platform.seen("llama2-7b", "saxml")
        assert (seen.status.state, seen.record.pending_steps) == ("ready", ())

    run_on_platform(scenario)


def test_gateway_drops_a_service_deleted_without_wait() -> None:
    async def scenario(platform: Platform) -> None:
        await platform.install_routes()
        canary = "  canary:\n    weight: 10\n    image: nvcr.io/nvidia/tritonserver:25.09-py3\n"
        one = changed("densenet-triton-mesh", canary, "  gateway: {image: 'g:1'}\n", ("replicas: 2", "replicas: 1"))
        other = changed(
            "densenet-triton-mesh", canary, "  gateway: {image: 'g:1'}\n",
            ("replicas: 2", "replicas: 1"), ("densenet_onnx", "resnet_onnx"), ("name: densenet-mesh", "name: other"),
        )  # fmt: skip
        for item in (one, other):
            await platform.deploy(item)
        moved = changed("densenet-triton-mesh", canary, "  gateway: {image: 'g:1', name: second}\n", ("replicas: 2", "replicas: 1"))
        await platform.deploy(moved, wait=False)
        await platform.deploy(moved)
        written = (await platform.client.get(CONFIG_MAP, "gateway", "triton"))["data"]
        assert "densenet-mesh" not in str(written)
        assert "other" in str(written)

    run_on_platform(scenario)


def test_shared_route_objects_are_kept() -> None:
    async def scenario(platform: Platform) -> None:
        await platform.install_routes()
        canary = "  canary:\n    weight: 10\n    image: nvcr.io/nvidia/tritonserver:25.09-py3\n"
        two = changed("densenet-triton-mesh", canary, "  gateway: {image: 'g:1'}\n")
        first = two.model_copy(update={"spec": two.spec.model_copy(update={"replicas": 1})})
        await platform.deploy(first)
        other = changed(
            "densenet-triton-mesh", canary, "  gateway: {image: 'g:1'}\n",
            ("densenet_onnx", "resnet_onnx"), ("name: densenet-mesh", "name: second"),
        )  # fmt: skip
        second = other.model_copy(update={"spec": other.spec.model_copy(update={"replicas": 1})})
        await platform.deploy(second)
        await platform.deploy(second.model_copy(update={"spec": second.spec.model_copy(update={"route": None})}))
        rules = Resource("networking.istio.io", "v1", "DestinationRule", "destinationrules")
        assert await platform.names(rules, "triton") == {"gateway"}

    run_on_platform(scenario)


def test_unknown_service_is_an_error_with_the_closest_name() -> None:
    async def scenario(platform: Platform) -> None:
        await platform.deploy(example("llama3-vllm-tpu"))
        with pytest.raises(SliceworksError) as caught:
            await platform.seen("lama3", "models")
        assert caught.value.hint == "did you mean llama3?"

    run_on_platform(scenario)


def record_of(platform: Platform, name: str, namespace: str) -> Any:
    return cluster.get_record(platform.client, name, namespace)


async def change(platform: Platform, record: Any, document: Object, verb: str, model: str) -> list[str]:
    expected = parse_valid(yaml_documents.Document(document, "record", 1, {}))
    return await publication.publish(
        platform.client, record, (expected, document), (verb, model), report=platform.told.append, timeout=600
    )


def test_sax_models_are_published_and_unpublished_by_jobs() -> None:
    async def scenario(platform: Platform) -> None:
        await platform.deploy(example("llama2-7b-saxml"))
        record = await record_of(platform, "llama2-7b", "saxml")
        before = await platform.names(JOB, "saxml")
        tuned = {"name": "tuned", "class": "LLaMA7BFP16TPUv5e", "checkpoint": "gs://tuned/checkpoint_00000000"}
        await change(platform, record, publication.add_model(record, tuned), "load", "tuned")
        [created] = await platform.names(JOB, "saxml") - before
        script = (await platform.client.get(JOB, created, "saxml"))["spec"]["template"]["spec"]["containers"][0]["command"][2]
        assert "saxutil publish /sax/test/tuned saxml.server.pax.lm.params.lm_cloud.LLaMA7BFP16TPUv5e gs://tuned" in script
        assert "name: tuned\n" in (await platform.client.get(CONFIG_MAP, "gateway", "saxml"))["data"]["gateway.yaml"]
        record = await record_of(platform, "llama2-7b", "saxml")
        await change(platform, record, publication.remove_model(record, "tuned"), "unload", "tuned")
        assert "name: tuned\n" not in (await platform.client.get(CONFIG_MAP, "gateway", "saxml"))["data"]["gateway.yaml"]
        assert created not in await platform.names(JOB, "saxml")

    run_on_platform(scenario)


def test_job_that_cannot_run_ends_unpublishing_after_its_timeout() -> None:
    async def scenario(platform: Platform) -> None:
        await platform.deploy(example("llama2-7b-saxml"))
        record = await record_of(platform, "llama2-7b", "saxml")
        tuned = {"name": "tuned", "class": "LLaMA7BFP16TPUv5e", "checkpoint": "gs://tuned/checkpoint_00000000"}
        await change(platform, record, publication.add_model(record, tuned), "load", "tuned")
        for node in (await platform.client.list(NODE)).items:
            await platform.client.patch(NODE, node["metadata"]["name"], {"spec": {"unschedulable": True}})
        record = await record_of(platform, "llama2-7b", "saxml")
        with pytest.raises(TimedOut, match=r"job/llama2-7b-publish-\w+ did not complete in time: pod/.* unschedulable"):
            await change(platform, record, publication.remove_model(record, "tuned"), "unload", "tuned")

    run_on_platform(scenario)


def test_single_model_engine_is_rolled_and_stopped() -> None:
    async def scenario(platform: Platform) -> None:
        await platform.deploy(example("llama3-vllm-tpu"))
        record = await record_of(platform, "llama3", "models")
        pods = await platform.names(POD, "models")
        await change(platform, record, publication.update_model(record, "llama-3.1-8b", {}), "load", "llama-3.1-8b")
        after = await platform.names(POD, "models")
        assert {name for name in after if name.startswith("llama3-")}.isdisjoint(pods)
        other = publication.add_model(record, {"name": "llama-3.2-3b", "source": "meta-llama/Llama-3.2-3B-Instruct"})
        await change(platform, record, other, "load", "llama-3.2-3b")
        record = await record_of(platform, "llama3", "models")
        assert [model.name for model in record.service.spec.models] == ["llama-3.2-3b"]
        await change(platform, record, publication.remove_model(record, "llama-3.2-3b"), "unload", "llama-3.2-3b")
        assert (await platform.seen("llama3", "models")).status.state == "stopped"
        assert await platform.names(HORIZONTAL_POD_AUTOSCALER, "models") == {"gateway"}
        record = await record_of(platform, "llama3", "models")
        back = publication.add_model(record, {"name": "llama-3.2-3b", "source": "meta-llama/Llama-3.2-3B-Instruct"})
        await change(platform, record, back, "load", "llama-3.2-3b")
        assert (await platform.seen("llama3", "models")).status.state == "ready"
        assert await platform.names(HORIZONTAL_POD_AUTOSCALER, "models") == {"gateway", "llama3"}

    run_on_platform(scenario)


def test_change_rejected_by_triton_is_reverted() -> None:
    async def scenario(platform: Platform) -> None:
        await platform.deploy(example("densenet-triton"))
        record = await record_of(platform, "densenet", "triton")
        with pytest.raises(SliceworksError, match="the API server cannot connect to pod/densenet-"):  # simulated
            await change(platform, record, publication.add_model(record, {"name": "resnet"}), "load", "resnet")
        after = await record_of(platform, "densenet", "triton")
        assert [model.name for model in after.service.spec.models] == ["densenet_onnx"]

    run_on_platform(scenario)


def test_the_last_model_and_unknown_ones_cannot_be_unpublished() -> None:
    async def scenario(platform: Platform) -> None:
        await platform.deploy(example("densenet-triton"))
        record = await record_of(platform, "densenet", "triton")
        with pytest.raises(SliceworksError, match="it is the only model of densenet"):
            publication.remove_model(record, "densenet_onnx")
        with pytest.raises(SliceworksError) as caught:
            publication.remove_model(record, "densenet_onxx")
        assert caught.value.hint == "did you mean densenet_onnx?"

    run_on_platform(scenario)


class Broken(Client):
    """A client whose connection breaks after this many writes."""

    left = 0

    async def apply(self, obj: Object, *places: Any, **options: Any) -> Object:
        if not options.get("dry_run"):
            if self.left == 0:
                raise Unreachable("the connection broke")
            self.left -= 1
        return await super().apply(obj, *places, **options)


@pytest.mark.parametrize("writes", [0, 1, 7, 13])
def test_interrupted_deployment_is_resumed(writes: int) -> None:
    async def scenario(platform: Platform) -> None:
        service = example("llama3-vllm-tpu")
        broken = Platform(Broken(platform.client.transport))
        broken.client.left = writes  # type: ignore[attr-defined]
        with pytest.raises(Unreachable):
            await broken.deploy(service)
        if writes:
            assert (await platform.seen("llama3", "models")).status.state in ("starting", "degraded", "ready")
        if writes % 2:
            await platform.deploy(service)
            assert (await platform.seen("llama3", "models")).status.state == "ready"
        if writes:
            await platform.delete("llama3", "models")
        await clock.sleep(60)
        for kind in (DEPLOYMENT, POD, SERVICE):
            assert await platform.names(kind, "models") == set()

    run_on_platform(scenario)


def test_corrupt_record_does_not_block_other_services(capsys: pytest.CaptureFixture[str]) -> None:
    async def scenario(platform: Platform) -> None:
        await platform.deploy(example("llama3-vllm-tpu"))
        labels = {"sliceworks.dev/record": "model-service"}
        for number, data in enumerate(
            ({}, {"document.yaml": "kind: Gateway"}, {"document.yaml": "{"}, {"document.yaml": "a: 1\n---\nb: 2"})
        ):
            metadata = {"name": f"broken-{number}", "namespace": "models", "labels": labels}
            await platform.client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
        result = await cluster.list_records(platform.client, "models")
        assert [item.service.metadata.name for item in result] == ["llama3"]
        await platform.delete("llama3", "models")

    run_on_platform(scenario)
    assert capsys.readouterr().err.count("invalid record") >= 4
