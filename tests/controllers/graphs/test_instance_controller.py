"""Instances on a twin: create, update, repair, delete."""

from __future__ import annotations

import asyncio

from tests.support.graph_controller import GRAPHS, GraphHarness, run_with_controller
from tests.support.graph_lifecycle import GRAPH

from sliceworks.base import clock

CORE, APPS = "/api/v1/namespaces/default", "/apis/apps/v1/namespaces/default"
SHOPS = "/apis/kro.run/v1alpha1/namespaces/default/shops"
CORNER = """
apiVersion: kro.run/v1alpha1
kind: Shop
metadata: {name: corner}
spec: {title: Corner, colours: [red, green]}
"""


async def own_names(harness: GraphHarness, plural: str = "configmaps") -> list[str]:
    return await harness.names(f"{CORE}/{plural}?labelSelector=kro.run/owned=true")


async def make_ready(harness: GraphHarness) -> None:
    status = {"status": {"replicas": 2, "readyReplicas": 2}}
    await harness.twin.do("PATCH", f"{APPS}/deployments/corner/status", status)
    await harness.settle()


async def open_corner(harness: GraphHarness) -> None:
    await harness.apply(GRAPH)
    await harness.apply(CORNER)
    await make_ready(harness)


def test_graph_is_served() -> None:
    async def main(harness: GraphHarness) -> None:
        await harness.apply(GRAPH)
        result = await harness.get(f"{GRAPHS}/shop")
        assert result["status"]["state"] == "Active"
        assert result["status"]["topologicalOrder"] == ["settings", "deployment", "service", "notes"]
        assert result["status"]["lastIssuedRevision"] == 1
        assert [condition["type"] for condition in result["status"]["conditions"]] == [
            "GraphRevisionsResolved", "GraphAccepted", "KindReady", "ControllerReady", "Ready",
        ]  # fmt: skip
        assert all(condition["status"] == "True" for condition in result["status"]["conditions"])

    run_with_controller(main)


def test_pending_resources_wait() -> None:
    async def main(harness: GraphHarness) -> None:
        await harness.apply(GRAPH)
        await harness.apply(CORNER)
        result = await harness.get(f"{SHOPS}/corner")
        assert result["status"]["state"] == "IN_PROGRESS"
        assert await own_names(harness) == ["corner-green", "corner-red", "corner-settings"]
        assert await own_names(harness, "services") == []
        await make_ready(harness)
        result = await harness.get(f"{SHOPS}/corner")
        assert result["status"]["state"] == "ACTIVE"
        assert result["status"]["ready"] == 2
        assert result["status"]["address"]
        assert await own_names(harness, "services") == ["corner"]

    run_with_controller(main)


def test_update_propagates() -> None:
    async def main(harness: GraphHarness) -> None:
        await open_corner(harness)
        change = {"spec": {"open": False, "colours": ["red"], "title": "Closed"}}
        await harness.twin.do("PATCH", f"{SHOPS}/corner", change)
        await harness.settle()
        assert await own_names(harness) == ["corner-red", "corner-settings"]
        assert await own_names(harness, "services") == []
        assert (await harness.get(f"{CORE}/configmaps/corner-settings"))["data"] == {"title": "Closed", "size": "2"}

    run_with_controller(main)


def test_drift_is_repaired() -> None:
    async def main(harness: GraphHarness) -> None:
        await open_corner(harness)
        await harness.twin.do("DELETE", f"{CORE}/configmaps/corner-red")
        await harness.twin.do("PATCH", f"{CORE}/configmaps/corner-settings", {"data": {"title": "by hand"}})
        await harness.settle()
        assert await own_names(harness) == ["corner-green", "corner-red", "corner-settings"]
        assert (await harness.get(f"{CORE}/configmaps/corner-settings"))["data"] == {"title": "Corner", "size": "2"}

    run_with_controller(main)


def test_idle_instance_is_not_written() -> None:
    async def main(harness: GraphHarness) -> None:
        await open_corner(harness)
        before = len(harness.transport.writes)
        await harness.settle(3600)
        assert harness.transport.writes[before:] == []

    run_with_controller(main)


def test_deletion_deletes_all_objects() -> None:
    async def main(harness: GraphHarness) -> None:
        await open_corner(harness)
        await harness.twin.do("DELETE", f"{SHOPS}/corner")
        await harness.settle()
        assert await harness.twin.gone(f"{SHOPS}/corner")
        assert await own_names(harness) == []
        assert await harness.twin.gone(f"{APPS}/deployments/corner")
        await harness.twin.do("DELETE", f"{GRAPHS}/shop")
        await harness.settle()
        assert await harness.twin.gone(f"{GRAPHS}/shop")

    run_with_controller(main)


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


def test_change_during_reconcile_is_seen() -> None:
    """An object changes after it was read while another one is still being applied: the next reconcile must see it."""

    async def main(harness: GraphHarness) -> None:
        await harness.apply(RACE)
        harness.transport.delay = 1.0
        created = asyncio.create_task(harness.apply("{apiVersion: kro.run/v1alpha1, kind: Race, metadata: {name: a}}"))
        while await harness.twin.gone(f"{CORE}/configmaps/watched"):
            await clock.sleep(0.1)
        await clock.sleep(0.3)
        assert await harness.twin.gone(f"{CORE}/secrets/first-second-third")
        await harness.twin.do("PATCH", f"{CORE}/configmaps/watched", {"data": {"done": "yes"}})
        await created
        await harness.settle(20)
        assert (await harness.get("/apis/kro.run/v1alpha1/namespaces/default/races/a"))["status"]["state"] == "ACTIVE"

    run_with_controller(main)
