"""Components that are killed and restarted: they finish their work from the state in the store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.embedded_twin import EmbeddedTwin, run_on_twin

from sliceworks.base import clock
from sliceworks.twin.cluster import Cluster
from sliceworks.twin.controllers.builtin.deployment_controller import DeploymentController
from sliceworks.twin.controllers.runtime.object_index import OwnerIndex
from sliceworks.twin.nodes.node_shape import NodeShape, build_nodes
from sliceworks.twin.nodes.simulated_node import AddressRange
from sliceworks.twin.store.store import Store

if TYPE_CHECKING:
    import pytest

    from sliceworks.twin.controllers.manager import Component
    from sliceworks.twin.controllers.runtime.controller_context import NamespacedName

JOBS = "/apis/batch/v1/namespaces/default/jobs"
DEPLOYMENTS, PODS = "/apis/apps/v1/namespaces/default/deployments", "/api/v1/namespaces/default/pods"


def component(twin: EmbeddedTwin, name: str) -> Component:
    return next(item for item in twin.cluster.controllers.components if item.name == name)


def web(replicas: int) -> dict[str, Any]:
    container = {"name": "main", "image": "web", "resources": {"requests": {"cpu": "100m"}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


async def with_nodes(twin: EmbeddedTwin) -> None:
    for node in build_nodes(NodeShape("cpu", "e2-standard-8", cpu="8", memory="32Gi"), 2):
        await twin.do("POST", "/api/v1/nodes", node)
    await twin.quiet()


async def pods(twin: EmbeddedTwin) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await twin.do("GET", PODS))["items"]
    return items


def test_killed_component_does_nothing_until_restarted() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await with_nodes(twin)
        workloads, scheduler = component(twin, "kube-controller-manager"), component(twin, "kube-scheduler")
        await workloads.kill()
        await twin.do("POST", DEPLOYMENTS, web(3))
        await clock.sleep(300)
        assert await pods(twin) == []
        await scheduler.kill()
        twin.cluster.controllers.restart(workloads)
        await clock.sleep(300)
        assert [pod["spec"].get("nodeName") for pod in await pods(twin)] == [None] * 3
        twin.cluster.controllers.restart(scheduler)
        await clock.sleep(60)
        assert (await twin.do("GET", f"{DEPLOYMENTS}/web"))["status"]["readyReplicas"] == 3

    run_on_twin(main, workloads=True)


def test_restarted_component_sees_changes_made_meanwhile() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await with_nodes(twin)
        await twin.do("POST", DEPLOYMENTS, web(3))
        await clock.sleep(60)
        workloads = component(twin, "kube-controller-manager")
        await workloads.kill()
        for pod in (await pods(twin))[:2]:
            await twin.do("DELETE", f"{PODS}/{pod['metadata']['name']}?gracePeriodSeconds=0")
        await twin.do("PATCH", f"{DEPLOYMENTS}/web", {"spec": {"replicas": 5}})
        await clock.sleep(60)
        twin.cluster.controllers.restart(workloads)
        await clock.sleep(60)
        assert len(await pods(twin)) == 5
        assert (await twin.do("GET", f"{DEPLOYMENTS}/web"))["status"]["readyReplicas"] == 5

    run_on_twin(main, workloads=True)


def test_exception_in_failure_handling_does_not_end_a_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = iter("ab")
    sync = DeploymentController.sync

    async def fail_at_first(controller: DeploymentController, key: NamespacedName) -> None:
        if next(broken, None):
            raise ValueError("it fails")
        await sync(controller, key)

    def fail_again(controller: DeploymentController, key: NamespacedName, error: Exception) -> None:
        raise TypeError("handling the failure fails")

    monkeypatch.setattr(DeploymentController, "sync", fail_at_first)
    monkeypatch.setattr(DeploymentController, "_requeue_failed", fail_again)

    async def main(twin: EmbeddedTwin) -> None:
        await with_nodes(twin)
        await twin.do("POST", DEPLOYMENTS, web(3))
        await clock.sleep(60)
        assert (await twin.do("GET", f"{DEPLOYMENTS}/web"))["status"]["readyReplicas"] == 3

    run_on_twin(main, workloads=True)


def test_pods_keep_their_addresses_while_nodes_are_stopped() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await with_nodes(twin)
        await twin.do("POST", DEPLOYMENTS, web(4))
        await clock.sleep(60)
        await twin.cluster.stop_nodes()
        await twin.do("PATCH", f"{DEPLOYMENTS}/web", {"spec": {"replicas": 12}})
        await clock.sleep(60)
        assert len([pod for pod in await pods(twin) if pod["status"]["phase"] == "Running"]) == 4
        await twin.cluster.start_nodes()
        await clock.sleep(60)
        addresses = [pod["status"]["podIP"] for pod in await pods(twin)]
        assert len(addresses) == len(set(addresses)) == 12

    run_on_twin(main, workloads=True)


def test_released_address_is_allocated_once() -> None:
    addresses = AddressRange("10.0.0.0/29")
    addresses.reserve("10.0.0.4")
    addresses.release("10.0.0.4")
    taken = [addresses.allocate() for _ in range(8)]
    assert len([item for item in taken if item]) == len({item for item in taken if item})
    assert "10.0.0.4" in taken


def test_exception_in_an_index_does_not_block_controllers_or_a_restart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    observe, store = OwnerIndex.observe, Store()

    def fail_on_odd(index: OwnerIndex, change: Any) -> None:
        if change.name == "odd":
            raise KeyError("spec")
        observe(index, change)

    async def main() -> None:
        for name in ("odd", "even"):
            async with Cluster(store) as cluster:
                twin = EmbeddedTwin(cluster)
                container = {"name": "main", "image": "x"}
                spec = {"suspend": True, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
                body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
                await twin.do("POST", JOBS, body)
                await clock.sleep(5)
                [condition] = (await twin.do("GET", f"{JOBS}/{name}"))["status"]["conditions"]
                assert condition["type"] == "Suspended"

    monkeypatch.setattr(OwnerIndex, "observe", fail_on_odd)
    clock.run(main(), virtual=True)
