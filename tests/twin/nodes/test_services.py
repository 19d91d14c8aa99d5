"""Services with processes: names, variables and cluster IPs that forward to ready pods only."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import sys
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.process_pods import ended, mounts_wanted, pod, ready, running, until

from sliceworks.base import clock
from sliceworks.base.errors import Invalid
from sliceworks.base.sockets import is_loopback
from sliceworks.kube.client import Client
from sliceworks.kube.resources import CORE_EVENT, ENDPOINT_SLICE, NODE, POD, SERVICE, Key
from sliceworks.twin.cluster import Cluster
from sliceworks.twin.nodes.runtime import pod_cgroup, service_proxy
from sliceworks.twin.nodes.runtime.pod_dns import DnsName
from sliceworks.twin.nodes.runtime.proxy_datagrams import ProxyDatagrams
from sliceworks.twin.nodes.runtime.proxy_socket import ProxySocket
from sliceworks.twin.store.journal import Journal
from sliceworks.twin.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have one loopback address")
Object = dict[str, Any]
SERVER = """
import os, socket, sys
address, port = sys.argv[1:]
with socket.create_server((address, int(port))) as server:
    while True:
        with server.accept()[0] as one:
            one.sendall(os.environ["HOSTNAME"].encode())
"""
PROBE = {"exec": {"command": ["test", "-e", "ready"]}, "periodSeconds": 1, "timeoutSeconds": 30}


def _free() -> int:
    """A port that is free at all addresses."""
    with socket.create_server(("", 0)) as held:
        return int(held.getsockname()[1])


def _reserved(port: int) -> bool:
    try:
        socket.create_server(("127.255.255.1", port)).close()
    except PermissionError:
        return True
    return False


PODS = IPv4Network("127.1.0.0/17")
PORT, AT = _free(), _free()
"""Ports of pods and of Services."""


def server(name: str, address: str = "0.0.0.0", port: int = PORT, **more: Any) -> Object:
    ports = [{"name": "http", "containerPort": port}]
    return pod(name, sys.executable, "-c", SERVER, address, str(port), ports=ports, grace=0, **more)


def service(name: str, *, port: int = AT, target: int | str = "http", **spec: Any) -> Object:
    body = {"selector": {"app": "a"}, "ports": [{"port": port, "targetPort": target}], **spec}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"}, "spec": body}


async def ask(address: str, port: int) -> str:
    """The response of a server, or the error."""
    try:
        reader, writer = await asyncio.open_connection(address, port)
        try:
            return (await reader.read()).decode()
        finally:
            writer.close()
    except OSError as error:
        return type(error).__name__


async def until_said(place: tuple[str, int], *wanted: str) -> None:
    """Connect until each of these responses has been received in order."""
    deadline = clock.loop_time() + 30
    for word in wanted:
        while (output := await ask(*place)) != word:
            assert clock.loop_time() < deadline, output
            await clock.sleep(0.02)


async def made(client: Client, body: Object) -> tuple[str, int]:
    spec = (await client.create(body))["spec"]
    return spec["clusterIP"], spec["ports"][0]["port"]


def test_connections_are_balanced_over_ready_pods(tmp_path: Path) -> None:
    async def main(client: Client) -> None:
        place = await made(client, service("web"))
        assert place[0].startswith("127.")
        assert await ask(*place) == "ConnectionRefusedError"
        for name in ("one", "two"):
            await client.create(server(name))
        await client.create(server("late", readinessProbe=PROBE))
        await until_said(place, "one", "two")
        assert {await ask(*place) for _ in range(6)} == {"one", "two"}
        await client.delete(POD, "one", grace_period_seconds=0)
        await client.delete(POD, "two", grace_period_seconds=0)
        await until_said(place, "ConnectionRefusedError")
        (actual,) = await slices(client, "web", lambda result: len(result[0]["endpoints"]) == 1)
        assert actual["endpoints"][0]["conditions"]["ready"] is False
        await client.patch(SERVICE, "web", {"spec": {"publishNotReadyAddresses": True}})
        await until_said(place, "late")
        await client.delete(SERVICE, "web")
        await until_said(place, "ConnectionRefusedError")

    running(main, tmp_path)


def test_ports_are_served_on_loopback_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever addresses Services, nodes and pods name: other machines cannot connect."""
    opened, open_socket = set[str](), ProxySocket.open

    async def record(proxy: ProxySocket) -> None:
        opened.add(proxy.listen_address[0])
        await open_socket(proxy)

    monkeypatch.setattr(ProxySocket, "open", record)

    async def main(client: Client) -> None:
        for address in ("0.0.0.0", "127.0.0.1", "10.0.0.1", "::"):
            with pytest.raises(Invalid, match="clusterIPs"):
                await client.create(service("bad", clusterIP=address))
        for address in ("0.0.0.0", "192.0.2.1", "127.1.0.9"):
            addresses = [{"type": "InternalIP", "address": address}]
            node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n-{address}"}, "status": {"addresses": addresses}}
            await client.create(node)
        one = server("one")
        one["spec"]["containers"][0]["ports"] = [
            {"name": f"p{number}", "containerPort": PORT, "hostPort": _free(), "hostIP": host}
            for number, host in enumerate(("0.0.0.0", "192.0.2.1", ""))
        ] + [{"name": "http", "containerPort": PORT}]
        await client.create(one)
        more: dict[str, Any] = {"type": "LoadBalancer", "externalIPs": ["192.0.2.1"], "loadBalancerIP": "192.0.2.1"}
        await until_said(await made(client, service("web", **more)), "one")

    running(main, tmp_path)
    assert opened
    assert all(is_loopback(address) for address in opened), opened


