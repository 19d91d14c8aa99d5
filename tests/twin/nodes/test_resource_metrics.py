"""The resource metrics API: measured usage of pods that run as processes, and none of others."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.support.process_pods import pod, ready, until

from sliceworks.base import clock
from sliceworks.base.errors import MethodNotAllowed, NotFound
from sliceworks.base.transport import Request
from sliceworks.kube.client import Client
from sliceworks.kube.resources import CLUSTER_ROLE, POD
from sliceworks.twin.apiserver.request_info import parse_request_info
from sliceworks.twin.cluster import Cluster
from sliceworks.twin.nodes.node_shape import NodeShape, create_nodes
from sliceworks.twin.nodes.runtime import resource_metrics
from sliceworks.twin.nodes.runtime.envvars import MARKER
from sliceworks.twin.nodes.runtime.process_usage import ProcessUsage, Usage
from sliceworks.twin.nodes.runtime.resource_metrics import ResourceMetrics

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc exists on Linux alone")
Obj = dict[str, Any]
BASE = "/apis/metrics.k8s.io/v1beta1"
CLASS = "spin = lambda: sum(range(10**5))\nwhile True: spin()"


def running(name: str, node: str, *containers: str, **labels: str) -> Obj:
    statuses = [{"name": container, "state": {"running": {}}} for container in containers]
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels}
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": {"containerStatuses": statuses}}


def answers(pods: list[Obj], *usages: dict[str, Usage], seconds: float = 10.0) -> ResourceMetrics:
    """Metrics after one sample for each of the usages, which are `seconds` apart."""
    reads = iter(usages)
    metrics = ResourceMetrics(lambda: pods, lambda: next(reads))

    async def sample() -> None:
        for _ in usages:
            await metrics.sample()

    clock.run(sample())
    if metrics._before is not None and metrics._now is not None:
        before = metrics._before
        metrics._now = metrics._now._replace(real_time=before.real_time + seconds, time=before.time + seconds)
    return metrics


def ask(metrics: ResourceMetrics, path: str, selector: str = "", method: str = "GET") -> Any:
    return metrics.answer(parse_request_info(method, BASE + path), {"labelSelector": [selector]} if selector else {})


def test_usage_is_the_rate_between_two_samples() -> None:
    pods = [running("web", "a", "main", "log", app="web"), running("db", "b", "main")]
    first = {"uid-web/main": Usage(1.0, 0), "uid-web/log": Usage(2.0, 0), "uid-db/main": Usage(0.0, 0)}
    second = {"uid-web/main": Usage(6.0, 2048), "uid-web/log": Usage(2.0, 1024), "uid-db/main": Usage(20.0, 4096)}
    metrics = answers(pods, first, second)
    web, db = ask(metrics, "/pods")["items"]
    assert web["containers"] == [
        {"name": "main", "usage": {"cpu": "500000000n", "memory": "2Ki"}},
        {"name": "log", "usage": {"cpu": "0n", "memory": "1Ki"}},
    ]
    assert (web["window"], web["metadata"]["labels"]) == ("10.000s", {"app": "web"})
    assert db["containers"] == [{"name": "main", "usage": {"cpu": "2000000000n", "memory": "4Ki"}}]
    assert [item["metadata"]["name"] for item in ask(metrics, "/namespaces/default/pods", "app=web")["items"]] == ["web"]
    assert ask(metrics, "/namespaces/other/pods")["items"] == []
    nodes = {item["metadata"]["name"]: item["usage"] for item in ask(metrics, "/nodes")["items"]}
    assert nodes == {"a": {"cpu": "500000000n", "memory": "3Ki"}, "b": {"cpu": "2000000000n", "memory": "4Ki"}}
    assert ask(metrics, "/nodes/b")["kind"] == "NodeMetrics"


def test_container_without_two_samples_has_no_usage() -> None:
    pods = [running("new", "a", "main"), running("again", "a", "main")]
    assert ask(answers(pods, {"uid-new/main": Usage(1.0, 1)}), "/pods")["items"] == []
    metrics = answers(pods, {"uid-again/main": Usage(9.0, 1)}, {"uid-again/main": Usage(1.0, 1), "uid-new/main": Usage(1.0, 1)})
    assert ask(metrics, "/pods")["items"] == []
    with pytest.raises(NotFound, match=r'podmetrics\.metrics\.k8s\.io "default/new" not found'):
        ask(metrics, "/namespaces/default/pods/new")
    with pytest.raises(MethodNotAllowed):
        ask(metrics, "/namespaces/default/pods/new", method="DELETE")
    with pytest.raises(NotFound):
        ask(metrics, "/namespaces/default/services")


def test_usage_of_processes_is_read_by_their_marker() -> None:
    environment = {**os.environ, MARKER: "uid-1/main"}
    usage = ProcessUsage()
    with subprocess.Popen([sys.executable, "-c", CLASS], env=environment) as process:
        try:
            assert clock.wait_until(lambda: usage.read().get("uid-1/main", Usage()).cpu > 0.05, 90)
            assert usage.read()["uid-1/main"].memory > 1 << 20
        finally:
            process.kill()
    assert "uid-1/main" not in usage.read()


def test_process_is_measured_that_was_seen_before_it_executed_its_command() -> None:
    """Until then it has the environment of the twin."""
    usage = ProcessUsage()
    script = f"import os\ninput()\nos.execve({sys.executable!r}, ['python', '-c', {CLASS!r}], {{{MARKER!r}: 'uid-2/main'}})"
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, env={}) as process:
        try:
            assert "uid-2/main" not in usage.read()
            assert process.stdin is not None
            process.stdin.write(b"\n")
            process.stdin.flush()
            assert clock.wait_until(lambda: "uid-2/main" in usage.read(), 90)
        finally:
            process.kill()


def test_processes_are_measured_and_simulated_pods_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_metrics, "INTERVAL", 0.1)

    async def main() -> None:
        async with Cluster(ca="the authority", processes=tmp_path) as cluster:
            client, transport = Client(cluster.transport()), cluster.transport()
            await create_nodes(client, NodeShape(pool="pool"), 1)
            simulated = pod("simulated", "sh")
            simulated["metadata"]["annotations"] = {"sliceworks.dev/runtime": "simulated"}
            await client.create(simulated)
            await client.create(pod("busy", sys.executable, "-c", CLASS, grace=0))
            for name in ("simulated", "busy"):
                await until(client, name, ready)

            async def read(path: str) -> tuple[int, Obj]:
                response = await transport.send(Request("GET", BASE + path, (), {"accept": "application/json"}))
                return response.status, orjson.loads(response.body)

            async def is_measured() -> bool:
                items = (await read("/namespaces/default/pods"))[1]["items"]
                return bool(items) and int(items[0]["containers"][0]["usage"]["cpu"].removesuffix("n")) > 10**6

            async with asyncio.timeout(90):
                while not await is_measured():
                    await clock.sleep(0.05)
            assert [item["metadata"]["name"] for item in (await read("/pods"))[1]["items"]] == ["busy"]
            assert (await read("/namespaces/default/pods/simulated"))[0] == 404
            ((node,),) = [(await read("/nodes"))[1]["items"]]
            assert int(node["usage"]["memory"].removesuffix("Ki")) > 1024
            async with asyncio.timeout(90):  # until the role is aggregated
                while "metrics.k8s.io" not in str((await client.get(CLUSTER_ROLE, "view"))["rules"]):
                    await clock.sleep(0.05)
            await client.delete(POD, "busy", "default", grace_period_seconds=0)

    clock.run(main())


def test_twin_without_processes_has_no_metrics_api(tmp_path: Path) -> None:
    async def main() -> None:
        async with Cluster(ca="the authority") as cluster:
            response = await cluster.transport().send(Request("GET", f"{BASE}/pods", (), {}))
            assert response.status == 404

    clock.run(main())
