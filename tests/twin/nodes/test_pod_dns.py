"""DNS names of pods in hosts files."""

from __future__ import annotations

import sys
from ipaddress import IPv4Network
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.process_pods import ended, mounts_wanted, pod, running, until

from sliceworks.base import clock
from sliceworks.kube.resources import POD
from sliceworks.twin.nodes.runtime.container_runner import ContainerRunner
from sliceworks.twin.nodes.runtime.pod_dns import DnsName, HostsFiles, PodHostname, PodHosts

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.kube.client import Client

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pods have addresses of their own on Linux alone")
# No name stands in the program: texts that are handed to it have names replaced by addresses.
LISTENS = """
import os, socket
with socket.create_server((socket.gethostname(), 7001)) as server:
    server.settimeout(120)
    print(server.accept()[0].recv(99).decode())
"""
CALLS = """
import socket, time
own, sub = socket.gethostname(), "peers"
peer = ".".join([own.replace("-1", "-0"), sub])
for _ in range(2400):
    try:
        socket.create_connection((peer, 7001), 60).sendall(own.encode())
        break
    except OSError:
        time.sleep(0.05)
for name in (own, ".".join([peer, "default"]), ".".join([peer, "default", "svc", "cluster", "local"]), "db.example"):
    print(socket.gethostbyname(name))
"""


def _named(name: str, program: str, **spec: Any) -> dict[str, Any]:
    body = pod(name, sys.executable, "-c", program)
    body["spec"] |= {"hostname": name, "subdomain": "peers", **spec}
    return body


@mounts_wanted
def test_processes_resolve_each_other_by_name(tmp_path: Path) -> None:
    async def main(client: Client) -> None:
        aliases = [{"ip": "127.0.0.9", "hostnames": ["db.example"]}]
        await client.create(_named("w-1", CALLS, hostAliases=aliases))  # it runs before there is a peer to find
        await client.create(_named("w-0", LISTENS))
        first, second = [await until(client, name, ended) for name in ("w-0", "w-1")]
        assert (await client.logs("w-0", "default")).split() == ["w-1"]
        assert (await client.logs("w-1", "default")).split() == [second["podIP"], first["podIP"], first["podIP"], "127.0.0.9"]

    running(main, tmp_path)


@mounts_wanted
def test_pod_deleted_during_cleanup_loses_its_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def for_long(_: ContainerRunner) -> None:
        await clock.sleep(60)

    monkeypatch.setattr(ContainerRunner, "kill_and_wait", for_long)

    async def main(client: Client) -> None:
        created = await client.create(_named("w-0", "pass"))
        await until(client, "w-0", ended)
        folder = tmp_path / created["metadata"]["uid"]
        assert (folder / ".hosts").exists()
        await client.delete(POD, "w-0", "default", grace_period_seconds=0)
        for _ in range(1000):
            if not folder.exists():
                break
            await clock.sleep(0.02)
        monkeypatch.undo()
        await client.create(_named("w-1", "print('here')"))
        await until(client, "w-1", ended)
        assert (await client.logs("w-1", "default")).split() == ["here"]

    running(main, tmp_path)


def test_short_names_resolve_in_the_same_namespace(tmp_path: Path) -> None:
    files = HostsFiles()
    path = files.open("uid", PodHostname("a", "w-0", "js", "127.1.0.1"), tmp_path / "hosts", ())
    files.add("1", PodHostname("a", "w-1", "js", "127.1.0.2"))
    files.add("2", PodHostname("b", "w-2", "js", "127.1.0.3"))
    files.add("3", PodHostname("b", "alone", "", "127.1.0.4"))
    files.set_services([DnsName("a", "web", ("127.1.128.9",)), DnsName("b", "db", ("127.1.0.5", "127.1.0.6"))])
    files.refresh()
    lines = [line.split() for line in path.read_text().splitlines()]
    assert ["127.1.0.1", "w-0.js.a.svc.cluster.local", "w-0"] in lines
    assert ["127.1.0.2", "w-1.js.a.svc.cluster.local", "w-1.js.a.svc", "w-1.js.a", "w-1.js"] in lines
    assert ["127.1.0.3", "w-2.js.b.svc.cluster.local", "w-2.js.b.svc", "w-2.js.b"] in lines
    assert not [line for line in lines if "127.1.0.4" in line]
    assert ["127.1.128.9", "web.a.svc.cluster.local", "web.a.svc", "web.a", "web"] in lines
    assert [[f"127.1.0.{last}", "db.b.svc.cluster.local", "db.b.svc", "db.b"] in lines for last in (5, 6)] == [True, True]


def test_hosts_file_is_rewritten_in_place(tmp_path: Path) -> None:
    files, reported = HostsFiles(), list[str]()
    files.on_changed = lambda: reported.append("changed")
    path = files.open("uid", PodHostname("a", "w-0", "js", "127.1.0.1"), tmp_path / "hosts", ())
    first, place = path.read_text(), path.stat().st_ino
    assert first.startswith("# Kubernetes-managed hosts file.\n")
    files.add("1", PodHostname("a", "w-1", "js", "127.1.0.2"))
    files.set_services([DnsName("a", "web", ("127.1.128.9",))])
    files.refresh()
    assert ("w-1.js" in path.read_text(), "web.a" in path.read_text(), reported) == (True, True, ["changed"])
    files.close("1")
    files.set_services([])
    files.refresh()
    assert (path.read_text(), path.stat().st_ino, reported) == (first, place, ["changed"] * 2)
    files.close("uid")
    files.set_services([DnsName("a", "web", ("127.1.128.9",))])
    files.refresh()
    assert path.read_text() == first


def test_pods_with_the_same_host_name_have_their_own_addresses() -> None:
    def body(name: str, uid: str) -> dict[str, Any]:
        return {"metadata": {"name": name, "namespace": "ml", "uid": uid}, "spec": {"hostname": "worker", "subdomain": "web"}}

    hosts = PodHosts(IPv4Network("127.1.0.0/17"))
    first, second = hosts.register(body("a", "1")), hosts.register(body("b", "2"))
    assert first == hosts.address("ml", "worker", "web") != second
    assert hosts.hostname_of(body("b", "2")).address == second
    assert hosts.register(body("a", "3")) == first  # a pod that replaces another keeps its address
    hosts.release("1")
    assert hosts.register(body("c", "4")) not in (first, second)
    hosts.release("3")
    assert hosts.register(body("d", "5")) == first
