"""Symbolic links and files by which a container could reach files that a twin with --isolate hides."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.process_pods import ended, pod, ready, running, state, until

from sliceworks.base import clock
from sliceworks.kube.resources import POD
from sliceworks.twin.nodes.runtime import pod_volumes
from sliceworks.twin.nodes.runtime.process import NamespaceSupport

if TYPE_CHECKING:
    from sliceworks.kube.client import Client

_HERE = Path(__file__).parent
REFUSAL = clock.run(NamespaceSupport(_HERE, (_HERE,)).unavailable_reason())
pytestmark = pytest.mark.skipif(bool(REFUSAL), reason=f"this machine refuses PID namespaces: {REFUSAL}")
SECRET = "2026-01-01T00:00:00.0Z F secret-token"
"""Also a line of a log."""
VOLUME = {"name": "v", "emptyDir": {}}


def _hide_token(tmp_path: Path) -> Path:
    twins = tmp_path / "twins"
    (twins / "default").mkdir(parents=True)
    (twins / "default" / "token").write_text(f"{SECRET}\n")
    return twins


def _wait_for_waiting(status: dict[str, Any]) -> bool:
    return "CreateContainerConfigError" in str(status["containerStatuses"])


def test_twin_follows_no_links_of_containers(tmp_path: Path) -> None:
    """The twin reads the log and the termination message, empties the latter and writes hosts files and kubeconfigs."""
    twins = _hide_token(tmp_path)
    token = twins / "default" / "token"
    links = " ".join(("main/termination-log", "main/logs/0.log", "main/kubeconfig", ".hosts", "hosts"))
    script = f'cd "$HOME/../.."; for file in {links}; do rm -f $file; ln -s {token} $file; done; exit 1'

    async def main(client: Client) -> None:
        await client.create(pod("p", "sh", "-c", script, policy="OnFailure"))
        status = await until(client, "p", lambda status: bool(status["containerStatuses"][0]["restartCount"]))
        assert "secret-token" not in str(status)
        assert "secret-token" not in await client.logs("p", "default", previous=True)

    running(main, twins / "default" / "pods", hidden=(twins,))
    assert (token.read_text(), token.stat().st_mode & 0o777) == (f"{SECRET}\n", 0o644)


def test_files_of_python_and_of_the_kernel_are_read_only(tmp_path: Path) -> None:
    """A container that changes the twin's programs, or the kernel's settings as root, would run what it likes outside."""
    places = (Path(sys.prefix) / "of-a-test", Path(pod_volumes.__file__).parent / "of-a-test", Path("/etc/of-a-test"))
    settings = "/proc/sys/vm/swappiness"
    tries = "; ".join(f"touch {place} && echo written" for place in places)
    script = f"{tries}; (cat {settings} > {settings}) && echo set; echo home > $HOME/a && touch /tmp/a /dev/shm/a && echo scratch"

    async def main(client: Client) -> None:
        await client.create(pod("p", "sh", "-c", script, volumes=[VOLUME], volumeMounts=[{"name": "v", "mountPath": "/v"}]))
        assert (await until(client, "p", ended))["phase"] == "Succeeded"
        log = (await client.logs("p", "default")).splitlines()
        assert {"written", "set"}.isdisjoint(log)
        assert "scratch" in log

    running(main, tmp_path / "twins" / "pods", hidden=(tmp_path / "twins",))
    written = [place for place in places if place.exists()]
    for place in written:
        place.unlink()
    assert not written


@pytest.mark.skipif(shutil.which("unshare") is None, reason="this machine has no unshare")
@pytest.mark.parametrize("options", ["-Um", "-Urm"])
def test_mounts_stay_in_a_user_namespace_of_the_container(tmp_path: Path, options: str) -> None:
    """There a process has all capabilities; the kernel locks the mounts of the namespace above."""
    twins = _hide_token(tmp_path)
    tries = (
        f"umount {twins}",
        "umount /proc/sys",
        "mount -o remount,bind,rw /",
        f"mount --bind / /tmp && cat /tmp/{twins}/default/token",
        f"cat {twins}/default/token; touch /etc/of-a-test && echo written",
        "cat /proc/sys/vm/swappiness > /proc/sys/vm/swappiness && echo set",
    )

    async def main(client: Client) -> None:
        await client.create(pod("p", "sh", "-c", f"unshare {options} sh -c '{'; '.join(tries)}'; echo end"))
        await until(client, "p", ended)
        log = await client.logs("p", "default")
        assert log.splitlines()[-1] == "end"
        assert not any(word in log.splitlines() for word in ("written", "set"))
        assert "secret-token" not in log

    running(main, twins / "default" / "pods", hidden=(twins,))


def test_temporary_files_and_memory_of_others_are_hidden(tmp_path: Path) -> None:
    memory = {"name": "v", "emptyDir": {"medium": "Memory"}}
    mounts = [{"name": "v", "mountPath": "/v"}]

    async def main(client: Client) -> None:
        writes = "echo theirs > /v/a; echo theirs > /tmp/of-a-pod; sleep 60"
        await client.create(pod("other", "sh", "-c", writes, volumes=[memory], volumeMounts=mounts))
        await until(client, "other", ready)
        script = "echo own > /v/b; cat /v/*; cat /dev/shm/*/*/* /tmp/of-a-pod; ls /dev/shm /tmp"
        await client.create(pod("p", "sh", "-c", script, volumes=[memory], volumeMounts=mounts))
        await until(client, "p", ended)
        log = await client.logs("p", "default")
        assert "own" in log
        assert "theirs" not in log
        await client.delete(POD, "other", "default", grace_period_seconds=0)

    running(main, tmp_path / "twins" / "pods", hidden=(tmp_path / "twins",))


@pytest.mark.parametrize("sub_path", ["link", "link/new"])
def test_path_of_a_mount_does_not_leave_its_volume(tmp_path: Path, sub_path: str) -> None:
    twins = _hide_token(tmp_path)
    first = {"name": "first", "image": "a", "command": ["ln", "-s", str(twins / "default"), "/v/link"]}
    body = pod("p", "cat", "/of-a-test/token", volumes=[VOLUME])
    body["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/of-a-test", "subPath": sub_path}]
    body["spec"]["initContainers"] = [{**first, "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]

    async def main(client: Client) -> None:
        await client.create(body)
        waiting = state(await until(client, "p", _wait_for_waiting))["waiting"]
        assert waiting["message"] == 'failed to prepare subPath for volumeMount "v" of container "main"'

    running(main, twins / "default" / "pods", hidden=(twins,))
    assert [path.name for path in sorted((twins / "default").iterdir())] == ["pods", "token"]


def test_link_inside_a_volume_is_followed(tmp_path: Path) -> None:
    first = {"name": "first", "image": "a", "command": ["sh", "-c", "mkdir /v/a; echo seen > /v/a/b; ln -s a /v/link"]}
    body = pod("p", "cat", "/of-a-test/b", volumes=[VOLUME])
    body["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/of-a-test", "subPath": "link"}]
    body["spec"]["initContainers"] = [{**first, "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]

    async def main(client: Client) -> None:
        await client.create(body)
        await until(client, "p", ended)
        assert await client.logs("p", "default", container="main") == "seen\n"

    running(main, tmp_path / "twins" / "pods", hidden=(tmp_path / "twins",))


def test_path_of_a_node_does_not_leave_the_folder_of_the_node(tmp_path: Path) -> None:
    twins = _hide_token(tmp_path)
    above, below = ({"name": "v", "hostPath": {"path": path}} for path in ("/data", "/data/link"))
    mounts = [{"name": "v", "mountPath": "/v"}]

    async def main(client: Client) -> None:
        script = f"ln -s {twins}/default /v/link; ln -s . /v/same"
        await client.create(pod("first", "sh", "-c", script, volumes=[above], volumeMounts=mounts))
        assert (await until(client, "first", ended))["phase"] == "Succeeded"
        await client.create(pod("p", "cat", "/v/token", volumes=[below], volumeMounts=mounts))
        waiting = state(await until(client, "p", _wait_for_waiting))["waiting"]
        assert waiting["message"] == "path data/link leads out of its volume"

    running(main, twins / "default" / "pods", hidden=(twins,))


def test_container_with_the_name_of_a_folder_of_its_pod_has_its_own(tmp_path: Path) -> None:
    """A volume `logs` of a pod with a container `volumes` would be the folder of its logs."""
    twins = _hide_token(tmp_path)
    volume = {"name": "logs", "emptyDir": {}}
    body = pod("p", "sh", "-c", f"echo log; ls /v; ln -s {twins}/default/token /v/0.log", volumes=[volume])
    body["spec"]["containers"][0] |= {"name": "volumes", "volumeMounts": [{"name": "logs", "mountPath": "/v"}]}

    async def main(client: Client) -> None:
        await client.create(body)
        await until(client, "p", ended)
        assert await client.logs("p", "default") == "log\n"

    running(main, twins / "default" / "pods", hidden=(twins,))


def test_folder_that_was_replaced_by_a_link_is_not_mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the check of a path and its mount, another container can replace a folder."""
    twins, resolve = _hide_token(tmp_path), pod_volumes.resolve_beneath

    def replace(root: Path, relative: str) -> Path:
        path = resolve(root, relative)
        if relative == "folder":
            path.rmdir()
            path.symlink_to(twins / "default")
        return path

    monkeypatch.setattr(pod_volumes, "resolve_beneath", replace)
    first = {"name": "first", "image": "a", "command": ["mkdir", "/v/folder"]}
    body = pod("p", "cat", "/of-a-test/token", volumes=[VOLUME])
    body["spec"]["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/of-a-test", "subPath": "folder"}]
    body["spec"]["initContainers"] = [{**first, "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]

    async def main(client: Client) -> None:
        await client.create(body)
        end = state(await until(client, "p", ended))["terminated"]
        assert "Too many levels of symbolic links" in end["message"]

    running(main, twins / "default" / "pods", hidden=(twins,))


def test_folder_is_not_created_through_a_file_or_a_link(tmp_path: Path) -> None:
    (tmp_path / "volume").mkdir()
    (tmp_path / "volume" / "file").touch()
    (tmp_path / "volume" / "link").symlink_to(tmp_path)
    for path in ("file/new", "link/new"):
        with pytest.raises(pod_volumes.InvalidVolume, match="cannot create folder new: Not a directory"):
            pod_volumes._create_beneath(tmp_path / "volume", tmp_path / "volume" / path)
    assert not (tmp_path / "new").exists()