def test_clients_beyond_the_limit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections to Services do not use up the open files that the clients of the API need."""

    async def main(client: Client) -> None:
        place = await made(client, service("web"))
        await client.create(server("one"))
        await until_said(place, "one")
        monkeypatch.setattr(service_proxy, "_MAX_CLIENTS", 0)
        assert await ask(*place) == "ConnectionResetError"
        monkeypatch.undo()
        await until_said(place, "one")

    running(main, tmp_path)


def test_datagrams_of_clients_beyond_the_limit_are_ignored() -> None:
    async def main() -> None:
        proxy = ProxyDatagrams("127.0.0.1", _free())
        proxy.targets = (("127.0.0.1", _free()),)
        proxy.forward(b"first", ("127.0.0.1", 1))
        proxy.has_room = lambda: False
        proxy.forward(b"second", ("127.0.0.1", 2))
        assert proxy.clients == 1
        proxy.abort()
        assert proxy.clients == 0
        await asyncio.sleep(0)

    asyncio.run(main())


def test_node_ports_accept_connections_at_nodes(tmp_path: Path) -> None:
    async def main(client: Client) -> None:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "desk", "labels": {"sliceworks.dev/node": "simulated"}}}
        await client.create(node)
        await client.create(server("one"))
        created = await client.create(service("web", type="NodePort"))
        while not (found := [item["address"] for item in (await client.get(NODE, "desk")).get("status", {}).get("addresses", ())]):
            await clock.sleep(0.02)
        assert found[0].startswith("127.")
        await until_said((found[0], created["spec"]["ports"][0]["nodePort"]), "one")
        await client.patch(SERVICE, "web", {"spec": {"type": "ClusterIP"}})
        await until_said((found[0], created["spec"]["ports"][0]["nodePort"]), "ConnectionRefusedError")

    running(main, tmp_path)


ECHO = """
import os, socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
    server.bind((sys.argv[1], int(sys.argv[2])))
    while True:
        data, client = server.recvfrom(100)
        server.sendto(data + os.environ["HOSTNAME"].encode(), client)
