"""Nodes and pods played on a whole twin, in virtual time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sliceworks.base import clock
from sliceworks.base.errors import NotFound
from sliceworks.kube.client import Client
from sliceworks.kube.well_known import LEASE, NODE, POD
from sliceworks.twin.cluster import Cluster
from sliceworks.twin.nodes.heartbeats import Rhythm
from sliceworks.twin.nodes.player import Nodes
from sliceworks.twin.nodes.shapes import Shape, create_nodes, tpu_shape

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sliceworks.kube.transport import Request, Response

Object = dict[str, Any]
SHAPE = Shape(pool="pool")


def pod(name: str, node: str = "gke-pool-0", policy: str = "Never", **annotations: str) -> Object:
    notes = {f"sliceworks.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    spec = {"nodeName": node, "restartPolicy": policy, "containers": [{"name": "main", "image": "example.com/app:1"}]}
    metadata = {"name": name, "namespace": "default", "annotations": notes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def played(main: Callable[[Client], Awaitable[None]], nodes: int = 2) -> None:
    """Run a test's coroutine on a twin with nodes."""

    async def whole() -> None:
        async with Cluster(ca="the authority") as cluster:
            client = Client(cluster.transport())
            await create_nodes(client, SHAPE, nodes)
            await clock.sleep(1)
            await main(client)

    clock.run(whole(), virtual=True, seed=7)


async def condition(client: Client, node: str) -> Object:
    found = await client.get(NODE, node)
    return next(item for item in found["status"]["conditions"] if item["type"] == "Ready")


def test_nodes_boot_and_have_a_lease() -> None:
    async def main(client: Client) -> None:
        assert (await condition(client, "gke-pool-0"))["status"] == "True"
        lease = await client.get(LEASE, "gke-pool-1", "kube-node-lease")
        assert lease["spec"]["holderIdentity"] == "gke-pool-1"
        assert lease["metadata"]["ownerReferences"][0]["kind"] == "Node"

    played(main)


def test_pods_wait_for_a_machine_however_long_it_boots() -> None:
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

    played(main)


def test_only_labelled_nodes_are_played() -> None:
    async def main(client: Client) -> None:
        await client.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "other"}})
        await client.create(pod("p", "other"))
        await clock.sleep(60)
        assert not (await client.get(NODE, "other"))["status"].get("conditions")
        assert (await client.get(POD, "p"))["status"]["phase"] == "Pending"
        await client.patch(NODE, "other", {"metadata": {"labels": {"sliceworks.dev/node": "simulated"}}})
        await clock.sleep(1)
        assert (await client.get(POD, "p"))["status"]["phase"] == "Running"

    played(main)


