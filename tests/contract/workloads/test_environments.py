"""What environments put into their clusters: taken strictly, found unchanged, and gone again, beside JobSet and Kueue."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import environments
from tests.support.environments import on_twin, silent, small
from tests.support.waiting import PATIENCE

from sliceworks.base import clock
from sliceworks.controllers.graphs import GraphController
from sliceworks.infra.cluster import comparing, inventory, waiting
from sliceworks.infra.cluster.applying import Applier
from sliceworks.infra.cluster.pruning import is_gone
from sliceworks.infra.cluster.removing import Remover
from sliceworks.infra.cluster.steps import Answers, Available, Holds, Served
from sliceworks.kube import open_client

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tests.support.clusters import Cluster
    from tests.support.kueue_settings import Settings

    from sliceworks.infra.cluster.steps import Step
    from sliceworks.kube import Client
    from sliceworks.specs.environment import Environment

CLUSTER = "environments"
PODLESS = True
CONTROLLERS = """  addons: {slices: true, image: registry.example/sliceworks:1}
  teams: {research: {members: ['group:a@example.com'], mostJobs: 3}, training: {identity: trainer, serviceAccount: runner}}
  identities: {workloads: {trainer: {namespace: training, serviceAccount: runner}}}
"""


def without_pods(steps: tuple[Step, ...]) -> list[Step]:
    """Steps that wait for nothing that needs pods: no node is there, and Config Connector's operator is none of ours."""
    outside = {"ConfigConnector", "Project"}
    return [
        replace(
            step,
            waits=tuple(
                wait for wait in step.waits if not isinstance(wait, Available) and getattr(wait, "kind", "") not in outside
            ),
        )
        for step in steps
    ]


def run(cluster: Cluster, main: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
    async def whole() -> None:
        async with open_client(cluster.kubeconfig) as client:
            graphs = asyncio.create_task(GraphController(client).run())
            try:
                await main(client)
            finally:
                graphs.cancel()
                with suppress(asyncio.CancelledError):
                    await graphs

    clock.run(whole())


@pytest.mark.usefixtures("kueue")
@pytest.mark.parametrize("environment", [small(CONTROLLERS), environments.example("self-service")], ids=["small", "self-service"])
def test_everything_is_taken_strictly_found_unchanged_and_gone_again(cluster: Cluster, environment: Environment) -> None:
    name = environment.metadata.name

    async def main(client: Client) -> None:
        steps = without_pods(on_twin(environment, settles_kueue=False))
        known = await inventory.read(client, name)
        first = await Applier(client, name, patience=PATIENCE).apply(steps, known, silent)
        assert {each.action for each in first} == {"create"}
        again = await Applier(client, name, patience=PATIENCE).apply(steps, await inventory.read(client, name), silent)
        assert [str(each.who) for each in again if each.action != "noop"] == []
        compared = await comparing.compare(client, steps, known)
        assert [(str(each.who), each.action) for each in compared if each.action != "noop"] == []
        await Remover(client, await inventory.read(client, name), patience=PATIENCE).remove(silent)
        assert [str(each.who) for each in first if not await is_gone(client, each.who)] == []

    run(cluster, main)


@pytest.mark.usefixtures("kueue")
def test_webhooks_are_asked_and_not_trusted_to_be_there(cluster: Cluster) -> None:
    """A webhook that nobody serves holds the step up; when it is gone, the same question is answered."""
    if cluster.name == "twin":
        pytest.skip("webhooks of others cannot be registered with a twin")
    marked = {"sliceworks.dev/case": "held-up"}
    hook = {
        "name": "held-up.example.com",
        "clientConfig": {"url": "https://127.0.0.1:9/validate"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
        "objectSelector": {"matchLabels": marked},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 2,
    }
    config = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    probe = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe", "namespace": "default", "labels": marked}}

    async def main(client: Client) -> None:
        made = await client.create({**config, "metadata": {"name": "held-up"}, "webhooks": [hook]})
        resource = await client.resource_of(made)
        try:
            said = await _until(lambda: waiting.lacking(client, Answers("Somebody", probe)), bool)
            assert said.startswith("Somebody's webhooks do not answer: ")
        finally:
            await client.delete(resource, "held-up")
        await _until(lambda: waiting.lacking(client, Answers("Somebody", probe)), lambda found: found == "")

    run(cluster, main)


async def _until(ask: Callable[[], Coroutine[Any, Any, str]], good: Callable[[str], bool]) -> str:
    """A cluster takes a moment to know of its webhooks."""
    async with asyncio.timeout(PATIENCE):
        while not good(found := await ask()):
            await clock.sleep(0.2)
    return found


def test_what_is_not_there_is_said(cluster: Cluster, kueue: Settings) -> None:
    async def main(client: Client) -> None:
        said = [
            await waiting.lacking(client, Served((("kueue.x-k8s.io/v1beta2", "ClusterQueue"),))),
            await waiting.lacking(client, Served((("acme.example/v1", "Thing"),))),
            await waiting.lacking(client, Available("Deployment", "default", "nobody")),
            await waiting.lacking(client, Holds("kueue.x-k8s.io/v1beta2", "ClusterQueue", "", "nobody")),
        ]
        assert said == [
            "",
            "the kind Thing of acme.example/v1 is not served",
            "Deployment default/nobody is not there",
            "ClusterQueue nobody is not there",
        ]

    run(cluster, main)
