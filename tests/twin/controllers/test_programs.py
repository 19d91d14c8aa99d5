"""Programs of a twin that are killed: what they left undone is done once they are back, from what the store says alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.embedded import Embedded, on_twin

from sliceworks.base import clock
from sliceworks.twin.cluster import Cluster
from sliceworks.twin.nodes.addresses import Range
from sliceworks.twin.nodes.shapes import Shape, node_objects
from sliceworks.twin.store.store import Store
from sliceworks.twin.workloads.dependents import Dependents
from sliceworks.twin.workloads.deployments.controller import Deployments, Key

if TYPE_CHECKING:
    import pytest

    from sliceworks.twin.controllers.programs import Program

JOBS = "/apis/batch/v1/namespaces/default/jobs"
DEPLOYMENTS, PODS = "/apis/apps/v1/namespaces/default/deployments", "/api/v1/namespaces/default/pods"


def program(twin: Embedded, name: str) -> Program:
    return next(each for each in twin.cluster.controllers.programs if each.name == name)


def web(replicas: int) -> dict[str, Any]:
    container = {"name": "main", "image": "web", "resources": {"requests": {"cpu": "100m"}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


async def with_nodes(twin: Embedded) -> None:
    for node in node_objects(Shape("cpu", "e2-standard-8", cpu="8", memory="32Gi"), 2):
        await twin.do("POST", "/api/v1/nodes", node)
    await twin.quiet()


async def pods(twin: Embedded) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await twin.do("GET", PODS))["items"]
    return found


def test_the_dead_do_nothing_and_the_revived_do_what_was_left() -> None:
    async def main(twin: Embedded) -> None:
        await with_nodes(twin)
        workloads, scheduler = program(twin, "workloads"), program(twin, "scheduler")
        await workloads.kill()
        await twin.do("POST", DEPLOYMENTS, web(3))
        await clock.sleep(300)
        assert await pods(twin) == []
        await scheduler.kill()
        twin.cluster.controllers.revive(workloads)
        await clock.sleep(300)
        assert [pod["spec"].get("nodeName") for pod in await pods(twin)] == [None] * 3
        twin.cluster.controllers.revive(scheduler)
        await clock.sleep(60)
        assert (await twin.do("GET", f"{DEPLOYMENTS}/web"))["status"]["readyReplicas"] == 3

    on_twin(main, workloads=True)


def test_the_revived_know_what_others_did_meanwhile() -> None:
    async def main(twin: Embedded) -> None:
        await with_nodes(twin)
        await twin.do("POST", DEPLOYMENTS, web(3))
        await clock.sleep(60)
        workloads = program(twin, "workloads")
        await workloads.kill()
        for pod in (await pods(twin))[:2]:
            await twin.do("DELETE", f"{PODS}/{pod['metadata']['name']}?gracePeriodSeconds=0")
        await twin.do("PATCH", f"{DEPLOYMENTS}/web", {"spec": {"replicas": 5}})
        await clock.sleep(60)
        twin.cluster.controllers.revive(workloads)
        await clock.sleep(60)
        assert len(await pods(twin)) == 5
        assert (await twin.do("GET", f"{DEPLOYMENTS}/web"))["status"]["readyReplicas"] == 5

    on_twin(main, workloads=True)


def test_a_key_whose_failure_cannot_be_dealt_with_ends_no_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = iter("ab")
    sync = Deployments.sync

    async def fail_at_first(controller: Deployments, key: Key) -> None:
        if next(broken, None):
            raise ValueError("it fails")
        await sync(controller, key)

    def cannot(controller: Deployments, key: Key, error: Exception) -> None:
        raise TypeError("and nobody can deal with it")

    monkeypatch.setattr(Deployments, "sync", fail_at_first)
    monkeypatch.setattr(Deployments, "_failed", cannot)

    async def main(twin: Embedded) -> None:
        await with_nodes(twin)
        await twin.do("POST", DEPLOYMENTS, web(3))
        await clock.sleep(60)
        assert (await twin.do("GET", f"{DEPLOYMENTS}/web"))["status"]["readyReplicas"] == 3

    on_twin(main, workloads=True)


def test_pods_of_nodes_that_nobody_played_for_a_while_keep_their_addresses() -> None:
    async def main(twin: Embedded) -> None:
        await with_nodes(twin)
        await twin.do("POST", DEPLOYMENTS, web(4))
        await clock.sleep(60)
        await twin.cluster.kill_nodes()
        await twin.do("PATCH", f"{DEPLOYMENTS}/web", {"spec": {"replicas": 12}})
        await clock.sleep(60)
        assert len([pod for pod in await pods(twin) if pod["status"]["phase"] == "Running"]) == 4
        await twin.cluster.revive_nodes()
        await clock.sleep(60)
        addresses = [pod["status"]["podIP"] for pod in await pods(twin)]
        assert len(addresses) == len(set(addresses)) == 12

    on_twin(main, workloads=True)


def test_an_address_that_was_held_and_given_back_is_given_out_once() -> None:
    addresses = Range("10.0.0.0/29")
    addresses.hold("10.0.0.4")
    addresses.give_back("10.0.0.4")
    taken = [addresses.take() for _ in range(8)]
    assert len([each for each in taken if each]) == len({each for each in taken if each})
    assert "10.0.0.4" in taken


def test_an_object_that_an_index_cannot_read_keeps_nobody_from_hearing_of_it_nor_a_twin_from_starting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    look, store = Dependents.observe, Store()

    def misread(index: Dependents, change: Any) -> None:
        if change.name == "odd":
            raise KeyError("spec")
        look(index, change)

    async def main() -> None:
        for name in ("odd", "even"):
            async with Cluster(store) as cluster:
                twin = Embedded(cluster)
                container = {"name": "main", "image": "x"}
                spec = {"suspend": True, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
                body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
                await twin.do("POST", JOBS, body)
                await clock.sleep(5)
                [condition] = (await twin.do("GET", f"{JOBS}/{name}"))["status"]["conditions"]
                assert condition["type"] == "Suspended"

    monkeypatch.setattr(Dependents, "observe", misread)
    clock.run(main(), virtual=True)
