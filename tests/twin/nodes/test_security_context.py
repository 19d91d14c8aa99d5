"""Security contexts and lifecycle hooks of containers that run as processes."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.process_pods import ended, mounts_wanted, pod, running, state, until

from sliceworks.base import clock
from sliceworks.kube.resources import CORE_EVENT, POD
from sliceworks.twin.nodes.runtime import process
from sliceworks.twin.nodes.runtime.pod_volumes import memory_folder
from sliceworks.twin.nodes.runtime.security_context import read_security_context

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.kube.client import Client

Object = dict[str, Any]
root_wanted = pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root can become another user")
NET_ADMIN, SYS_ADMIN, KILL = 12, 21, 5


@pytest.mark.parametrize(
    ("spec", "own", "expected"),
    [
        ({}, {}, (0, 0, ())),
        ({"runAsUser": 1, "runAsGroup": 2, "fsGroup": 3, "supplementalGroups": [4]}, {}, (1, 2, (4, 3))),
        ({"runAsUser": 1, "runAsGroup": 2}, {"runAsUser": 5}, (5, 2, ())),
        ({"runAsUser": 1}, {"runAsUser": 0}, (0, 0, ())),
    ],
)
def test_fields_of_the_container_win(spec: Object, own: Object, expected: tuple[Any, ...]) -> None:
    assert read_security_context({"securityContext": spec}, {"securityContext": own})[:3] == expected


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({}, {KILL}),
        ({"privileged": True}, {KILL, NET_ADMIN, SYS_ADMIN}),
        ({"capabilities": {"add": ["NET_ADMIN"]}}, {KILL, NET_ADMIN}),
        ({"capabilities": {"drop": ["ALL"], "add": ["CAP_SYS_ADMIN"]}}, {SYS_ADMIN}),
        ({"capabilities": {"drop": ["KILL"], "add": ["UNKNOWN"]}}, set()),
    ],
)
def test_capabilities_are_those_of_containerd_with_changes(own: Object, expected: set[int]) -> None:
    capabilities = read_security_context({}, {"securityContext": own}).capabilities
    assert {number for number in (KILL, NET_ADMIN, SYS_ADMIN) if capabilities >> number & 1} == expected


@root_wanted
@mounts_wanted
def test_processes_run_as_the_user_without_other_capabilities(tmp_path: Path) -> None:
    script = "id -u; id -g; id -G; grep -E 'CapBnd|CapEff|NoNewPrivs' /proc/self/status; touch file && echo written"

    async def main(client: Client) -> None:
        own = {"runAsUser": 1234, "runAsGroup": 5678, "allowPrivilegeEscalation": False}
        user = pod("user", "sh", "-c", script, securityContext=own)
        user["spec"]["securityContext"] = {"fsGroup": 77}
        await client.create(user)
        await client.create(pod("root", "sh", "-c", script))
        logs = {}
        for name in ("user", "root"):
            await until(client, name, ended)
            logs[name] = (await client.logs(name, "default")).split()
        assert logs["user"][:5] == ["1234", "5678", "5678", "77", "CapEff:"]
        assert logs["user"][5:] == ["0000000000000000", "CapBnd:", "00000000a80425fb", "NoNewPrivs:", "1", "written"]
        bounded = ["CapEff:", "00000000a80425fb", "CapBnd:", "00000000a80425fb", "NoNewPrivs:", "0", "written"]
        assert logs["root"] == ["0", "0", "0", *bounded]

    running(main, tmp_path)


@root_wanted
@mounts_wanted
def test_user_can_use_its_working_directory(tmp_path: Path) -> None:
    async def main(client: Client) -> None:
        own = {"runAsUser": 1234}
        script = "ls . && touch file && echo written"
        await client.create(pod("user", "sh", "-c", script, securityContext=own, workingDir="/of-a-test/work"))
        await until(client, "user", ended)
        assert await client.logs("user", "default") == "written\n"

    running(main, tmp_path)


def test_working_directory_that_is_a_file_is_an_error(tmp_path: Path) -> None:
    async def main(client: Client) -> None:
        volumes: list[Object] = [{"name": "scratch", "emptyDir": {}}]
        mounts = [{"name": "scratch", "mountPath": "/scratch"}]
        body = pod("p", "true", workingDir="/scratch/file/below", volumes=volumes, volumeMounts=mounts)
        init = {"name": "init", "image": "a", "command": ["touch", "/scratch/file"], "volumeMounts": mounts}
        body["spec"]["initContainers"] = [init]
        await client.create(body)
        status = await until(client, "p", lambda status: "message" in state(status).get("waiting", {}))
        assert state(status)["waiting"]["reason"] == "CreateContainerError"
        assert "Not a directory" in state(status)["waiting"]["message"]

    running(main, tmp_path)


@mounts_wanted
def test_root_file_system_can_be_read_only(tmp_path: Path) -> None:
    script = "touch /a-file-of-a-test 2>&1; touch /scratch-of-a-test/file && ls /scratch-of-a-test"

    async def main(client: Client) -> None:
        mounts = [{"name": "scratch", "mountPath": "/scratch-of-a-test"}]
        volumes: list[Object] = [{"name": "scratch", "emptyDir": {}}]
        own = {"readOnlyRootFilesystem": True}
        await client.create(pod("p", "sh", "-c", script, securityContext=own, volumes=volumes, volumeMounts=mounts))
        await until(client, "p", ended)
        refused, listed = (await client.logs("p", "default")).splitlines()
        assert refused.endswith("Read-only file system")
        assert listed == "file"

    running(main, tmp_path)


def test_root_is_refused_if_requested(tmp_path: Path) -> None:
    async def main(client: Client) -> None:
        await client.create(pod("p", "true", securityContext={"runAsNonRoot": True}))
        waiting = state(await until(client, "p", lambda status: "message" in (state(status).get("waiting") or {})))["waiting"]
        assert waiting["reason"] == "CreateContainerConfigError"
        uid = (await client.get(POD, "p", "default"))["metadata"]["uid"]
        where = f'pod: "p_default({uid})", container: main'
        assert waiting["message"] == f"container has runAsNonRoot and image will run as root ({where})"

    running(main, tmp_path)


@mounts_wanted
def test_volumes_have_the_modes_of_the_kubelet(tmp_path: Path) -> None:
    settings = {
        "name": "settings",
        "defaultMode": 0o440,
        "items": [{"key": "a", "path": "a"}, {"key": "b", "path": "in/b", "mode": 0o400}],
    }
    volumes: list[Object] = [
        {"name": "settings", "configMap": settings},
        {"name": "default", "configMap": {"name": "settings"}},
        {"name": "scratch", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory"}},
    ]
    mounts = [{"name": volume["name"], "mountPath": f"/of-a-test/{volume['name']}"} for volume in volumes]
    script = (
        "cd /of-a-test; stat -L -c %a settings/a settings/in/b default/a scratch memory; stat -f -c %T memory; echo > memory/file"
    )

    async def main(client: Client) -> None:
        content = {"metadata": {"name": "settings", "namespace": "default"}, "data": {"a": "1", "b": "2"}}
        await client.create({"apiVersion": "v1", "kind": "ConfigMap", **content})
        created = await client.create(pod("p", "sh", "-c", script, volumes=volumes, volumeMounts=mounts))
        assert (await until(client, "p", ended))["phase"] == "Succeeded"
        assert (await client.logs("p", "default")).split() == ["440", "400", "644", "777", "777", "tmpfs"]
        folder = memory_folder(created["metadata"]["uid"])
        assert (folder / "memory" / "file").exists()
        await client.delete(POD, "p", "default", grace_period_seconds=0)
        while folder.exists():
            await clock.sleep(0.02)

    running(main, tmp_path)


@mounts_wanted
@pytest.mark.parametrize(
    ("template", "outcome"),
    [
        ("$(NAME)", "p"),
        ("$(ABSOLUTE)", "error SubPath `/p` must not be an absolute path"),
        ("$(BACK)/x", "unable to provision SubPath `a/../x`: must not contain '..'"),
        ("$(OTHER)", 'missing value for "OTHER"'),
    ],
)
def test_variables_are_expanded_in_paths_of_volumes(tmp_path: Path, template: str, outcome: str) -> None:
    mounts = [
        {"name": "scratch", "mountPath": "/all-of-a-test"},
        {"name": "scratch", "mountPath": "/one-of-a-test", "subPathExpr": template},
    ]
    env: list[Object] = [{"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    env += [{"name": "ABSOLUTE", "value": "/$(NAME)"}, {"name": "BACK", "value": "a/.."}]

    async def main(client: Client) -> None:
        volumes = [{"name": "scratch", "emptyDir": {}}]
        script = "touch /one-of-a-test/file; ls /all-of-a-test"
        await client.create(pod("p", "sh", "-c", script, volumes=volumes, volumeMounts=mounts, env=env))
        status = await until(client, "p", lambda status: ended(status) or "message" in (state(status).get("waiting") or {}))
        if "waiting" in state(status):
            assert state(status)["waiting"] == {"reason": "CreateContainerConfigError", "message": outcome}
        else:
            assert (await client.logs("p", "default")).split() == [outcome]

    running(main, tmp_path)


def test_hooks_run_after_the_start_and_before_the_end(tmp_path: Path) -> None:
    def write(word: str) -> Object:
        return {"exec": {"command": ["sh", "-c", f"echo {word} >> hooks"]}}

    script = "trap 'cat hooks; exit 0' TERM; while :; do sleep 0.05; done"

    async def main(client: Client) -> None:
        hooks = {"postStart": write("started"), "preStop": write("stopping")}
        limited = pod("p", "sh", "-c", script, lifecycle=hooks)
        limited["spec"]["activeDeadlineSeconds"] = 2
        await client.create(limited)
        await until(client, "p", ended)
        assert (await client.logs("p", "default")).split()[-2:] == ["started", "stopping"]

    running(main, tmp_path)


def test_container_is_killed_if_its_hook_fails(tmp_path: Path) -> None:
    async def main(client: Client) -> None:
        await client.create(pod("p", "sleep", "600", lifecycle={"postStart": {"exec": {"command": ["false"]}}}))
        assert state(await until(client, "p", ended))["terminated"]["exitCode"] == 137
        while not [
            item for item in (await client.list_all(CORE_EVENT, "default")).items if item["reason"] == "FailedPostStartHook"
        ]:
            await clock.sleep(0.02)

    running(main, tmp_path)


@root_wanted
@mounts_wanted
def test_programs_in_a_private_home_can_be_run_by_other_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, programs = tmp_path / "home", tmp_path / "home" / "python" / "bin"
    programs.mkdir(parents=True)
    home.chmod(0o700)
    (home / "secret").write_text("hidden")
    script = f"id -u\ncat {home}/secret 2>/dev/null || echo no secret\ntouch $HOME/file && echo home\n"
    (programs / "run").write_text(f"#!/bin/sh\n{script}")
    (programs / "run").chmod(0o755)
    monkeypatch.setattr(process, "_KEPT_FOLDERS", [home / "python"])

    async def main(client: Client) -> None:
        await client.create(pod("user", str(programs / "run"), securityContext={"runAsUser": 1234}))
        await until(client, "user", ended)
        assert (await client.logs("user", "default")).splitlines() == ["1234", "no secret", "home"]

    running(main, tmp_path / "twin")