def test_a_pod_runs_and_completes_in_two_writes() -> None:
    async def main(client: Client) -> None:
        made = await client.create(pod("p", run_seconds="90"))
        await clock.sleep(1)
        running = await client.get(POD, "p")
        assert running["status"]["phase"] == "Running"
        assert int(running["metadata"]["resourceVersion"]) == int(made["metadata"]["resourceVersion"]) + 1
        await clock.sleep(88)
        assert (await client.get(POD, "p"))["status"]["phase"] == "Running"
        await clock.sleep(1)
        done = (await client.get(POD, "p"))["status"]
        assert done["phase"] == "Succeeded"
        assert done["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0

    played(main)


def test_addresses_come_from_the_nodes_range_and_are_given_once() -> None:
    async def main(client: Client) -> None:
        for index in range(20):
            await client.create(pod(f"p{index}", f"gke-pool-{index % 2}"))
        await clock.sleep(1)
        found = [each["status"]["podIP"] for each in (await client.list(POD, "default")).items]
        assert len(set(found)) == 20
        assert {address.rpartition(".")[0] for address in found} == {"10.0.0", "10.0.1"}
        assert (await client.get(POD, "p1"))["status"]["hostIP"] == "172.16.0.3"

    played(main)


def test_a_crash_loop() -> None:
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

    played(main)


def _events(reason: str) -> Any:
    from sliceworks.kube import requests
    from sliceworks.kube.well_known import CORE_EVENT

    return requests.list_(CORE_EVENT, "default", fields=f"reason={reason}")


def test_deletion_waits_for_the_pod_to_end() -> None:
    async def main(client: Client) -> None:
        await client.create(pod("p", stop_seconds="10"))
        await clock.sleep(1)
        await client.delete(POD, "p")
        await clock.sleep(9)
        assert (await client.get(POD, "p"))["status"]["phase"] == "Running"
        await clock.sleep(2)
        with pytest.raises(NotFound):
            await client.get(POD, "p")

    played(main)


def test_a_finalizer_keeps_a_pod_that_has_ended() -> None:
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

    played(main)


def test_a_silent_node_leaves_its_pods_as_they_are() -> None:
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

    played(main)


def test_a_changed_node_hurries_nobody() -> None:
    async def main(client: Client) -> None:
        await client.create(pod("p", run_seconds="100"))
        await clock.sleep(1)
        await client.patch(NODE, "gke-pool-0", {"metadata": {"annotations": {"example.com/note": "x"}}})
        await clock.sleep(50)
        assert (await client.get(POD, "p"))["status"]["phase"] == "Running"
        await clock.sleep(50)
        assert (await client.get(POD, "p"))["status"]["phase"] == "Succeeded"

    played(main)


def test_a_conflict_hurries_nobody() -> None:
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

    played(main)


def test_a_node_that_stays_silent_is_taken_for_lost() -> None:
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

    played(main)


def test_a_preempted_node_ends_its_pods_and_goes() -> None:
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

    played(main)


def test_maintenance_ends_by_itself() -> None:
    async def main(client: Client) -> None:
        await _state(client, "maintenance")
        await clock.sleep(1)
        assert (await condition(client, "gke-pool-0"))["status"] == "False"
        await clock.sleep(600)
        assert (await condition(client, "gke-pool-0"))["status"] == "True"

    played(main)


async def _state(client: Client, state: str | None) -> None:
    await client.patch(NODE, "gke-pool-0", {"metadata": {"annotations": {"sliceworks.dev/state": state}}})
    await clock.sleep(0.1)


def test_a_player_that_starts_anew_goes_on_where_the_last_one_was() -> None:
    async def main() -> None:
        async with Cluster(ca="the authority", workloads=False) as cluster:
            client = Client(cluster.transport())
            await create_nodes(client, SHAPE, 1)
            async with Nodes(client, rhythm=Rhythm(0, 0)):
                await clock.sleep(1)
                await client.create(pod("p", run_seconds="60"))
                await clock.sleep(1)
            await clock.sleep(20)
            async with Nodes(client, rhythm=Rhythm(0, 0)):
                await clock.sleep(38)
                assert (await client.get(POD, "p"))["status"]["phase"] == "Running"
                await clock.sleep(3)
                assert (await client.get(POD, "p"))["status"]["phase"] == "Succeeded"

    clock.run(main(), virtual=True)


def test_an_answer_that_is_late_does_not_undo_what_the_watch_told_meanwhile() -> None:
    class Slow:
        """Answers questions about one pod a second late."""

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
            async with Nodes(Client(Slow(cluster)), rhythm=Rhythm(0, 0)):
                await client.create(pod("p"))
                await clock.sleep(5)
                await client.patch(NODE, "gke-pool-0", {"metadata": {"annotations": {"looks": "anew"}}})
                await clock.sleep(0.5)
                await client.patch(POD, "p", {"metadata": {"annotations": {"sliceworks.dev/run-seconds": "20"}}})
                await clock.sleep(30)
                assert (await client.get(POD, "p"))["status"]["phase"] == "Succeeded"

    clock.run(main(), virtual=True)


def test_real_heartbeats_renew_the_lease() -> None:
    async def main() -> None:
        async with Cluster(ca="the authority", workloads=False) as cluster:
            client = Client(cluster.transport())
            await create_nodes(client, SHAPE, 1)
            async with Nodes(client):
                await clock.sleep(1)
                first = (await client.get(LEASE, "gke-pool-0", "kube-node-lease"))["spec"]["renewTime"]
                await clock.sleep(400)
                lease = await client.get(LEASE, "gke-pool-0", "kube-node-lease")
                assert lease["spec"]["renewTime"] > first
                assert lease["spec"]["leaseDurationSeconds"] == 40
                assert (await condition(client, "gke-pool-0"))["lastHeartbeatTime"] >= "2026-01-05T08:05:00Z"

    clock.run(main(), virtual=True)


def test_the_same_seed_gives_the_same_history() -> None:
    async def history() -> list[tuple[str, str]]:
        async with Cluster(ca="the authority", workloads=False) as cluster:
            client = Client(cluster.transport())
            await create_nodes(client, SHAPE, 4)
            async with Nodes(client, rhythm=Rhythm(0, 0)):
                for index in range(30):
                    await client.create(pod(f"p{index}", f"gke-pool-{index % 4}", run_seconds="10", run_spread="50"))
                await clock.sleep(100)
                done = (await client.list(POD, "default")).items
                return [
                    (each["metadata"]["name"], each["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"])
                    for each in done
                ]

    first = clock.run(history(), virtual=True, seed=3)
    assert first == clock.run(history(), virtual=True, seed=3)
    assert len({moment for _, moment in first}) > 10


def test_tpu_hosts_look_like_gkes() -> None:
    async def main(client: Client) -> None:
        await create_nodes(client, tpu_shape("slice-0", "tpu-v5-lite-podslice", "4x4"), 4, first=10)
        node = await client.get(NODE, "gke-slice-0-3")
        labels = node["metadata"]["labels"]
        assert labels["cloud.google.com/gke-nodepool"] == "slice-0"
        assert labels["cloud.google.com/gke-tpu-topology"] == "4x4"
        assert node["status"]["allocatable"]["google.com/tpu"] == "4"
        assert {"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"} in node["spec"]["taints"]
        assert node["spec"]["podCIDR"] == "10.0.13.0/24"

    played(main)
