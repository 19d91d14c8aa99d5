"""Pods that listen on all addresses: each has its own, as with a network namespace."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.process_pods import ended, pod, ready, running, until

from sliceworks.twin.nodes.runtime import bpf
from sliceworks.twin.nodes.runtime.pod_cgroup import PodCgroups

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sliceworks.kube.client import Client
    from sliceworks.twin.nodes.runtime.pod_cgroup import PodCgroup

Object = dict[str, Any]
SERVER = """
import socket, sys
def report(server):
    with server.accept()[0] as one:
        one.sendall(f"{one.getpeername()[0].removeprefix('::ffff:')} reached {server.getsockname()[0]}".encode())
with socket.create_server(("", int(sys.argv[1])), **eval(sys.argv[2])) as server:
    open("ready", "w").close()
    while True:
        report(server)
"""
CLIENT = """
import socket, sys
for address in sys.argv[2:]:
    with socket.create_connection((address, int(sys.argv[1]))) as one:
        print(one.recv(100).decode())
"""
OWN = f"""
import socket, sys, threading
server = socket.create_server(("", int(sys.argv[1])))
threading.Thread(target=lambda: server.accept()[0].sendall(server.getsockname()[0].encode())).start()
{CLIENT}
"""
PROBE = {"exec": {"command": ["test", "-e", "ready"]}, "periodSeconds": 1, "timeoutSeconds": 30}
FAMILIES = {"four": "{}", "six": "{'family': socket.AF_INET6, 'dualstack_ipv6': True}"}


def _refusal() -> str:
    """Why this machine has no cgroups for pods."""
    if sys.platform != "linux":
        return "not Linux"
    cgroups = PodCgroups(os.getpid())
    cgroup = cgroups.create("probe", "127.0.0.1")
    cgroups.close()
    return "" if cgroup else "this machine lets no program load BPF programs for a cgroup"


pytestmark = pytest.mark.skipif(bool(_refusal()), reason=_refusal())


def _free() -> int:
    with socket.create_server(("", 0)) as held:
        return int(held.getsockname()[1])


def _client(name: str, port: int, *addresses: str) -> Object:
    return pod(name, sys.executable, "-c", CLIENT, str(port), *addresses)


@pytest.mark.parametrize("family", FAMILIES)
def test_pods_listen_on_the_same_port(tmp_path: Path, family: str) -> None:
    port = _free()

    async def main(client: Client) -> None:
        addresses = {}
        for name in ("one", "two"):
            words = (sys.executable, "-c", SERVER, str(port), FAMILIES[family])
            await client.create(pod(name, *words, readinessProbe=PROBE))
            addresses[name] = str((await until(client, name, ready))["podIP"])
        await client.create(_client("client", port, *addresses.values()))
        own = str((await until(client, "client", ended))["podIP"])
        lines = (await client.logs("client", "default")).splitlines()
        assert [line.replace("::ffff:", "") for line in lines] == [f"{own} reached {item}" for item in addresses.values()]

    running(main, tmp_path)


def test_localhost_is_the_pod_if_it_listens_there(tmp_path: Path) -> None:
    port = _free()

    async def main(client: Client) -> None:
        await client.create(pod("own", sys.executable, "-c", OWN, str(port), "127.0.0.1"))
        address = (await until(client, "own", ended))["podIP"]
        assert (await client.logs("own", "default")).splitlines() == [address]

    running(main, tmp_path)


def test_localhost_is_otherwise_the_machine(tmp_path: Path) -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"{writer.get_extra_info('peername')[0]} reached the machine".encode())
        writer.close()

    async def main(client: Client) -> None:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            await client.create(_client("other", server.sockets[0].getsockname()[1], "127.0.0.1"))
            await until(client, "other", ended)
        assert (await client.logs("other", "default")).splitlines() == ["127.0.0.1 reached the machine"]

    running(main, tmp_path)


@pytest.fixture
def cgroups() -> Iterator[PodCgroups]:
    created = PodCgroups(os.getpid())
    yield created
    created.close()


def test_cgroups_are_removed(cgroups: PodCgroups) -> None:
    cgroup = cgroups.create("pod", "127.0.0.1")
    assert cgroup is not None
    assert cgroup.processes.exists()
    cgroups.close()
    assert not cgroup.folder.parent.exists()


def _start_in(cgroup: PodCgroup | None) -> subprocess.Popen[bytes]:
    assert cgroup is not None
    process = subprocess.Popen(["sleep", "1000"])
    cgroup.processes.write_text(str(process.pid))
    return process


def test_cgroup_is_removed_once_its_processes_have_ended(cgroups: PodCgroups) -> None:
    cgroup = cgroups.create("pod", "127.0.0.1")
    process = _start_in(cgroup)
    assert cgroup is not None
    cgroup.remove()
    assert not cgroup.folder.exists()
    assert process.wait() == -signal.SIGKILL


def test_processes_of_a_twin_that_was_killed_end_with_the_next_one(cgroups: PodCgroups) -> None:
    process = _start_in(cgroups.create("pod", "127.0.0.1"))
    following = PodCgroups(os.getpid())
    assert process.wait() == -signal.SIGKILL
    following.close()


def test_failure_of_one_pod_spares_the_others(cgroups: PodCgroups, monkeypatch: pytest.MonkeyPatch) -> None:
    process = _start_in(cgroups.create("one", "127.0.0.1"))

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOMEM, "bpf: Cannot allocate memory")

    with monkeypatch.context() as patch:
        patch.setattr(bpf, "attach", refuse)
        assert cgroups.create("two", "127.0.0.1") is None
    assert process.poll() is None
    assert cgroups.create("three", "127.0.0.1") is not None
    cgroups.close()
    assert process.wait() == -signal.SIGKILL
