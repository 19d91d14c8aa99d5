"""Volumes at their mount paths, with and without mount namespaces."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.process_pods import ended, mounts_wanted, pod, running, state, until

from sliceworks.base import clock
from sliceworks.kube.resources import EVENT
from sliceworks.twin.nodes.runtime import sandbox_init
from sliceworks.twin.nodes.runtime.atomic_writer import VolumeFile, write_atomically
from sliceworks.twin.nodes.runtime.process import NamespaceSupport

if TYPE_CHECKING:
    from sliceworks.kube.client import Client

Object = dict[str, Any]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pods have addresses of their own on Linux alone")
SETTINGS: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"}}
VOLUMES: list[Object] = [
    {"name": "settings", "configMap": {"name": "settings", "defaultMode": 0o755}},
    {"name": "scratch", "emptyDir": {}},
]
MOUNTS: list[Object] = [
    {"name": "settings", "mountPath": "/etc/settings-of-a-test"},
    {"name": "scratch", "mountPath": "/scratch-of-a-test"},
    {"name": "scratch", "mountPath": "/tmp"},
    {"name": "settings", "mountPath": "/scratch-of-a-test/one/file", "subPath": "a"},
]
SCRIPT = """#!/bin/sh
cat /etc/settings-of-a-test/a /scratch-of-a-test/one/file
echo more > /etc/settings-of-a-test/a || echo kept
echo seen > /tmp/note; cat /scratch-of-a-test/note
echo home > "$HOME/file" && ls "$HOME"
yes | head -1
echo "$TMPDIR"
"""


@mounts_wanted
def test_volumes_are_at_their_mount_paths(tmp_path: Path) -> None:
    async def main(client: Client) -> None:
        await client.create({**SETTINGS, "data": {"a": "one\n", "run": SCRIPT}})
        line = "/etc/settings-of-a-test/run"
        probe = {"exec": {"command": ["cat", "/etc/settings-of-a-test/a"]}, "timeoutSeconds": 30}
        await client.create(pod("all", line, volumes=VOLUMES, volumeMounts=MOUNTS, startupProbe=probe))
        await client.create(pod("none", "/etc/settings-of-a-test/gone", volumes=VOLUMES, volumeMounts=MOUNTS))
        assert (await until(client, "all", ended))["phase"] == "Succeeded"
        output = (await client.logs("all", "default")).splitlines()
        assert [item for item in output if "ead-only" not in item] == ["one", "one", "kept", "seen", "file", "y", "/tmp"]
        end = state(await until(client, "none", ended))["terminated"]
        assert (end["exitCode"], end["reason"]) == (128, "StartError")
        assert end["message"] == "failed to start the process: No such file or directory"

    running(main, tmp_path)
    assert not Path("/etc/settings-of-a-test").exists()
    assert not Path("/scratch-of-a-test").exists()


@mounts_wanted
@pytest.mark.parametrize(("path", "expected"), [("/tmp/of-a-test/certificates", True), ("/tmp-of-a-test", False)])
def test_temporary_folder_holds_volumes_below_it(tmp_path: Path, path: str, expected: bool) -> None:
    async def main(client: Client) -> None:
        await client.create({**SETTINGS, "data": {"a": "one\n"}})
        script = f'ls {path}; [ "$TMPDIR" = /tmp ] && echo same; echo new > "$TMPDIR/of-this-pod"'
        mounts = [{"name": "settings", "mountPath": path}]
        await client.create(pod("below", "sh", "-c", script, volumes=VOLUMES, volumeMounts=mounts))
        assert (await until(client, "below", ended))["phase"] == "Succeeded"
        assert (await client.logs("below", "default")).split() == ["a", *(["same"] if expected else [])]

    running(main, tmp_path)
    assert not Path(path).exists()
    assert not Path("/tmp/of-this-pod").exists()


@mounts_wanted
def test_mounts_work_without_root() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        program = shutil.copy(sandbox_init.__file__, folder)
        python = Path("/usr/bin/python3")
        anybody = os.geteuid() == 0 and python.exists()
        (Path(folder) / "file").write_text("text")
        line = [str(python) if anybody else sys.executable, "-I", "-S", program, "2", folder]
        shown = ["host", "w-0", "-", "ro", folder, "/root-of-a-test/folder"]
        command = ["--", "sh", "-c", "cat /root-of-a-test/folder/file; uname -n"]
        user = 65534 if anybody else None
        done = subprocess.run([*line, *shown, *command], user=user, capture_output=True, text=True, timeout=90, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "textw-0\n", "")


def test_missing_namespaces_are_reported_and_paths_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refusal(_: NamespaceSupport) -> str:
        return "Operation not permitted"

    monkeypatch.setattr(NamespaceSupport, "unavailable_reason", refusal)

    async def main(client: Client) -> None:
        await client.create({**SETTINGS, "data": {"a": "one\n", "run": "cat /etc/settings-of-a-test/a; cd /tmp; pwd"}})
        await client.create(pod("p", "sh", "/etc/settings-of-a-test/run", volumes=VOLUMES, volumeMounts=MOUNTS))
        await until(client, "p", ended)
        one, folder = (await client.logs("p", "default")).split()
        assert one == "one"
        assert Path(folder).is_relative_to(tmp_path)
        while not (reported := [item for item in (await client.list(EVENT)).items if item["reason"] == "NoMountNamespace"]):
            await clock.sleep(0.02)
        assert "mount namespaces are not available on this machine (Operation not permitted)" in reported[0]["note"]

    running(main, tmp_path)


def test_files_are_replaced_atomically(tmp_path: Path) -> None:
    def write(mode: int, **files: bytes) -> None:
        write_atomically(tmp_path, {name: VolumeFile(data, mode) for name, data in files.items()})

    write(0o600, **{"a": b"1", "in/b": b"2", "../c": b"3"})
    before = (tmp_path / "a").stat()
    write(0o540, a=b"1", d=b"4")
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith("..")) == ["a", "d"]
    assert ((tmp_path / "a").stat().st_ino, (tmp_path / "a").stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert (tmp_path / "d").read_bytes() == b"4"
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a", "d")] == [0o540, 0o540]
    assert len([path for path in tmp_path.iterdir() if path.is_dir() and not path.is_symlink()]) == 1
