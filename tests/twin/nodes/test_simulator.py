"""Simulated nodes and pods on a whole twin, in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sliceworks.base import clock
from sliceworks.base.conditions import is_condition_true
from sliceworks.base.errors import NotFound
from sliceworks.kube.client import Client
from sliceworks.kube.requests import PatchType
from sliceworks.kube.resources import DEPLOYMENT, JOB, LEASE, NODE, POD
from sliceworks.platform.controller_host import list_restartables
from sliceworks.twin.cluster import Cluster
from sliceworks.twin.nodes.heartbeat import HeartbeatIntervals
from sliceworks.twin.nodes.node_shape import NodeShape, create_nodes, tpu_shape
from sliceworks.twin.nodes.simulator import NodeSimulator

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sliceworks.base.transport import Request, Response

Object = dict[str, Any]
SHAPE = NodeShape(pool="pool")
CHANGE = {"op": "replace", "path": "/spec/containers/0/image"}


def pod(name: str, node: str = "gke-pool-0", policy: str = "Never", **annotations: str) -> Object:
    notes = {f"sliceworks.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    spec = {"nodeName": node, "restartPolicy": policy, "containers": [{"name": "main", "image": "example.com/app:1"}]}
    metadata = {"name": name, "namespace": "default", "annotations": notes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def on_nodes(main: Callable[[Client], Awaitable[None]], nodes: int = 2) -> None:
    """Run a coroutine on a twin with nodes."""

    async def whole() -> None:
        async with Cluster(ca="the authority") as cluster:
            client = Client(cluster.transport())
            await create_nodes(client, SHAPE, nodes)
            await clock.sleep(1)
            await main(client)

    clock.run(whole(), virtual=True, seed=7)


async def condition(client: Client, node: str) -> Object:
    result = await client.get(NODE, node)
    return next(condition for condition in result["status"]["conditions"] if condition["type"] == "Ready")


def test_node_boots_and_has_a_lease() -> None:
    async def main(client: Client) -> None:
        assert (await condition(client, "gke-pool-0"))["status"] == "True"
        lease = await client.get(LEASE, "gke-pool-1", "kube-node-lease")
        assert lease["spec"]["holderIdentity"] == "gke-pool-1"
        assert lease["metadata"]["ownerReferences"][0]["kind"] == "Node"

    on_nodes(main)


def test_pods_wait_until_the_node_has_booted() -> None:
    async def main(client: Client) -> None:
        metadata = {"name": "slow", "labels": {"sliceworks.dev/node": "simulated"}}
        slow = {"annotations": {"sliceworks.dev/boot-seconds": "300"}}
        await client.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata | slow})
        await client.create(pod("p", "slow", policy="Always"))
        await clock.sleep(299)
        assert (await condition(client, "slow"))["reason"] == "NodeStatusNeverUpdated"
        assert (await client.get(POD, "p"))["status"]["phase"] == "Pending"
        await clock.sleep(2)
        assert (await condition(client, "slow"))["reason"] == "KubeletReady"
        assert (await client.get(POD, "p"))["status"]["phase"] == "Running"

    on_nodes(main)


def test_only_labelled_nodes_are_simulated() -> None:
    async def main(client: Client) -> None:
        await client.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "other"}})
        await client.create(pod("p", "other"))
        await clock.sleep(60)
        assert not (await client.get(NODE, "other"))["status"].get("conditions")
        assert (await client.get(POD, "p"))["status"]["phase"] == "Pending"
        await client.patch(NODE, "other", {"metadata": {"labels": {"sliceworks.dev/node": "simulated"}}})
        await clock.sleep(1)
        assert (await client.get(POD, "p"))["status"]["phase"] == "Running"

    on_nodes(main)


def test_pod_completes_in_two_writes() -> None:
    async def main(client: Client) -> None:
        created = await client.create(pod("p", run_seconds="90"))
        await clock.sleep(1)
        running = await client.get(POD, "p")
        assert running["status"]["phase"] == "Running"
        assert int(running["metadata"]["resourceVersion"]) == int(created["metadata"]["resourceVersion"]) + 1
        await clock.sleep(88)
        assert (await client.get(POD, "p"))["status"]["phase"] == "Running"
        await clock.sleep(1)
        done = (await client.get(POD, "p"))["status"]
        assert done["phase"] == "Succeeded"
        assert done["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0

    on_nodes(main)


def test_pod_addresses_are_unique_in_the_pod_cidr() -> None:
    async def main(client: Client) -> None:
        for index in range(20):
            await client.create(pod(f"p{index}", f"gke-pool-{index % 2}"))
        await clock.sleep(1)
        result = [item["status"]["podIP"] for item in (await client.list(POD, "default")).items]
        assert len(set(result)) == 20
        assert {address.rpartition(".")[0] for address in result} == {"10.0.0", "10.0.1"}
        assert (await client.get(POD, "p1"))["status"]["hostIP"] == "172.16.0.3"

    on_nodes(main)


def test_crash_loop_backs_off() -> None:
    async def main(client: Client) -> None:
        await client.create(pod("p", policy="Always", fail="crash", fail_seconds="1"))
        counts = []
        for seconds in (0.5, 2.5, 10, 22, 42):
            await clock.sleep(seconds)
            counts.append((await client.get(POD, "p"))["status"]["containerStatuses"][0]["restartCount"])
        assert counts == [0, 1, 2, 3, 4]
        status = (await client.get(POD, "p"))["status"]
        assert status["phase"] == "Running"
        assert status["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1
        warnings = await client.send(_events("BackOff"))
        assert warnings["items"][0]["source"] == {"component": "kubelet"}

    on_nodes(main)


def _events(reason: str) -> Any:
    from sliceworks.kube import requests
    from sliceworks.kube.resources import CORE_EVENT

    return requests.list_(CORE_EVENT, "default", fields=f"reason={reason}")


def test_deletion_waits_for_termination() -> None:
    async def main(client: Client) -> None:
        await client.create(pod("p", stop_seconds="10"))
        await clock.sleep(1)
        await client.delete(POD, "p")
        await clock.sleep(9)
        assert (await client.get(POD, "p"))["status"]["phase"] == "Running"
        await clock.sleep(2)
        with pytest.raises(NotFound):
            await client.get(POD, "p")

    on_nodes(main)


def test_finalizer_keeps_a_terminated_pod() -> None:
    async def main(client: Client) -> None:
        body = pod("p")
        body["metadata"]["finalizers"] = ["example.com/wait"]
        await client.create(body)
        await clock.sleep(1)
        await client.delete(POD, "p")
        await clock.sleep(60)
        left = await client.get(POD, "p")
        assert left["status"]["phase"] == "Failed"
        await client.patch(POD, "p", {"metadata": {"finalizers": None}})
        await clock.sleep(1)
        with pytest.raises(NotFound):
            await client.get(POD, "p")

    on_nodes(main)


def test_silent_node_does_not_change_its_pods() -> None:
    async def main(client: Client) -> None:
        await client.create(pod("p", run_seconds="30"))
        await clock.sleep(1)
        await _state(client, "silent")
        lease = await client.get(LEASE, "gke-pool-0", "kube-node-lease")
        assert lease["spec"]["leaseDurationSeconds"] == 40
        await clock.sleep(30)
        assert (await client.get(POD, "p"))["status"]["phase"] == "Running"
        await _state(client, None)
        await clock.sleep(1)
        assert (await client.get(POD, "p"))["status"]["phase"] == "Succeeded"

    on_nodes(main)


def test_node_change_does_not_shorten_delays() -> None:
    async def main(client: Client) -> None:
        await client.create(pod("p", run_seconds="100"))
        await clock.sleep(1)
        await client.patch(NODE, "gke-pool-0", {"metadata": {"annotations": {"example.com/note": "x"}}})
        await clock.sleep(50)
        assert (await client.get(POD, "p"))["status"]["phase"] == "Running"
        await clock.sleep(50)
        assert (await client.get(POD, "p"))["status"]["phase"] == "Succeeded"

    on_nodes(main)


def test_conflict_does_not_shorten_delays() -> None:
    async def main(client: Client) -> None:
        async def disturb(seconds: float) -> None:
            for number in range(int(seconds * 20)):
                await client.patch(NODE, "gke-pool-0", {"metadata": {"labels": {"example.com/number": str(number)}}})
                await clock.sleep(0.05)

        await _state(client, "maintenance")
        await disturb(2)
        assert (await condition(client, "gke-pool-0"))["status"] == "False"
        await disturb(20)
        assert (await condition(client, "gke-pool-0"))["status"] == "False"
        await clock.sleep(600)
        assert (await condition(client, "gke-pool-0"))["status"] == "True"

    on_nodes(main)


def test_silent_node_becomes_not_ready() -> None:
    async def main(client: Client) -> None:
        await clock.sleep(600)
        assert (await condition(client, "gke-pool-0"))["status"] == "True"
        await _state(client, "silent")
        await clock.sleep(45)
        assert (await condition(client, "gke-pool-0"))["status"] == "True"
        await clock.sleep(10)
        assert (await condition(client, "gke-pool-0"))["status"] == "Unknown"
        await _state(client, None)
        await clock.sleep(1)
        assert (await condition(client, "gke-pool-0"))["status"] == "True"

    on_nodes(main)


def test_node_that_goes_silent_while_the_simulator_is_down_becomes_not_ready() -> None:
    async def main() -> None:
        async with Cluster(ca="the authority") as cluster:
            client = Client(cluster.transport())
            await create_nodes(client, SHAPE, 2)
            await clock.sleep(600)
            [nodes] = [program for program in list_restartables(cluster) if program.name == "nodes"]
            await nodes.kill()
            await _state(client, "silent")
            await nodes.restart()
            await clock.sleep(60)
            assert (await condition(client, "gke-pool-0"))["status"] == "Unknown"
            assert (await condition(client, "gke-pool-1"))["status"] == "True"

    clock.run(main(), virtual=True, seed=7)


def test_preempted_node_terminates_its_pods_and_is_deleted() -> None:
    async def main(client: Client) -> None:
        await client.create(pod("p"))
        await clock.sleep(1)
        await _state(client, "preempted")
        await clock.sleep(2)
        status = (await client.get(POD, "p"))["status"]
        assert (status["phase"], status["reason"]) == ("Failed", "Terminated")
        assert status["conditions"][0]["type"] == "DisruptionTarget"
        assert (await condition(client, "gke-pool-0"))["message"] == "node is shutting down"
        await clock.sleep(30)
        with pytest.raises(NotFound):
            await client.get(NODE, "gke-pool-0")

    on_nodes(main)


def test_node_returns_from_maintenance() -> None:
    async def main(client: Client) -> None:
        await _state(client, "maintenance")
        await clock.sleep(1)
        assert (await condition(client, "gke-pool-0"))["status"] == "False"
        await clock.sleep(600)
        assert (await condition(client, "gke-pool-0"))["status"] == "True"

    on_nodes(main)


async def _state(client: Client, state: str | None) -> None:
    await client.patch(NODE, "gke-pool-0", {"metadata": {"annotations": {"sliceworks.dev/state": state}}})
    await clock.sleep(0.1)


def test_restarted_simulator_continues() -> None:
    async def main() -> None:
        async with Cluster(ca="the authority", workloads=False) as cluster:
            client = Client(cluster.transport())
            await create_nodes(client, SHAPE, 1)
            async with NodeSimulator(client, intervals=HeartbeatIntervals(0, 0)):
                await clock.sleep(1)
                await client.create(pod("p", run_seconds="60"))
                await clock.sleep(1)
            await clock.sleep(20)
            async with NodeSimulator(client, intervals=HeartbeatIntervals(0, 0)):
                await clock.sleep(38)
                assert (await client.get(POD, "p"))["status"]["phase"] == "Running"
                await clock.sleep(3)
                assert (await client.get(POD, "p"))["status"]["phase"] == "Succeeded"

    clock.run(main(), virtual=True)


def test_late_response_does_not_override_the_watch() -> None:
    class Slow:
        """Delays responses about one pod by a second."""

        def __init__(self, cluster: Cluster) -> None:
            self._inner = cluster.transport()

        async def send(self, request: Request, *, stream: bool = False) -> Response:
            answer = await self._inner.send(request, stream=stream)
            if request.method == "GET" and request.path.endswith("/pods/p"):
                await clock.sleep(1)
            return answer

        async def close(self) -> None:
            await self._inner.close()

    async def main() -> None:
        async with Cluster(ca="the authority", workloads=False) as cluster:
            client = Client(cluster.transport())
            await create_nodes(client, SHAPE, 1)
            async with NodeSimulator(Client(Slow(cluster)), intervals=HeartbeatIntervals(0, 0)):
                await client.create(pod("p"))
                await clock.sleep(5)
                await client.patch(NODE, "gke-pool-0", {"metadata": {"annotations": {"looks": "anew"}}})
                await clock.sleep(0.5)
                await client.patch(POD, "p", {"metadata": {"annotations": {"sliceworks.dev/run-seconds": "20"}}})
                await clock.sleep(30)
                assert (await client.get(POD, "p"))["status"]["phase"] == "Succeeded"

    clock.run(main(), virtual=True)


def test_heartbeats_renew_the_lease() -> None:
    async def main() -> None:
        async with Cluster(ca="the authority", workloads=False) as cluster:
            client = Client(cluster.transport())
            await create_nodes(client, SHAPE, 1)
            async with NodeSimulator(client):
                await clock.sleep(1)
                first = (await client.get(LEASE, "gke-pool-0", "kube-node-lease"))["spec"]["renewTime"]
                await clock.sleep(400)
                lease = await client.get(LEASE, "gke-pool-0", "kube-node-lease")
                assert lease["spec"]["renewTime"] > first
                assert lease["spec"]["leaseDurationSeconds"] == 40
                assert (await condition(client, "gke-pool-0"))["lastHeartbeatTime"] >= "2026-01-05T08:05:00Z"

    clock.run(main(), virtual=True)


def test_same_seed_gives_same_history() -> None:
    async def history() -> list[tuple[str, str]]:
        async with Cluster(ca="the authority", workloads=False) as cluster:
            client = Client(cluster.transport())
            await create_nodes(client, SHAPE, 4)
            async with NodeSimulator(client, intervals=HeartbeatIntervals(0, 0)):
                for index in range(30):
                    await client.create(pod(f"p{index}", f"gke-pool-{index % 4}", run_seconds="10", run_spread="50"))
                await clock.sleep(100)
                done = (await client.list(POD, "default")).items
                return [
                    (item["metadata"]["name"], item["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"])
                    for item in done
                ]

    first = clock.run(history(), virtual=True, seed=3)
    assert first == clock.run(history(), virtual=True, seed=3)
    assert len({moment for _, moment in first}) > 10


def test_tpu_hosts_have_gkes_labels_and_taints() -> None:
    async def main(client: Client) -> None:
        await create_nodes(client, tpu_shape("slice-0", "tpu-v5-lite-podslice", "4x4"), 4, first=10)
        node = await client.get(NODE, "gke-slice-0-3")
        labels = node["metadata"]["labels"]
        assert labels["cloud.google.com/gke-nodepool"] == "slice-0"
        assert labels["cloud.google.com/gke-tpu-topology"] == "4x4"
        assert node["status"]["allocatable"]["google.com/tpu"] == "4"
        assert {"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"} in node["spec"]["taints"]
        assert node["spec"]["podCIDR"] == "10.0.13.0/24"

    on_nodes(main)


def test_pods_of_jobs_complete_by_default_and_others_run_on() -> None:
    async def main() -> None:
        async with Cluster(ca="the authority", job_seconds=60) as cluster:
            client = Client(cluster.transport())
            await create_nodes(client, SHAPE, 2)
            plain = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "example.com/app:1"}]}
            serving = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": plain["containers"]}}
            for name, annotations in (("plain", {}), ("long", {"sliceworks.dev/run-seconds": "600"})):
                template = {"metadata": {"annotations": annotations}, "spec": plain}
                metadata = {"name": name, "namespace": "default"}
                await client.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}})
            spec = {"selector": {"matchLabels": {"app": "a"}}, "template": serving}
            metadata = {"name": "server", "namespace": "default"}
            await client.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
            await clock.sleep(55)
            assert not is_condition_true(await client.get(JOB, "plain", "default"), "Complete")
            await clock.sleep(20)
            assert is_condition_true(await client.get(JOB, "plain", "default"), "Complete")
            await clock.sleep(400)
            assert not is_condition_true(await client.get(JOB, "long", "default"), "Complete")
            assert (await client.get(DEPLOYMENT, "server", "default"))["status"]["availableReplicas"] == 1

    clock.run(main(), virtual=True, seed=7)


@pytest.mark.parametrize(
    ("first", "second", "phase"),
    [
        ({"hostPort": 80}, {"hostPort": 80}, "Failed"),
        ({"hostPort": 80}, {"hostPort": 80, "hostIP": "127.0.0.1"}, "Failed"),
        ({"hostPort": 80, "hostIP": "127.0.0.2"}, {"hostPort": 80, "hostIP": "127.0.0.1"}, "Running"),
        ({"hostPort": 80}, {"hostPort": 80, "protocol": "UDP"}, "Running"),
        ({"hostPort": 80}, {"hostPort": 81}, "Running"),
    ],
)
def test_a_node_rejects_a_pod_whose_host_port_is_in_use(first: Object, second: Object, phase: str) -> None:
    async def main(client: Client) -> None:
        for name, port in (("first", first), ("second", second)):
            body = pod(name)
            body["spec"]["containers"][0]["ports"] = [{"containerPort": port["hostPort"], **port}]
            await client.create(body)
            await clock.sleep(1)
        status = (await client.get(POD, "second"))["status"]
        assert status["phase"] == phase
        if phase == "Failed":
            assert status["reason"] == "NodePorts"
            await client.delete(POD, "first", grace_period_seconds=0)
            await client.create({**body, "metadata": {"name": "third", "namespace": "default"}})
            await clock.sleep(1)
            assert (await client.get(POD, "third"))["status"]["phase"] == "Running"

    on_nodes(main)


def test_status_follows_changes_of_the_spec() -> None:
    async def main(client: Client) -> None:
        await client.create(pod("web"))
        await clock.sleep(1)
        for image in ("example.com/app:2", "example.com/app:3"):
            changed = await client.patch(POD, "web", [{**CHANGE, "value": image}], kind=PatchType.JSON)
            await clock.sleep(1)
            status = (await client.get(POD, "web"))["status"]
            assert status["observedGeneration"] == changed["metadata"]["generation"] > 1
            assert status["phase"] == "Running"

    on_nodes(main)