"""


class Datagrams(asyncio.DatagramProtocol):
    """A UDP client that keeps what it receives."""

    def __init__(self) -> None:
        self.received: asyncio.Queue[bytes] = asyncio.Queue()

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self.received.put_nowait(data)


async def exchange(place: tuple[str, int]) -> str:
    """The response to a datagram, which is sent until there is one."""
    transport, protocol = await asyncio.get_running_loop().create_datagram_endpoint(Datagrams, remote_addr=place)
    try:
        async with asyncio.timeout(60):
            while True:
                transport.sendto(b"from ")
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.2):
                        return (await protocol.received.get()).decode()
    finally:
        transport.close()


def test_udp_ports_forward_datagrams_and_responses(tmp_path: Path) -> None:
    async def main(client: Client) -> None:
        ports = [
            {"name": "tcp", "port": AT, "targetPort": PORT},
            {"name": "udp", "protocol": "UDP", "port": AT, "targetPort": PORT},
        ]
        place = await made(client, service("web", ports=ports))
        await client.create(server("one"))
        await client.create(pod("two", sys.executable, "-c", ECHO, "0.0.0.0", str(PORT), grace=0))
        assert await exchange(place) == "from two"
        await until_said(place, "one")
        await client.patch(SERVICE, "web", {"spec": {"ports": ports[:1]}})
        deadline = clock.loop_time() + 60
        while not _is_free(*place):
            assert clock.loop_time() < deadline
            await clock.sleep(0.02)

    running(main, tmp_path)


@pytest.mark.parametrize("address", ["fd00::1", "node-1.example.com", "010.0.0.1"])
def test_other_addresses_of_nodes_and_endpoints_are_ignored(address: str) -> None:
    """They have no listener on this machine, and must not stop the proxy."""
    nodes = [{"status": {"addresses": [{"type": "InternalIP", "address": host}]}} for host in (address, "127.1.0.2", "")]
    assert service_proxy.served_hosts(nodes, PODS) == ["127.1.0.2"]
    endpoints = [{"addresses": [host]} for host in (address, "127.1.0.3")]
    endpoint_slice = {"addressType": "IPv4", "endpoints": endpoints}
    owner = {"metadata": {"name": "web", "namespace": "default"}, "spec": {"clusterIP": "None"}}
    names = service_proxy.service_names([owner], {Key("default", "web"): [endpoint_slice]}, PODS)
    assert names == [DnsName("default", "web", ("127.1.0.3",))]


def _is_free(address: str, port: int) -> bool:
    """Whether no program has a UDP socket there."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, port))
        except OSError:
            return False
        return True


def test_host_ports_forward_to_the_pod(tmp_path: Path) -> None:
    async def main(client: Client) -> None:
        number = _free()
        body = server("one")
        body["spec"]["containers"][0]["ports"] = [{"containerPort": PORT, "hostPort": number, "hostIP": "127.255.255.1"}]
        await client.create(body)
        await until_said(("127.255.255.1", number), "one")
        await client.delete(POD, "one", grace_period_seconds=0)
        await until_said(("127.255.255.1", number), "ConnectionRefusedError")

    running(main, tmp_path)


async def slices(client: Client, name: str, true: Callable[[list[Object]], bool]) -> list[Object]:
    while True:
        result = (await client.list_all(ENDPOINT_SLICE, "default", labels=f"kubernetes.io/service-name={name}")).items
        if result and true(result):
            return result
        await clock.sleep(0.02)


def test_wrong_target_refuses_and_wildcard_listener_is_direct(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_cgroup, "_find_hierarchy", lambda: None)

    async def main(client: Client) -> None:
        alone = _free()
        await client.create(server("all", "", alone))  # it listens on all addresses of the machine
        await until(client, "all", ready)
        wrong = await made(client, service("wrong", target=_free()))
        same = await made(client, service("same", port=alone))
        await until_said(same, "all")
        taken = await made(client, service("taken", port=alone, target=PORT))
        await client.create(server("own"))
        reported = await event(client, "taken")
        assert f"Port {alone} is not served: a program of this machine listens on this port on all addresses" in reported
        assert await ask(*taken) == "all"
        assert await ask(*wrong) == "ConnectionRefusedError"

    running(main, tmp_path)


