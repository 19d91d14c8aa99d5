"""Backends discovered in a cluster: the ready pods of Services with their target ports, updated as pods change."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.support.gateways import chat, document, gateway, upstream

from sliceworks.base import clock, yaml_documents
from sliceworks.kube.client import Client
from sliceworks.kube.resources import POD
from sliceworks.serving.gateway import discovery
from sliceworks.serving.gateway.discovery import BackendDiscovery, explain_no_backends, find_backends
from sliceworks.serving.gateway.router import Router
from sliceworks.serving.gateway.state import State, create_upstream, read_document
from sliceworks.specs.gateway import Discovery
from sliceworks.twin.cluster import Cluster

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

Object = dict[str, Any]
WANTED = Discovery.model_validate({"kind": "triton", "labels": {"app": "a"}, "port": "http", "grpcPort": "grpc"})


def service(name: str = "a", **ports: int | str) -> Object:
    listed = [{"name": port, "port": 80 + number, "targetPort": target} for number, (port, target) in enumerate(ports.items())]
    metadata = {"name": name, "namespace": "default", "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"selector": {"pod": name}, "ports": listed}}


def pod(name: str, address: str, *, ready: bool = True, label: str = "a", **metadata: Any) -> Object:
    containers = [{"name": "x", "image": "x:1", "ports": [{"name": "web", "containerPort": 8000}]}]
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    labels = {"name": name, "namespace": "default", "labels": {"pod": label}, **metadata}
    status = {"podIP": address, "conditions": conditions}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": labels, "spec": {"containers": containers}, "status": status}


def urls(services: list[Object], pods: list[Object], wanted: Discovery = WANTED) -> list[tuple[str, str]]:
    return [(item.url, item.grpc) for item in find_backends(wanted, services, pods)]


def test_target_ports_are_resolved() -> None:
    pods = [pod("one", "10.0.0.1"), pod("two", "fd00::2"), pod("three", "10.0.0.3", label="b")]
    assert urls([service(http="web", grpc=9000)], pods) == [
        ("http://10.0.0.1:8000", "10.0.0.1:9000"),
        ("http://[fd00::2]:8000", "[fd00::2]:9000"),
    ]
    by_number = WANTED.model_copy(update={"port": "80", "grpc_port": ""})
    assert urls([service(http="web")], pods[:1], by_number) == [("http://10.0.0.1:8000", "")]
    assert urls([service(other="web")], pods) == []
    assert urls([service(http="unknown")], pods) == []


def test_only_ready_pods_are_backends() -> None:
    pods = [pod("one", "10.0.0.1", ready=False), pod("two", ""), pod("three", "10.0.0.3", deletionTimestamp="2026-11-15T10:00:00Z")]
    assert urls([service(http=80)], pods) == []
    assert urls([service("b", http=80)], [pod("one", "10.0.0.1", label="b")]) == []


def test_service_without_selector_and_overlapping_services() -> None:
    blind = service(http=80)
    blind["spec"]["selector"] = {}
    assert urls([blind], [pod("one", "10.0.0.1")]) == []
    assert len(urls([service(http=80), service(http=80)], [pod("one", "10.0.0.1")])) == 1


def test_missing_backends_are_explained() -> None:
    assert explain_no_backends(WANTED, "default", [service("b", http=80)]) == "no Service in namespace default has the labels app=a"
    assert (
        explain_no_backends(WANTED, "default", [service(grpc=80, metrics=90)])
        == "service/a has no port http (ports: grpc, metrics)"
    )
    assert explain_no_backends(WANTED, "default", [service()]) == "service/a has no port http (ports: none)"
    assert explain_no_backends(WANTED, "default", [service(http=80)]) == "no pod of service/a is ready"


def test_backends_follow_pods(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    faults = iter([RuntimeError("a fault of ours")])

    def faulty(*words: Any) -> list[Any]:
        if fault := next(faults, None):
            raise fault
        return find_backends(*words)

    monkeypatch.setattr(discovery, "find_backends", faulty)
    monkeypatch.setattr(discovery, "_RETRY_DELAY", 0.05)

    async def main() -> None:
        async with Cluster(workloads=False) as twin, upstream(models=("m",)) as echo:
            client = Client(twin.transport())
            port = int(echo.url.rpartition(":")[2])
            await client.create(service(http=port))
            discover = {"kind": "echo", "labels": {"app": "a"}, "port": "http"}
            spec = document(models=[{"name": "m", "discovery": discover}])
            router = Router(State(spec))
            followed: list[int] = []
            finder = BackendDiscovery(lambda: router.state, client, lambda: followed.append(len(router.state.upstreams)))

            task = asyncio.create_task(finder.run())
            await _start_pod(client)
            await _until(lambda: [upstream.name for upstream in router.state.upstreams] == [echo.url])
            [server] = router.state.upstreams
            await client.patch(POD, "one", {"metadata": {"labels": {"note": "x"}}})
            await clock.sleep(0.3)
            assert router.state.upstreams == [server]  # unchanged backends keep their state
            await client.delete(POD, "one", grace_period_seconds=0)
            await _until(lambda: not router.state.upstreams)
            assert followed == [1, 0]
            assert "cannot read the cluster" in caplog.text
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    clock.run(main())


def test_reload_starts_discovery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "gateway.yaml"
    discover = {"kind": "echo", "labels": {"app": "a"}, "port": "http"}

    def write(*models: Object) -> None:
        head = {"apiVersion": "sliceworks.dev/v1alpha1", "kind": "Gateway", "metadata": {"name": "g"}}
        file.write_text(yaml_documents.dump({**head, "spec": {"listen": {"port": 0}, "anonymous": True, "models": list(models)}}))

    async def main() -> None:
        async with Cluster(workloads=False) as twin, upstream(models=("*",)) as echo:
            client = Client(twin.transport())
            monkeypatch.setattr("sliceworks.kube.open_client", lambda **_: client)
            await client.create(service(http=int(echo.url.rpartition(":")[2])))
            await _start_pod(client)
            write({"name": "m", "backends": [{"kind": "echo", "url": "http://127.0.0.1:1"}]})
            async with gateway(read_document(file).spec, file) as gate:
                for name in ("m", "n"):
                    write({"name": name, "discovery": discover})
                    await gate.program.reload()
                    assert (await gate.request("POST", "/v1/chat/completions", chat(model=name))).status == 200

    clock.run(main())


def test_discovered_backends_follow_a_reload() -> None:
    async def main() -> None:
        discover = {"kind": "echo", "labels": {"app": "a"}}
        plain, careful = (
            document(models=[{"name": "m", "discovery": discover}], health_check={"consecutiveFailures": failures})
            for failures in (5, 1)
        )
        state = State(plain)
        [result] = find_backends(WANTED, [service(http=80)], [pod("one", "10.0.0.1")])
        state.models["m"].balancer.set_upstreams([create_upstream(result, plain)])
        assert State(plain, state).upstreams == state.upstreams
        [changed] = State(careful, state).upstreams
        assert (changed.backend, changed.health_check.consecutive_failures) == (result, 1)

    clock.run(main(), virtual=True)


async def _start_pod(client: Client) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}}
    await client.apply(account)
    created = pod("one", "127.0.0.1")
    status = created.pop("status")
    await client.create(created)
    await client.patch(POD, "one", {"status": status}, subresource="status")


async def _until(true: Any) -> None:
    ends = clock.loop_time() + 10
    while not true():
        assert clock.loop_time() < ends
        await clock.sleep(0.02)
