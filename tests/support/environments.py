"""Environments for tests of cluster setup: the examples, small ones, and an embedded twin to apply them to."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.yaml_documents import load_all, load_path
from sliceworks.infra.cluster.addon import TwinReleases
from sliceworks.infra.cluster.composition import ClusterInputs, compose_steps
from sliceworks.kube.client import Client
from sliceworks.specs import documents
from sliceworks.specs.environment import Environment
from sliceworks.training.queues import build_manifests
from sliceworks.twin.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from sliceworks.infra.cluster.inventory import Step

Object = dict[str, Any]
EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ("saxml", "self-service", "training", "triton")
BARE = """apiVersion: sliceworks.dev/v1alpha1
kind: Environment
metadata: {name: small}
spec:
  project: my-project
  region: us-central2
  zones: [us-central2-b]
  automation: {bucket: my-automation}
"""
"""The required fields of an Environment."""
SMALL = f"{BARE}  pools: {{cpu: {{cpu: {{nodes: 1}}}}, tpu: {{slice: {{type: v4-16}}}}}}\n"


def small(more: str = "") -> Environment:
    """A small environment with additional fields in its spec."""
    return _read(load_all(SMALL + more, "environment.yaml"))


def example(name: str) -> Environment:
    """Load one of the examples."""
    return _read(load_path(EXAMPLES / "environments" / name / "environment.yaml"))


def graph() -> Object:
    """The graph definition of Gemma on TPUs."""
    [document] = load_path(EXAMPLES / "graphs" / "gemma-on-tpu" / "definition.yaml")
    return document.data


def cluster_inputs(environment: Environment, **more: Any) -> ClusterInputs:
    """The inputs that a command reads for an environment on a twin."""
    spec = environment.spec
    service = spec.self_service
    result: dict[str, Any] = {"queues": build_manifests(environment) if spec.addons.kueue or spec.teams else []}
    if service:
        result["secrets"] = {item.secret: {"username": "ann", "key": "registry-token"} for item in service.model_registries}
        result["graphs"] = [graph()] if service.graphs else []
    return ClusterInputs(**{**result, **more})


def required_release_objects(environment: Environment) -> dict[str, list[Object]]:
    """The releases that a twin does not include."""
    from sliceworks.infra.cluster.addon import required_releases

    expected = [release for release in required_releases(environment.spec) if release.name == "config-connector"]
    return {item.name: TwinReleases().objects(item, {})[0] for item in expected}


def on_twin(environment: Environment, **more: Any) -> tuple[Step, ...]:
    """The steps for a twin that includes JobSet and Kueue, and installs Config Connector."""
    return compose_steps(environment, cluster_inputs(environment, **{"releases": required_release_objects(environment), **more}))


@asynccontextmanager
async def twin(nodes: int = 1) -> AsyncIterator[Client]:
    """An embedded twin with some nodes, and a client for it."""
    async with Cluster() as cluster, Client(cluster.transport()) as client:
        await clock.sleep(1)
        for number in range(nodes):
            labels = {"sliceworks.dev/node": "simulated", "iam.gke.io/gke-metadata-server-enabled": "true"}
            room = {"cpu": "32", "memory": "128Gi", "pods": "110"}
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"node-{number}", "labels": labels}}
            await client.create({**node, "status": {"capacity": room, "allocatable": room}})
        yield client


def play(main: Callable[[Client], Coroutine[Any, Any, None]], nodes: int = 1) -> None:
    """Run a test's coroutine on a twin, in virtual time."""

    async def run_main() -> None:
        async with twin(nodes) as client:
            await main(client)

    clock.run(run_main(), virtual=True, seed=1)


def silent(_step: Step) -> Callable[[str], None]:
    """A progress callback that ignores all messages."""
    return lambda _line: None


def _read(values: list[Any]) -> Environment:
    [document] = values
    environment = documents.read(document)
    assert isinstance(environment, Environment)
    return environment
