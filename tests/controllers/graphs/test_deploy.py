"""What is deployed: the rights are enough for the controller, and no more than it needs."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from tests.support.deployments import DEPLOY, manifests
from tests.support.embedded import Embedded, on_twin
from tests.support.graphs import A_BOX, BOX, BOXES, GRAPHS, Stage, Watched

from sliceworks.base import clock
from sliceworks.controllers.graphs import GraphController
from sliceworks.kube.client import Client
from sliceworks.twin.auth.identity import User

ACCOUNT = "system:serviceaccount:kro-system:kro"
GROUPS = ("system:serviceaccounts", "system:serviceaccounts:kro-system", "system:authenticated")


def deployed(folder: str, story: str) -> None:
    """Play a story with the controller acting as its service account."""

    async def main(twin: Embedded) -> None:
        client = Client(twin.cluster.transport())
        for obj in manifests(DEPLOY / "graphs" / folder):
            await client.apply(obj, field_manager="person", field_validation="Strict")
        await clock.sleep(5)
        transport = Watched(twin.cluster.as_user(User(ACCOUNT, groups=GROUPS)))
        controller = GraphController(Client(transport))
        task = asyncio.create_task(controller.run())
        await clock.sleep(5)
        try:
            await _STORIES[story](Stage(twin, transport, controller))
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    on_twin(main)


async def _works(stage: Stage) -> None:
    await stage.apply(BOX)
    await stage.apply(A_BOX)
    assert (await stage.get(f"{BOXES}/a"))["status"]["state"] == "ACTIVE"
    await stage.twin.do("DELETE", f"{BOXES}/a")
    await stage.settle()
    assert await stage.twin.gone(f"{BOXES}/a")
    await stage.twin.do("DELETE", f"{GRAPHS}/box")
    await stage.settle()
    assert await stage.twin.gone(f"{GRAPHS}/box")


async def _says_what_is_missing(stage: Stage) -> None:
    await stage.apply(BOX)
    await stage.settle(60)
    ready = await stage.condition(f"{GRAPHS}/box", "ControllerReady")
    assert ready["reason"] == "FailedToStart"
    assert 'cannot list resource "configmaps"' in ready["message"]


_STORIES = {"works": _works, "says what is missing": _says_what_is_missing}


def test_rights_are_enough() -> None:
    deployed("example", "works")


def test_kind_without_rights_is_told() -> None:
    deployed("base", "says what is missing")
