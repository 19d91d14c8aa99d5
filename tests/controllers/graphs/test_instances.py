"""Instances on a twin: made, changed, put right, deleted."""

from __future__ import annotations

import asyncio

from tests.support.graphs import GRAPHS, Stage, on_stage
from tests.support.shops import GRAPH

from sliceworks.base import clock

CORE, APPS = "/api/v1/namespaces/default", "/apis/apps/v1/namespaces/default"
SHOPS = "/apis/kro.run/v1alpha1/namespaces/default/shops"
CORNER = """
apiVersion: kro.run/v1alpha1
kind: Shop
metadata: {name: corner}
spec: {title: Corner, colours: [red, green]}
"""


async def own_names(stage: Stage, plural: str = "configmaps") -> list[str]:
    return await stage.names(f"{CORE}/{plural}?labelSelector=kro.run/owned=true")


async def make_ready(stage: Stage) -> None:
    status = {"status": {"replicas": 2, "readyReplicas": 2}}
    await stage.twin.do("PATCH", f"{APPS}/deployments/corner/status", status)
    await stage.settle()


async def open_corner(stage: Stage) -> None:
    await stage.apply(GRAPH)
    await stage.apply(CORNER)
    await make_ready(stage)


def test_graph_is_served() -> None:
    async def main(stage: Stage) -> None:
        await stage.apply(GRAPH)
        found = await stage.get(f"{GRAPHS}/shop")
        assert found["status"]["state"] == "Active"
        assert found["status"]["topologicalOrder"] == ["settings", "deployment", "service", "notes"]
        assert found["status"]["lastIssuedRevision"] == 1
        assert [item["type"] for item in found["status"]["conditions"]] == [
            "GraphRevisionsResolved", "GraphAccepted", "KindReady", "ControllerReady", "Ready",
        ]  # fmt: skip
        assert all(item["status"] == "True" for item in found["status"]["conditions"])

    on_stage(main)


def test_what_can_be_made_is_made_and_the_rest_waits() -> None:
    async def main(stage: Stage) -> None:
        await stage.apply(GRAPH)
        await stage.apply(CORNER)
        found = await stage.get(f"{SHOPS}/corner")
        assert found["status"]["state"] == "IN_PROGRESS"
        assert await own_names(stage) == ["corner-green", "corner-red", "corner-settings"]
        assert await own_names(stage, "services") == []
        await make_ready(stage)
        found = await stage.get(f"{SHOPS}/corner")
        assert found["status"]["state"] == "ACTIVE"
        assert found["status"]["ready"] == 2
        assert found["status"]["address"]
        assert await own_names(stage, "services") == ["corner"]

    on_stage(main)


def test_change_flows() -> None:
    async def main(stage: Stage) -> None:
        await open_corner(stage)
        change = {"spec": {"open": False, "colours": ["red"], "title": "Closed"}}
        await stage.twin.do("PATCH", f"{SHOPS}/corner", change)
        await stage.settle()
        assert await own_names(stage) == ["corner-red", "corner-settings"]
        assert await own_names(stage, "services") == []
        assert (await stage.get(f"{CORE}/configmaps/corner-settings"))["data"] == {"title": "Closed", "size": "2"}

    on_stage(main)


def test_what_somebody_broke_is_put_right() -> None:
    async def main(stage: Stage) -> None:
        await open_corner(stage)
        await stage.twin.do("DELETE", f"{CORE}/configmaps/corner-red")
        await stage.twin.do("PATCH", f"{CORE}/configmaps/corner-settings", {"data": {"title": "by hand"}})
        await stage.settle()
        assert await own_names(stage) == ["corner-green", "corner-red", "corner-settings"]
        assert (await stage.get(f"{CORE}/configmaps/corner-settings"))["data"] == {"title": "Corner", "size": "2"}

    on_stage(main)


def test_idle_instance_is_left_alone() -> None:
    async def main(stage: Stage) -> None:
        await open_corner(stage)
        before = len(stage.transport.writes)
        await stage.settle(3600)
        assert stage.transport.writes[before:] == []

    on_stage(main)


def test_deletion_takes_everything_along() -> None:
    async def main(stage: Stage) -> None:
        await open_corner(stage)
        await stage.twin.do("DELETE", f"{SHOPS}/corner")
        await stage.settle()
        assert await stage.twin.gone(f"{SHOPS}/corner")
        assert await own_names(stage) == []
        assert await stage.twin.gone(f"{APPS}/deployments/corner")
        await stage.twin.do("DELETE", f"{GRAPHS}/shop")
        await stage.settle()
        assert await stage.twin.gone(f"{GRAPHS}/shop")

    on_stage(main)


RACE = """
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: race}
spec:
  schema: {apiVersion: v1alpha1, kind: Race}
  resources:
  - id: watched
    readyWhen: ["${watched.data.?done.orValue('no') == 'yes'}"]
    template: {apiVersion: v1, kind: ConfigMap, metadata: {name: watched}}
  - id: first
    template: {apiVersion: v1, kind: ConfigMap, metadata: {name: first}}
  - id: second
    template: {apiVersion: v1, kind: Secret, metadata: {name: "${first.metadata.name}-second"}}
  - id: third
    template: {apiVersion: v1, kind: Secret, metadata: {name: "${second.metadata.name}-third"}}
"""


def test_what_changes_during_a_look_is_seen() -> None:
    """An object that was looked at changes while another one is still being applied: the next look must not take it for old."""

    async def main(stage: Stage) -> None:
        await stage.apply(RACE)
        stage.transport.delay = 1.0
        created = asyncio.create_task(stage.apply("{apiVersion: kro.run/v1alpha1, kind: Race, metadata: {name: a}}"))
        while await stage.twin.gone(f"{CORE}/configmaps/watched"):
            await clock.sleep(0.1)
        await clock.sleep(0.3)
        assert await stage.twin.gone(f"{CORE}/secrets/first-second-third")
        await stage.twin.do("PATCH", f"{CORE}/configmaps/watched", {"data": {"done": "yes"}})
        await created
        await stage.settle(20)
        assert (await stage.get("/apis/kro.run/v1alpha1/namespaces/default/races/a"))["status"]["state"] == "ACTIVE"

    on_stage(main)