async def event(client: Client, name: str) -> str:
    """The note of an event of a Service."""
    for _ in range(500):
        result = (await client.list_all(CORE_EVENT, "default", fields=f"involvedObject.name={name}")).items
        if result:
            return str(result[0]["message"])
        await clock.sleep(0.02)
    raise AssertionError(f"no event of {name}")


def test_unavailable_port_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(_: ProxySocket) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(ProxySocket, "open", refused)

    async def main(client: Client) -> None:
        await client.create(service("web", port=80))
        await client.create(server("one"))
        assert await event(client, "web") == "Port 80 is not served: ports below 1024 require root on this machine"

    running(main, tmp_path)


CLIENT = """
import os, socket, time
def found(name):
    try:
        return ",".join(sorted({each[4][0] for each in socket.getaddrinfo(name, 80)}))
    except OSError:
        return "-"
while found("".join(["we", "b"])) == "-":
    time.sleep(0.02)
own = ["we", "b"]
print(found("".join(own)), *(found(".".join(["".join(own), *more.split()])) for more in ("default", "default svc cluster local")))
print(found("".join(["so", "lo"])), found("".join(["el", "se"])), found(".".join(["".join(["el", "se"]), "other"])))
while True:
    try:
        print(socket.create_connection(("".join(own), int(os.environ["AT"]))).recv(99).decode())
        break
    except ConnectionRefusedError:
        time.sleep(0.02)
while found("".join(own)) != "-":
    time.sleep(0.02)
print("gone")
"""


@mounts_wanted
def test_names_are_updated_while_a_pod_runs(tmp_path: Path) -> None:
    async def main(client: Client) -> None:
        await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
        place = await made(client, {**service("else"), "metadata": {"name": "else", "namespace": "other"}})
        await client.create(server("one"))
        await client.create(service("solo", clusterIP="None"))
        alone = await until(client, "one", ready)
        await slices(client, "solo", lambda obj: bool(obj[0]["endpoints"]))
        asking = pod("client", sys.executable, "-uc", CLIENT, env=[{"name": "AT", "value": str(AT)}])
        asking["metadata"]["labels"] = {}
        await client.create(asking)
        await until(client, "client", ready)
        web = await made(client, service("web"))
        deadline = clock.loop_time() + 30
        while len(output := (await client.logs("client", "default")).split()) < 7:
            assert clock.loop_time() < deadline, output
            await clock.sleep(0.05)
        assert output == [web[0]] * 3 + [alone["podIP"], "-", place[0], "one"]
        await client.delete(SERVICE, "web")
        await until(client, "client", ended)
        assert (await client.logs("client", "default")).split()[-1] == "gone"

    running(main, tmp_path)


