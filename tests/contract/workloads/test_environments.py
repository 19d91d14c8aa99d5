"""The objects that environments apply to their clusters: accepted strictly, unchanged on a second apply, and deleted again."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import environments
from tests.support.environments import on_twin, silent, small
from tests.support.polling import PATIENCE

from sliceworks.base import clock
from sliceworks.controllers.graphs import GraphController
from sliceworks.infra.cluster import applier, inventory
from sliceworks.infra.cluster.applier import Applier, find_object
from sliceworks.infra.cluster.destroyer import Destroyer
from sliceworks.infra.cluster.inventory import Available, ConditionTrue, KindsServed, WebhookReady
from sliceworks.kube import open_client

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tests.support.clusters import Cluster
    from tests.support.kueue_install import Settings

    from sliceworks.infra.cluster.inventory import Step
    from sliceworks.kube import Client
    from sliceworks.specs.environment import Environment

CLUSTER = "environments"
PODLESS = True
CONTROLLERS = """  addons: {slices: true, image: registry.example/sliceworks:1}
  teams: {research: {members: ['group:a@example.com'], maxJobs: 3}, training: {identity: trainer, serviceAccount: runner}}
  identities: {workloads: {trainer: {namespace: training, serviceAccount: runner}}}
"""


def without_pods(steps: tuple[Step, ...]) -> list[Step]:
    """Steps without waits that need pods: the cluster has no nodes, and Config Connector's operator does not run."""
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
    async def run_main() -> None:
        async with open_client(cluster.kubeconfig) as client:
            graphs = asyncio.create_task(GraphController(client).run())
            try:
                await main(client)
            finally:
                graphs.cancel()
                with suppress(asyncio.CancelledError):
                    await graphs

    clock.run(run_main())


@pytest.mark.usefixtures("kueue")
@pytest.mark.parametrize("environment", [small(CONTROLLERS), environments.example("self-service")], ids=["small", "self-service"])
def test_objects_are_accepted_unchanged_and_deleted(cluster: Cluster, environment: Environment) -> None:
    name = environment.metadata.name

    async def main(client: Client) -> None:
        steps = without_pods(on_twin(environment, configures_kueue=False))
        known = await inventory.read(client, name)
        first = await Applier(client, name, timeout=PATIENCE).apply(steps, known, silent)
        assert {item.action for item in first} == {"create"}
        again = await Applier(client, name, timeout=PATIENCE).apply(steps, await inventory.read(client, name), silent)
        assert [str(item.reference) for item in again if item.action != "noop"] == []
        compared = await applier.compare(client, steps, known)
        assert [(str(item.reference), item.action) for item in compared if item.action != "noop"] == []
        await Destroyer(client, await inventory.read(client, name), timeout=PATIENCE).remove(silent)
        assert [str(item.reference) for item in first if await find_object(client, item.reference)] == []

    run(cluster, main)


@pytest.mark.usefixtures("kueue")
def test_webhook_without_server_blocks_step(cluster: Cluster) -> None:
    """A webhook without a server blocks the step; after its deletion the same check succeeds."""
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
        created = await client.create({**config, "metadata": {"name": "held-up"}, "webhooks": [hook]})
        resource = await client.resource_of(created)
        try:
            output = await _until(lambda: applier.describe_missing(client, WebhookReady("Somebody", probe)), bool)
            assert output.startswith("Somebody's webhooks are not ready: ")
        finally:
            await client.delete(resource, "held-up")
        await _until(lambda: applier.describe_missing(client, WebhookReady("Somebody", probe)), lambda obj: obj == "")

    run(cluster, main)


async def _until(ask: Callable[[], Coroutine[Any, Any, str]], good: Callable[[str], bool]) -> str:
    """A cluster's webhook configuration lags."""
    async with asyncio.timeout(PATIENCE):
        while not good(result := await ask()):
            await clock.sleep(0.2)
    return result


def test_missing_objects_are_reported(cluster: Cluster, kueue: Settings) -> None:
    async def main(client: Client) -> None:
        output = [
            await applier.describe_missing(client, KindsServed((("kueue.x-k8s.io/v1beta2", "ClusterQueue"),))),
            await applier.describe_missing(client, KindsServed((("acme.example/v1", "Thing"),))),
            await applier.describe_missing(client, Available("Deployment", "default", "missing")),
            await applier.describe_missing(client, ConditionTrue("kueue.x-k8s.io/v1beta2", "ClusterQueue", "", "missing")),
        ]
        assert output == [
            "",
            "kind Thing of acme.example/v1 is not served",
            "Deployment default/missing not found",
            "ClusterQueue missing not found",
        ]

    run(cluster, main)
