"""Environments for tests of what is put into clusters: the examples, small ones, and a twin in this process to put it into."""

from __future__ import annotations

from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.yamls import load_all, load_path
from sliceworks.infra.cluster.compose import Given, steps
from sliceworks.infra.cluster.shelves import OfTheTwin
from sliceworks.kube.client import Client
from sliceworks.specs import documents
from sliceworks.specs.environment import Environment
from sliceworks.training.queues import manifests
from sliceworks.twin.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from sliceworks.infra.cluster.steps import Step

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
"""The least that an Environment says."""
SMALL = f"{BARE}  pools: {{cpu: {{cpu: {{nodes: 1}}}}, tpu: {{slice: {{type: v4-16}}}}}}\n"


def small(more: str = "") -> Environment:
    """A small environment, with more in its spec."""
    return _read(load_all(SMALL + more, "environment.yaml"))


def example(name: str) -> Environment:
    """One of the examples."""
    return _read(load_path(EXAMPLES / "environments" / name / "environment.yaml"))


def graph() -> Object:
    """The definition of Gemma on TPUs."""
    [document] = load_path(EXAMPLES / "graphs" / "gemma-on-tpu" / "definition.yaml")
    return document.data


def given(environment: Environment, **more: Any) -> Given:
    """What a command would read for an environment on a twin."""
    spec = environment.spec
    service = spec.self_service
    found: dict[str, Any] = {"queues": manifests(environment) if spec.addons.kueue or spec.teams else []}
    if service:
        found["secrets"] = {each.secret: {"username": "ann", "key": "tell-nobody"} for each in service.model_registries}
        found["graphs"] = [graph()] if service.graphs else []
    return Given(**{**found, **more})


def brought(environment: Environment) -> dict[str, list[Object]]:
    """The releases that a twin does not have in it."""
    from sliceworks.infra.cluster.releases import releases

    wanted = [each for each in releases(environment.spec) if each.name == "config-connector"]
    return {each.name: OfTheTwin().objects(each, {})[0] for each in wanted}


def on_twin(environment: Environment, **more: Any) -> tuple[Step, ...]:
    """The steps for a twin that has JobSet and Kueue in it, and Config Connector to come."""
    return steps(environment, given(environment, **{"releases": brought(environment), **more}))


@asynccontextmanager
async def twin(nodes: int = 1) -> AsyncIterator[Client]:
    """A twin in this process with some nodes, and a client for it."""
    async with Cluster() as cluster, Client(cluster.transport()) as client:
        await clock.sleep(1)
        for number in range(nodes):
            labels = {"sliceworks.dev/node": "simulated", "iam.gke.io/gke-metadata-server-enabled": "true"}
            room = {"cpu": "32", "memory": "128Gi", "pods": "110"}
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"node-{number}", "labels": labels}}
            await client.create({**node, "status": {"capacity": room, "allocatable": room}})
        yield client


def play(main: Callable[[Client], Coroutine[Any, Any, None]], nodes: int = 1) -> None:
    """Run a test on a twin, in virtual time."""

    async def whole() -> None:
        async with twin(nodes) as client:
            await main(client)

    clock.run(whole(), virtual=True, seed=1)


def silent(_step: Step) -> Callable[[str], None]:
    """Nobody hears what goes on."""
    return lambda _said: None


def _read(found: list[Any]) -> Environment:
    [document] = found
    environment = documents.read(document)
    assert isinstance(environment, Environment)
    return environment
