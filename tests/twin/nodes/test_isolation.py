"""Containers of a twin with --isolate: what they see, and that none of their processes outlives them."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.process_pods import ended, pod, ready, running, state, until

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.kube.resources import POD
from sliceworks.twin.nodes.runtime.process import NamespaceSupport

if TYPE_CHECKING:
    from sliceworks.kube.client import Client


def _refusal() -> str:
    if sys.platform != "linux":
        return "not Linux"
    folder = Path(__file__).parent
    return clock.run(NamespaceSupport(folder, (folder,)).unavailable_reason())


needs_namespaces = pytest.mark.skipif(bool(refusal := _refusal()), reason=f"this machine refuses PID namespaces: {refusal}")


def is_running(argument: str) -> bool:
    """Whether a process on this machine has an argument."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if argument.encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                    return True
            except OSError:
                continue
    return False


@needs_namespaces
def test_container_sees_neither_the_token_nor_other_processes(tmp_path: Path) -> None:
    twins = tmp_path / "twins"
    (twins / "default").mkdir(parents=True)
    (twins / "default" / "token").write_text("secret-token")
    reads = f"cat {twins}/default/token /proc/{os.getpid()}/root{twins}/default/token"
    lists = f"grep CapEff /proc/self/status; ls {twins}/default; ls /proc | grep -c '^[0-9]'"
    script = f"{reads}; umount {twins}; {reads}; {lists}; cat /etc/settings/a; exit 3"

    async def main(client: Client) -> None:
        metadata = {"name": "settings", "namespace": "default"}
        await client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "visible\n"}})
        volumes = [{"name": "settings", "configMap": {"name": "settings"}}]
        mounts = [{"name": "settings", "mountPath": "/etc/settings"}]
        await client.create(pod("p", "sh", "-c", script, volumes=volumes, volumeMounts=mounts))
        assert state(await until(client, "p", ended))["terminated"]["exitCode"] == 3
        log = await client.logs("p", "default")
        assert "secret-token" not in log
        assert {"visible", "CapEff:\t0000000000000000"} <= set(log.splitlines())
        listed, count = [line for line in log.splitlines() if line == "pods" or line.isdigit()]
        assert (listed, int(count) < 8) == ("pods", True)

    running(main, twins / "default" / "pods", hidden=(twins,))


@needs_namespaces
def test_no_process_outlives_an_isolated_container(tmp_path: Path) -> None:
    """Neither a new session nor an empty environment saves a process from the end of its PID namespace."""
    mark = f"1000.{os.getpid()}"
    script = f"env -i setsid sleep {mark} & sleep 0.2; "

    async def main(client: Client) -> None:
        for name, end, code in (("exits", "exit 0", 0), ("fails", "kill -9 $$$$", 128 + signal.SIGKILL)):
            await client.create(pod(name, "sh", "-c", script + end))
            assert state(await until(client, name, ended))["terminated"]["exitCode"] == code
            assert not is_running(mark)
        await client.create(pod("stays", "sh", "-c", f"trap 'exit 7' TERM; {script} echo ready; while true; do sleep 0.05; done"))
        await until(client, "stays", ready)
        while "ready" not in await client.logs("stays", "default"):
            await clock.sleep(0.05)
        assert is_running(mark)
        await client.delete(POD, "stays", "default")
        while is_running(mark):
            await clock.sleep(0.05)

    running(main, tmp_path / "pods", hidden=(tmp_path / "twins",))
    assert not is_running(mark)


def test_isolation_that_the_machine_refuses_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(support: NamespaceSupport) -> str:
        return "unshare: Operation not permitted"

    async def main(client: Client) -> None:
        raise AssertionError("the twin must not start")

    monkeypatch.setattr(NamespaceSupport, "unavailable_reason", refuse)
    with pytest.raises(SliceworksError, match="cannot be isolated on this machine: unshare: Operation not permitted"):
        running(main, tmp_path / "pods", hidden=(tmp_path,))
