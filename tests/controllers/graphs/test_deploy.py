"""The RBAC rules of the graphs controller, and those that `graph rights` prints, are sufficient."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from tests.support.deployments import DEPLOY, EXAMPLE, component
from tests.support.embedded_twin import EmbeddedTwin, run_on_twin
from tests.support.graph_controller import A_BOX, BOX, BOXES, GRAPHS, GraphHarness, RecordingTransport

from sliceworks.base import clock, yaml_documents
from sliceworks.controllers.graphs import GraphController
from sliceworks.kube.client import Client
from sliceworks.twin.apiserver.auth.authentication import User

if TYPE_CHECKING:
    from pathlib import Path

GEMMA = DEPLOY.parent / "examples" / "graphs" / "gemma-on-tpu"
ACCOUNT = "system:serviceaccount:kro-system:kro"
GROUPS = ("system:serviceaccounts", "system:serviceaccounts:kro-system", "system:authenticated")


def deployed(scenario: str, *more: Path, config_connector: bool = False) -> None:
    """Run a scenario with the controller acting as its service account; `more` files are applied before."""

    async def main(twin: EmbeddedTwin) -> None:
        client = Client(twin.cluster.transport())
        documents = [document.data for file in more for document in yaml_documents.load_path(file)]
        for obj in (*component(DEPLOY / "controllers", "graphs"), *documents):
            await client.apply(obj, field_manager="person", field_validation="Strict")
        await clock.sleep(5)
        transport = RecordingTransport(twin.cluster.as_user(User(ACCOUNT, groups=GROUPS)))
        controller = GraphController(Client(transport))
        task = asyncio.create_task(controller.run())
        await clock.sleep(5)
        try:
            await _STORIES[scenario](GraphHarness(twin, transport, controller))
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    run_on_twin(main, workloads=config_connector, config_connector=config_connector)


async def _works(harness: GraphHarness) -> None:
    await harness.apply(BOX)
    await harness.apply(A_BOX)
    assert (await harness.get(f"{BOXES}/a"))["status"]["state"] == "ACTIVE"
    await harness.twin.do("DELETE", f"{BOXES}/a")
    await harness.settle()
    assert await harness.twin.gone(f"{BOXES}/a")
    await harness.twin.do("DELETE", f"{GRAPHS}/box")
    await harness.settle()
    assert await harness.twin.gone(f"{GRAPHS}/box")


async def _reports_forbidden_kind(harness: GraphHarness) -> None:
    await harness.apply(BOX)
    await harness.settle(60)
    ready = await harness.condition(f"{GRAPHS}/box", "ControllerReady")
    assert ready["reason"] == "FailedToStart"
    assert 'cannot list resource "configmaps"' in ready["message"]


async def _serves_gemma(harness: GraphHarness) -> None:
    servers = "/apis/kro.run/v1alpha1/namespaces/config-connector/gemmaontpuservers"
    for file in ("definition.yaml", "instance.yaml"):
        await harness.apply((GEMMA / file).read_text(), "config-connector")
    await harness.settle(60)
    download = (await harness.condition(f"{servers}/gemma-tpu", "Ready"))["message"]
    assert 'waiting for node "downloadCheckpoint"' in download
    await harness.twin.do("PATCH", f"{servers}/gemma-tpu", {"spec": {"kaggleSecret": "kaggle-secret-2"}})  # recreates the Job
    await harness.settle(60)
    missing = (await harness.condition(f"{servers}/gemma-tpu", "Ready"))["message"]
    assert 'secret "kaggle-secret-2" not found' in missing
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "kaggle-secret-2"}}
    await harness.twin.do("POST", "/api/v1/namespaces/config-connector/secrets", secret)
    await harness.settle(2000)
    assert (await harness.get(f"{servers}/gemma-tpu"))["status"]["state"] == "ACTIVE"
    await harness.twin.do("DELETE", f"{servers}/gemma-tpu")
    await harness.settle(60)
    assert await harness.twin.gone(f"{servers}/gemma-tpu")


_STORIES = {"works": _works, "says what is missing": _reports_forbidden_kind, "serves gemma": _serves_gemma}


def test_rbac_is_sufficient() -> None:
    deployed("works", EXAMPLE / "rights.yaml")


def test_forbidden_kind_is_reported() -> None:
    deployed("says what is missing")


def test_printed_rights_are_sufficient_for_gemma() -> None:
    day = GEMMA / "day"
    more = (GEMMA / "rights.yaml", day / "10-administrator.yaml", day / "20-nodes.yaml")
    deployed("serves gemma", *more, config_connector=True)