def test_containers_get_service_variables(tmp_path: Path) -> None:
    ports = [{"name": "http-api", "port": 8000}, {"name": "grpc", "port": 8001, "protocol": "UDP"}]
    words = "*sorted(f'{name}={value}' for name, value in os.environ.items() if 'MODEL' in name)"
    program = f"import os; print({words}, '$(MY_MODEL_SERVICE_HOST)')"

    async def main(client: Client) -> None:
        await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
        address = (await client.create(service("my-model") | {"spec": {"ports": ports}}))["spec"]["clusterIP"]
        await client.create({**service("their-model"), "metadata": {"name": "their-model", "namespace": "other"}})
        await client.create(service("no-model", clusterIP="None"))
        env = [{"name": "MODEL", "value": "$(MY_MODEL_PORT)"}, {"name": "MY_MODEL_SERVICE_PORT", "value": "mine"}]
        await client.create(pod("told", sys.executable, "-c", program, env=env))
        without = pod("without", sys.executable, "-c", program)
        await client.create({**without, "spec": {**without["spec"], "enableServiceLinks": False}})
        for name in ("told", "without"):
            await until(client, name, ended)
        assert (await client.logs("told", "default")).split() == [
            f"MODEL=tcp://{address}:8000",
            f"MY_MODEL_PORT=tcp://{address}:8000",
            f"MY_MODEL_PORT_8000_TCP=tcp://{address}:8000",
            f"MY_MODEL_PORT_8000_TCP_ADDR={address}",
            "MY_MODEL_PORT_8000_TCP_PORT=8000",
            "MY_MODEL_PORT_8000_TCP_PROTO=tcp",
            f"MY_MODEL_PORT_8001_UDP=udp://{address}:8001",
            f"MY_MODEL_PORT_8001_UDP_ADDR={address}",
            "MY_MODEL_PORT_8001_UDP_PORT=8001",
            "MY_MODEL_PORT_8001_UDP_PROTO=udp",
            f"MY_MODEL_SERVICE_HOST={address}",
            "MY_MODEL_SERVICE_PORT=mine",
            "MY_MODEL_SERVICE_PORT_GRPC=8001",
            "MY_MODEL_SERVICE_PORT_HTTP_API=8000",
            address,
        ]
        assert (await client.logs("without", "default")).split() == ["$(MY_MODEL_SERVICE_HOST)"]

    running(main, tmp_path)


def test_other_loopback_endpoints_are_rejected(tmp_path: Path) -> None:
    async def main(client: Client) -> None:
        own = (await client.create(service("web")))["spec"]["clusterIP"]
        for address in ("127.0.0.1", own):
            endpoints = [{"addresses": [address]}]
            body = {"metadata": {"name": "x", "namespace": "default"}, "addressType": "IPv4", "endpoints": endpoints, "ports": []}
            with pytest.raises(Invalid, match="may not be in the loopback range"):
                await client.create({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", **body})

    running(main, tmp_path)


def test_services_move_to_the_new_network(tmp_path: Path) -> None:
    async def addresses(processes: Path | None) -> list[str]:
        async with Cluster(Store(Journal(tmp_path / "store.db")), processes=processes) as cluster:
            client = Client(cluster.transport())
            result = (await client.list_all(SERVICE, "default")).items
            if len(result) == 1:
                await client.create(service("web"))
                await client.create(service("solo", clusterIP="None"))
            result = (await client.list_all(SERVICE, "default")).items
            assert all(item["spec"]["clusterIPs"] == [item["spec"]["clusterIP"]] for item in result)
            return [item["spec"]["clusterIP"] for item in result]

    for folder, first in ((None, "10.96.0.1"), (tmp_path / "pods", r"127\.\d+\.128\.1"), (None, "10.96.0.1")):
        api, solo, web = clock.run(addresses(folder))
        assert re.fullmatch(first, api)
        assert (web.split(".")[0], solo) == (api.split(".")[0], "None")


@pytest.mark.skipif(_reserved(443), reason="ports below 1024 are for root")
def test_api_is_reachable_at_its_service(tmp_path: Path) -> None:
    async def main() -> None:
        async with Cluster(processes=tmp_path) as cluster:
            with socket.create_server(("127.0.0.1", 0)) as api:
                cluster.set_api_address(f"https://127.0.0.1:{api.getsockname()[1]}", b"")
                spec = (await Client(cluster.transport()).get(SERVICE, "kubernetes", "default"))["spec"]
                deadline = clock.loop_time() + 30
                while await asyncio.to_thread(_refuses, spec["clusterIP"], 443):
                    assert clock.loop_time() < deadline
                    await clock.sleep(0.02)

    clock.run(main())


def _refuses(address: str, port: int) -> bool:
    with socket.socket() as asking:
        return bool(asking.connect_ex((address, port)))
