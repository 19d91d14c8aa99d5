"""Rendered network policies, evaluated by a real engine: which connections are allowed, and which are not.

Nodes may always connect to their own pods, so policies do not affect probes. Egress is not limited.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.real.network_policies import Call, Peer, allowed_calls
from tests.support.model_services import EXAMPLES, changed, example

from sliceworks.base import yaml_documents
from sliceworks.loadtest.cluster import worker_job as load_objects
from sliceworks.serving.compiler import manifests
from sliceworks.specs.load_test import Workers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sliceworks.specs.model_service import ModelService

Object = dict[str, Any]
ROOT = Path(__file__).parents[2]
COMPONENT = "app.kubernetes.io/component"
COLLECTORS = [Peer("collector", space, {"app.kubernetes.io/name": "collector"}) for space in ("gmp-system", "gke-gmp-system")]
AGENT = Peer("konnectivity-agent", "kube-system", {"k8s-app": "konnectivity-agent"})
DNS = Peer("kube-dns", "kube-system", {"k8s-app": "kube-dns"}, {"dns": 53})
INGRESS = Peer("ingressgateway", "istio-system", {"istio": "internal-ingressgateway"})
STRANGER = Peer("stranger", "elsewhere", {"app": "stranger"})
BALANCERS = [Peer("health checks", ip="35.191.10.1"), Peer("health checks", ip="130.211.1.1"), Peer("proxies", ip="10.129.0.4")]
WORLD = Peer("the world", ip="203.0.113.7")
METADATA = [(Peer("metadata server", ip="169.254.169.254"), 80), (Peer("workload identity", ip="169.254.169.252"), 988)]
BUCKET = Peer("storage", ip="199.36.153.8")


def pods(made: Iterable[Object]) -> list[Peer]:
    """One pod of each workload, with its labels and ports."""
    return [_pod(item) for item in made if item["kind"] in ("Deployment", "StatefulSet", "Job")]


def _pod(workload: Object) -> Peer:
    template, metadata = workload["spec"]["template"], workload["metadata"]
    ports = {
        port["name"]: port["containerPort"] for container in template["spec"]["containers"] for port in container.get("ports") or ()
    }
    return Peer(metadata["name"], metadata["namespace"], template["metadata"]["labels"], ports)


def policies(made: Iterable[Object]) -> list[Object]:
    return [item for item in made if item["kind"] == "NetworkPolicy"]


def part(found: list[Peer], *components: str) -> list[Peer]:
    return [item for item in found if item.labels.get(COMPONENT) in components]


def read_metrics(made: list[Object], found: list[Peer]) -> Iterator[tuple[Peer, str]]:
    """The pods that managed Prometheus scrapes, and the port."""
    for monitoring in (item for item in made if item["kind"] == "PodMonitoring"):
        expected = monitoring["spec"]["selector"]["matchLabels"].items()
        port = monitoring["spec"]["endpoints"][0]["port"]
        chosen = [item for item in found if expected <= item.labels.items()]
        assert chosen
        for item in chosen:
            yield item, port


def assert_table(made: list[Object], must: Iterable[Call], must_not: Iterable[Call]) -> None:
    """Check all calls in one run of the engine."""
    through, kept = list(must), list(must_not)
    assert through or kept
    answers = allowed_calls(policies(made), [*through, *kept])
    wrong = [f"{call} is kept away" for call in through if not answers[call]]
    wrong += [f"{call} is allowed" for call in kept if answers[call]]
    assert wrong == []


def neighbour(namespace: str) -> Peer:
    return Peer("neighbour", namespace, {"app": "neighbour"})


@pytest.fixture(params=EXAMPLES)
def wanted(request: pytest.FixtureRequest) -> ModelService:
    return example(request.param)


def serving(pod: Peer) -> list[str]:
    return [name for name in pod.ports if name != "metrics"]


def test_servers_are_reachable_by_their_peers(wanted: ModelService) -> None:
    created = manifests(wanted)
    result = pods(created)
    servers, gateways, admins = part(result, "server"), part(result, "gateway"), part(result, "admin")
    assert bool(gateways) == bool(wanted.spec.gateway)
    callers = [*gateways, AGENT] if gateways else [neighbour(servers[0].namespace), AGENT]
    must = [Call(source, to, port) for source in callers for to in (*servers, *admins) for port in serving(to)]
    # Hosts of a slice use arbitrary ports among each other; servers and Jobs of a cell connect to its admin server.
    own = [item for item in result if item not in gateways]
    must += [Call(source, to, 8471) for source in servers for to in servers]
    must += [Call(source, to, "grpc") for source in own for to in admins]
    assert_table(created, must, [])


def test_servers_are_not_reachable_by_others(wanted: ModelService) -> None:
    created = manifests(wanted)
    servers = part(pods(created), "server", "admin")
    others = [STRANGER, WORLD, DNS, *BALANCERS, *([neighbour(servers[0].namespace)] if wanted.spec.gateway else [])]
    assert_table(created, [], [Call(source, to, port) for source in others for to in servers for port in to.ports])


def test_collectors_reach_only_metrics(wanted: ModelService) -> None:
    created = manifests(wanted)
    result = pods(created)
    read = set(read_metrics(created, result))
    assert wanted.spec.saxml or {item.labels[COMPONENT] for item, _ in read} >= {"server"}
    must = [Call(source, to, port) for source in COLLECTORS for to, port in read]
    rest = [(to, port) for to in part(result, "server", "admin") for port in to.ports if (to, port) not in read]
    assert_table(created, must, [Call(source, to, port) for source in COLLECTORS for to, port in rest])


def test_required_calls_are_allowed(wanted: ModelService) -> None:
    created = manifests(wanted)
    result = pods(created)
    must = [Call(source, DNS, 53, "UDP") for source in result]
    must += [Call(source, to, port) for source in result for to, port in (*METADATA, (BUCKET, 443))]
    assert_table(created, must, [])


FRONT = "  gateway:\n"


def test_gateway_is_reachable_from_named_namespaces() -> None:
    expected = changed("llama3-vllm-tpu", FRONT, FRONT + "    allowFrom: [shop]\n")
    created = manifests(expected)
    [gateway] = part(pods(created), "gateway")
    beside, shop = neighbour(gateway.namespace), Peer("till", "shop", {"app": "till"})
    must = [Call(item, gateway, "http") for item in (beside, shop, AGENT)]
    must += [Call(item, gateway, "admin") for item in (beside, AGENT, *COLLECTORS)]
    kept = [Call(item, gateway, port) for item in (STRANGER, WORLD, DNS, *BALANCERS) for port in gateway.ports]
    assert_table(
        created, must, [*kept, Call(shop, gateway, "admin"), *(Call(collector, gateway, "http") for collector in COLLECTORS)]
    )


def test_load_balancers_reach_gateway_but_not_its_metrics() -> None:
    created = manifests(example("qwen-vllm-gpu"))
    [gateway] = part(pods(created), "gateway")
    servers = part(pods(created), "server")
    outside = (*BALANCERS, WORLD, STRANGER)
    kept = [Call(item, gateway, "admin") for item in outside]
    kept += [Call(item, server, port) for item in outside for server in servers for port in server.ports]
    assert_table(created, [Call(item, gateway, "http") for item in outside], kept)


def test_load_balancers_reach_servers_without_gateway() -> None:
    expected = changed("densenet-triton-mesh", "    via: istio\n", "    via: gateway-api\n")
    created = manifests(expected)
    servers = part(pods(created), "server")
    must = [Call(balancer, server, port) for balancer in BALANCERS for server in servers for port in ("http", "grpc")]
    assert_table(created, must, [Call(balancer, server, "metrics") for balancer in BALANCERS for server in servers])


@pytest.mark.parametrize("gateway", [False, True])
def test_only_the_gateway_of_the_mesh_is_allowed(gateway: bool) -> None:
    added = FRONT + "    image: gateway:1\n  route:\n" if gateway else "  route:\n"
    created = manifests(changed("densenet-triton-mesh", "  route:\n", added))
    targets = part(pods(created), "gateway" if gateway else "server")
    other = Peer("another gateway", "istio-system", {"istio": "ingressgateway"})
    must = [Call(INGRESS, to, port) for to in targets for port in ("http", "grpc")]
    assert_table(created, must, [Call(item, to, port) for item in (other, STRANGER, WORLD) for to in targets for port in to.ports])


def test_manually_deployed_gateway() -> None:
    [gateway] = pods(created := installed("gateway"))
    beside = neighbour("models")
    kept = [Call(item, gateway, port) for item in (STRANGER, WORLD, DNS) for port in gateway.ports]
    kept += [Call(beside, gateway, "admin"), *(Call(collector, gateway, "http") for collector in COLLECTORS)]
    assert_table(created, [Call(beside, gateway, "http"), *(Call(collector, gateway, "admin") for collector in COLLECTORS)], kept)


def test_installed_controllers() -> None:
    created = installed("controllers")
    for controller in pods(created):
        others = [Call(item, controller, port) for item in (STRANGER, WORLD, DNS) for port in controller.ports]
        assert_table(created, [Call(collector, controller, "metrics") for collector in COLLECTORS], others)


def installed(name: str) -> list[Object]:
    """Workloads and network policies of the rendered manifests."""
    [*documents] = yaml_documents.load_path(ROOT / "deploy" / name / "install.yaml")
    return [document.data for document in documents if document.data["kind"] in ("Deployment", "NetworkPolicy")]


def test_load_test_workers() -> None:
    serves = manifests(example("llama3-vllm-tpu"))
    [gateway] = part(pods(serves), "gateway")
    workers = Workers.model_validate({"where": "cluster", "count": 2, "image": "load-worker:1"})
    launch = load_objects.WorkerJob("load-chat-0a1b2c", gateway.namespace, workers, 60.0, {})
    created = [load_objects.build_job(launch), *load_objects.build_dependents(launch), *serves]
    [sender] = pods(created[:1])
    beside, ports = neighbour(sender.namespace), (load_objects.MASTER_PORT, load_objects.AGENT_PORT)
    must = [Call(sender, sender, ports[0]), Call(AGENT, sender, ports[1]), Call(sender, gateway, "http")]
    others = (STRANGER, WORLD, beside, gateway, *COLLECTORS)
    assert_table(created, must, [*(Call(item, sender, port) for item in others for port in ports), Call(sender, sender, ports[1])])
