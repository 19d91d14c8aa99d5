"""Pods that run as processes of this machine, in real time."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.process_pods import REFUSAL, ended, pod, ready, running, state, until

from sliceworks.base import clock
from sliceworks.base.errors import BadRequest, NotFound, Unreachable
from sliceworks.kube.client import Client
from sliceworks.kube.resources import CONFIG_MAP, EVENT, POD, Key
from sliceworks.twin.cluster import Cluster
from sliceworks.twin.nodes.node_shape import NodeShape, create_nodes
from sliceworks.twin.nodes.runtime import container_runner as containers
from sliceworks.twin.nodes.runtime import pod_worker as pods
from sliceworks.twin.nodes.runtime.process import NamespaceSupport
from sliceworks.twin.store.store import Store

Object = dict[str, Any]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pods have addresses of their own on Linux alone")


def test_command_gets_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_THE_TWIN", "x")

    async def main(client: Client) -> None:
        metadata = {"name": "settings", "namespace": "default"}
        await client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "one", "b": "two"}})
        await client.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"key": "hidden"}})
        env = [
            {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}},
            {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "settings", "key": "key"}}},
            {"name": "ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "BOTH", "value": "$(A)+$(KEY)"},
            {"name": "MAYBE", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "a", "optional": True}}},
        ]
        line = 'echo "$(BOTH) at $ADDRESS"; cat /etc/settings/b; echo; env; pwd'
        volumes = [{"name": "settings", "configMap": {"name": "settings"}}, {"name": "scratch", "emptyDir": {}}]
        mounts = [{"name": "settings", "mountPath": "/etc/settings"}, {"name": "scratch", "mountPath": "/scratch"}]
        await client.create(pod("p", "sh", "-c", line, env=env, volumes=volumes, volumeMounts=mounts, workingDir="/scratch"))
        status = await until(client, "p", ended)
        assert status["phase"] == "Succeeded"
        words = (await client.logs("p", "default")).splitlines()
        assert words[:2] == [f"one+hidden at {status['podIP']}", "two"]
        assert status["podIP"].startswith("127.")
        assert not [word for word in words if word.startswith(("SECRET_OF_THE_TWIN", "MAYBE"))]
        assert (words[-1] == "/scratch") is not bool(REFUSAL)
        assert words[-1] == "/scratch" or Path(words[-1]).is_relative_to(tmp_path)

    running(main, tmp_path)


def test_exit_codes_set_the_phase(tmp_path: Path) -> None:
    async def main(client: Client) -> None:
        await client.create(pod("fails", "sh", "-c", "exit 3"))
        await client.create(pod("dies", "sh", "-c", "kill -9 $$$$"))
        await client.create(pod("lacks", "there-is-no-such-program"))
        result = {name: state(await until(client, name, ended))["terminated"] for name in ("fails", "dies", "lacks")}
        assert {name: (end["exitCode"], end["reason"]) for name, end in result.items()} == {
            "fails": (3, "Error"),
            "dies": (137, "Error"),
            "lacks": (128, "StartError"),
        }

    running(main, tmp_path)


def test_termination_message_falls_back_to_logs(tmp_path: Path) -> None:
    async def main(client: Client) -> None:
        speaks = ("sh", "-c", "seq 3000; echo no such flag; exit $0")
        policy: dict[str, Any] = {"terminationMessagePolicy": "FallbackToLogsOnError"}
        await client.create(pod("tells", *speaks, "2", **policy))
        await client.create(pod("well", *speaks, "0", **policy))
        await client.create(pod("quiet", *speaks, "2"))
        result = {name: state(await until(client, name, ended))["terminated"] for name in ("tells", "well", "quiet")}
        reported = result["tells"]["message"]
        assert reported.endswith("3000\nno such flag\n")
        assert len(reported.splitlines()) == 80
        assert "message" not in {**result["well"], **result["quiet"]}

    running(main, tmp_path)


def test_restart_keeps_the_previous_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "crash_loop_backoff", lambda count: 0.2)

    async def main(client: Client) -> None:
        line = "echo run; test -e /scratch/done && sleep 60; touch /scratch/done; exit 1"
        scratch = [{"name": "scratch", "emptyDir": {}}]
        mounts = [{"name": "scratch", "mountPath": "/scratch"}]
        await client.create(pod("p", "sh", "-c", line, policy="OnFailure", volumes=scratch, volumeMounts=mounts))
        status = await until(client, "p", lambda obj: obj["containerStatuses"][0]["restartCount"] == 1 and ready(obj))
        assert status["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 1
        assert await client.logs("p", "default", previous=True) == "run\n"

    running(main, tmp_path)


def test_status_is_written_again_when_its_response_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patch, lost = Client.patch, list[Any]()

    async def lose(self: Client, resource: Any, name: str, change: Any, *arguments: Any, **options: Any) -> Object:
        result = await patch(self, resource, name, change, *arguments, **options)
        if resource == POD and options.get("subresource") == "status" and len(lost) < 3:
            lost.append(change)
            raise Unreachable("connection closed")
        return result

    monkeypatch.setattr(Client, "patch", lose)

    async def main(client: Client) -> None:
        await client.create(pod("p", "sh", "-c", "exit 3"))
        assert state(await until(client, "p", ended))["terminated"]["exitCode"] == 3
        assert len(lost) == 3

    running(main, tmp_path)


def test_logs_are_served(tmp_path: Path) -> None:
    async def main(client: Client) -> None:
        await client.create(pod("p", "sh", "-c", "echo one; sleep 0.3; echo two; sleep 0.3; printf three"))
        await until(client, "p", ready)
        with pytest.raises(BadRequest, match="previous terminated container"):
            await client.logs("p", "default", previous=True)
        pieces = [piece async for piece in client.follow_logs("p", "default")]
        assert b"".join(pieces) == b"one\ntwo\nthree"
        assert len(pieces) > 1
        await until(client, "p", ended)
        assert await client.logs("p", "default", tail_lines=1) == "three"
        assert (await client.logs("p", "default", timestamps=True)).splitlines()[0].endswith("Z one")

    running(main, tmp_path)


def test_termination_is_graceful_and_bounded(tmp_path: Path) -> None:
    async def main(client: Client) -> None:
        polite = "trap 'echo bye > /scratch/bye; exit 0' TERM; echo up; while true; do sleep 0.05; done"
        scratch, mounts = [{"name": "scratch", "emptyDir": {}}], [{"name": "scratch", "mountPath": "/scratch"}]
        await client.create(pod("polite", "sh", "-c", polite, grace=60, volumes=scratch, volumeMounts=mounts))
        await client.create(pod("stubborn", "sh", "-c", "trap '' TERM; echo up; while true; do sleep 0.05; done", grace=1))
        for name in ("polite", "stubborn"):
            await until(client, name, ready)
            while "up" not in await client.logs(name, "default"):
                await clock.sleep(0.02)
        started = clock.loop_time()
        await client.delete(POD, "polite")
        await gone(client, "polite")
        assert clock.loop_time() - started < 60  # it went by itself
        started = clock.loop_time()
        await client.delete(POD, "stubborn")
        await gone(client, "stubborn")
        assert clock.loop_time() - started > 0.9

    running(main, tmp_path)


async def gone(client: Client, name: str) -> None:
    for _ in range(1000):
        try:
            await client.get(POD, name)
        except NotFound:
            return
        await clock.sleep(0.02)
    raise AssertionError(name)


def test_probes_set_readiness_and_restart(tmp_path: Path) -> None:
    async def main(client: Client) -> None:
        server = ("python", "-m", "http.server", "--bind", "$(ADDRESS)", "18080")
        address = [{"name": "ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
        probe = {"httpGet": {"path": "/", "port": "web"}, "periodSeconds": 1, "timeoutSeconds": 30}
        ports = [{"name": "web", "containerPort": 18080}]
        await client.create(pod("web", *server, env=address, ports=ports, readinessProbe=probe))
        status = await until(client, "web", lambda obj: "running" in state(obj))
        assert not ready(status)
        status = await until(client, "web", ready)
        assert [condition["status"] for condition in status["conditions"] if condition["type"] == "Ready"] == ["True"]
        sick = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1}
        await client.create(pod("sick", "sleep", "60", livenessProbe=sick))
        end = state(await until(client, "sick", ended))["terminated"]
        assert end["exitCode"] == 143

    running(main, tmp_path)


def test_container_waits_for_its_config_map(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "_SOURCE_RETRY", 0.1)

    async def main(client: Client) -> None:
        env = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "late", "key": "a"}}}]
        await client.create(pod("p", "sh", "-c", "echo $A", env=env))
        status = await until(client, "p", lambda obj: "waiting" in state(obj))
        assert state(status)["waiting"] == {"reason": "CreateContainerConfigError", "message": 'configmap "late" not found'}
        with pytest.raises(BadRequest, match="is waiting to start: CreateContainerConfigError"):
            await client.logs("p", "default")
        metadata = {"name": "late", "namespace": "default"}
        await client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "here"}})
        await until(client, "p", ended)
        assert await client.logs("p", "default") == "here\n"

    running(main, tmp_path)


def test_pod_waits_for_its_volumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "_SOURCE_RETRY", 0.1)

    async def main(client: Client) -> None:
        mounts = [{"name": "keys", "mountPath": "/keys"}]
        volumes = [{"name": "keys", "secret": {"secretName": "late"}}]
        await client.create(pod("p", "cat", "/keys/a", volumes=volumes, volumeMounts=mounts))
        while not (reported := [item for item in (await client.list(EVENT)).items if item["reason"] == "FailedMount"]):
            await clock.sleep(0.02)
        assert reported[0]["note"] == 'MountVolume.SetUp failed for volume "keys" : secret "late" not found'
        assert state((await client.get(POD, "p"))["status"])["waiting"] == {"reason": "ContainerCreating"}
        metadata = {"name": "late", "namespace": "default"}
        await client.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"a": "here"}})
        await until(client, "p", ended)
        assert await client.logs("p", "default") == "here"

    running(main, tmp_path)


def test_init_containers_run_first(tmp_path: Path) -> None:
    async def main(client: Client) -> None:
        body = pod("p", "sh", "-c", "cat /scratch/word")
        mounts = [{"name": "scratch", "mountPath": "/scratch"}]
        body["spec"]["volumes"] = [{"name": "scratch", "emptyDir": {}}]
        body["spec"]["containers"][0]["volumeMounts"] = mounts
        first = {"name": "first", "image": "example.com/app:1", "command": ["sh", "-c", "echo ready > /scratch/word"]}
        body["spec"]["initContainers"] = [{**first, "volumeMounts": mounts}]
        await client.create(body)
        status = await until(client, "p", ended)
        assert status["phase"] == "Succeeded"
        assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
        assert await client.logs("p", "default", container="main") == "ready\n"

    running(main, tmp_path)


def test_processes_are_killed_with_the_twin(tmp_path: Path) -> None:
    numbers: list[int] = []

    async def main(client: Client) -> None:
        await client.create(pod("p", "sh", "-c", "sleep 300 & echo $! $$$$; wait"))
        await until(client, "p", ready)
        while not (words := (await client.logs("p", "default")).split()):
            await clock.sleep(0.02)
        numbers.extend(int(word) for word in words)

    running(main, tmp_path)
    assert len(numbers) == 2
    assert clock.wait_until(lambda: not any(Path(f"/proc/{number}").exists() for number in numbers), 90)
    assert not any(Path(os.fspath(path)).exists() for path in tmp_path.glob("*/*/process"))


def test_pods_without_a_command_are_simulated(tmp_path: Path) -> None:
    async def main(client: Client) -> None:
        body = pod("p")
        del body["spec"]["containers"][0]["command"]
        body["metadata"]["annotations"] = {"sliceworks.dev/run-seconds": "0"}
        await client.create(body)
        assert (await until(client, "p", ended))["podIP"].startswith("10.")

    running(main, tmp_path)


def test_wildcard_address_is_the_pod_address(tmp_path: Path) -> None:
    async def main(client: Client) -> None:
        await client.create(pod("a", "echo", "--host=0.0.0.0:80 10.0.0.0.0 v0.0.0.0.1"))
        await until(client, "a", ended)
        address = (await client.get(POD, "a"))["status"]["podIP"]
        assert await client.logs("a", "default") == f"--host={address}:80 10.0.0.0.0 v0.0.0.0.1\n"

    running(main, tmp_path)


def test_process_reaches_the_api_as_its_service_account(tmp_path: Path) -> None:
    async def whole() -> None:
        async with Cluster(ca="the authority", processes=tmp_path) as cluster:
            client = Client(cluster.transport())
            await create_nodes(client, NodeShape(pool="pool"), 1)
            await client.create(pod("before", "sh", "-c", "echo ${KUBECONFIG:-nothing}"))
            await until(client, "before", ended)
            assert await client.logs("before", "default") == "nothing\n"
            cluster.set_api_address("https://127.0.0.1:4443", b"the authority")
            result = "cd /var/run/secrets/kubernetes.io/serviceaccount && cat ca.crt namespace && grep -c . token"
            line = f"cat $KUBECONFIG; echo https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT; {result}"
            await client.create(pod("after", "sh", "-c", line))
            await until(client, "after", ended)
            reported = await client.logs("after", "default")
            assert 'server: "https://127.0.0.1:4443"' in reported
            assert '"default"' in reported
            if not REFUSAL:
                assert reported.splitlines()[-2:] == ["https://127.0.0.1:4443", "the authoritydefault1"]
            without = pod("without", "sh", "-c", "echo ${KUBECONFIG:-nothing}")
            without["spec"]["automountServiceAccountToken"] = False
            await client.create(without)
            await until(client, "without", ended)
            assert await client.logs("without", "default") == "nothing\n"

    clock.run(whole())


def test_config_map_update_changes_only_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pods, "_VOLUME_REFRESH", 0.05)

    async def main(client: Client) -> None:
        settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"}}
        await client.create({**settings, "data": {"a": "one", "b": "same"}})
        script = "stat -c %Y%i /etc/x/b; until grep -q two /etc/x/a; do sleep 0.05; done; stat -c %Y%i /etc/x/b"
        volume = [{"name": "x", "configMap": {"name": "settings"}}]
        mounts = [{"name": "x", "mountPath": "/etc/x"}]
        await client.create(pod("a", "sh", "-c", script, volumes=volume, volumeMounts=mounts))
        await until(client, "a", lambda status: "running" in state(status))
        await client.patch(CONFIG_MAP, "settings", {"data": {"a": "two"}})
        await until(client, "a", ended)
        before, after = (await client.logs("a", "default")).split()
        assert before == after

    running(main, tmp_path)


async def _gone(client: Client, name: str) -> bool:
    """Whether a pod is deleted."""
    deadline = clock.loop_time() + 20
    while await client.find(POD, name, "default") is not None:
        if clock.loop_time() > deadline:
            return False
        await clock.sleep(0.05)
    return True


def test_pod_deleted_while_completing_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(client: Client) -> None:
        _deleted_as_it_ends(client, monkeypatch)
        await client.create(pod("p", "true"))
        assert await _gone(client, "p")

    running(main, tmp_path)


def test_terminating_pod_is_removed_after_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: object) -> None:
        pass

    async def whole() -> None:
        store = Store()
        with monkeypatch.context() as patch:
            patch.setattr(pods, "finish_deletion", nothing)
            async with Cluster(store, ca="the authority", processes=tmp_path) as cluster:
                client = Client(cluster.transport())
                await create_nodes(client, NodeShape(pool="pool"), 1)
                _deleted_as_it_ends(client, patch)
                await client.create(pod("p", "true"))
                await until(client, "p", ended)
        async with Cluster(store, ca="the authority", processes=tmp_path) as cluster:
            assert await _gone(Client(cluster.transport()), "p")

    clock.run(whole())


def test_files_of_pods_are_deleted_after_restart(tmp_path: Path) -> None:
    """Those of a finished pod with the pod, and those of a pod that was deleted before the twin was killed at once."""

    async def whole() -> None:
        store = Store()
        async with Cluster(store, ca="the authority", processes=tmp_path) as cluster:
            client = Client(cluster.transport())
            await create_nodes(client, NodeShape(pool="pool"), 1)
            await client.create(pod("p", "echo", "done"))
            await until(client, "p", ended)
            kept = tmp_path / (await client.get(POD, "p"))["metadata"]["uid"]
        leftover = tmp_path / str(uuid.uuid4()) / "main"
        leftover.mkdir(parents=True)
        async with Cluster(store, ca="the authority", processes=tmp_path) as cluster:
            client = Client(cluster.transport())
            assert await client.logs("p", "default") == "done\n"
            await client.delete(POD, "p")
            while kept.exists() or leftover.parent.exists():
                await clock.sleep(0.02)

    clock.run(asyncio.wait_for(whole(), 60))


def _deleted_as_it_ends(client: Client, patch: pytest.MonkeyPatch) -> None:
    finish = containers.ContainerRunner._finish

    async def crossed(run: containers.ContainerRunner, *how: Any, **more: Any) -> None:
        await client.delete(POD, "p", "default")
        await finish(run, *how, **more)

    patch.setattr(containers.ContainerRunner, "_finish", crossed)


@pytest.mark.parametrize("speed", [1.0, 60.0])
def test_container_ends_despite_leftover_children(tmp_path: Path, speed: float) -> None:
    async def main(client: Client) -> None:
        left = "import os, time; os.setsid(); print(os.getpid(), flush=True); time.sleep(60)"
        line = f"{sys.executable} -c '{left}' & sleep 1; echo done"
        await client.create(pod("p", "sh", "-c", line))
        await until(client, "p", ended, 20 * speed)
        number, last = (await client.logs("p", "default")).split()
        os.kill(int(number), signal.SIGKILL)
        assert last == "done"

    running(main, tmp_path, speed=speed)


@pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
@pytest.mark.parametrize("how", ["delete", "exit", "stop"])
def test_children_in_another_session_die_with_their_container(tmp_path: Path, how: str) -> None:
    pid_file = tmp_path / "daemon"
    script = f"setsid sh -c 'echo $$$$ > {pid_file}.new; mv {pid_file}.new {pid_file}; exec sleep 1000' & "
    script += f"while [ ! -e {pid_file} ]; do sleep 0.05; done; " + ("exit 0" if how == "exit" else "exec sleep 1000")

    def is_alive() -> bool:
        try:
            return Path(f"/proc/{int(pid_file.read_text())}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except FileNotFoundError:
            return False

    async def main(client: Client) -> None:
        await client.create(pod("p", "sh", "-c", script, grace=0))
        while not pid_file.exists():
            await clock.sleep(0.05)
        if how == "exit":
            await until(client, "p", ended)
            assert not is_alive()
        elif how == "delete":
            assert is_alive()
            await client.delete(POD, "p", "default")
            while is_alive():
                await clock.sleep(0.05)

    running(main, tmp_path / "pods")
    assert not is_alive(), "the twin has stopped"


def test_status_of_a_replaced_pod_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another pod with the name, such as that of a StatefulSet, has its own status."""

    async def run_main() -> None:
        async with Cluster(ca="the authority", processes=tmp_path) as cluster:
            client = Client(cluster.transport())
            await create_nodes(client, NodeShape(pool="pool"), 1)
            await client.create(pod("a", "sleep", "1000", grace=0))
            await until(client, "a", ready)
            assert cluster._runtime is not None
            worker = cluster._runtime._workers[Key("default", "a")]
            await client.delete(POD, "a", grace_period_seconds=0)
            new = await client.create(pod("a", "sleep", "1000", grace=0))
            reads = 0

            async def get(*where: Any) -> Object:
                nonlocal reads
                reads += 1
                assert reads < 5
                return new

            with monkeypatch.context() as changed:
                changed.setattr(worker, "client", SimpleNamespace(patch=worker.client.patch, get=get))
                await worker.publish()
            assert reads == 1
            status = await until(client, "a", ready)
            assert status["phase"] == "Running"

    clock.run(run_main())


def test_pod_whose_files_cannot_be_written_says_so_and_starts_once_they_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(containers, "_SOURCE_RETRY", 0.1)

    async def main(client: Client) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}}
        await client.create({**body, "data": {"one": "1", "two": "2"}})
        items = [{"key": "one", "path": "a"}, {"key": "two", "path": "a/b"}]
        volumes = [{"name": "files", "configMap": {"name": "c", "items": items, "optional": True}}]
        mounts = [{"name": "files", "mountPath": "/files"}]
        await client.create(pod("p", "cat", "/files/a", volumes=volumes, volumeMounts=mounts))
        status = await until(client, "p", lambda status: "message" in state(status).get("waiting", {}))
        assert state(status)["waiting"]["message"] == 'MountVolume.SetUp failed for volume "files" : File exists'
        volume = tmp_path / (await client.get(POD, "p"))["metadata"]["uid"] / ".volumes" / "files"
        assert len(list(volume.iterdir())) <= 1
        await client.patch(CONFIG_MAP, "c", {"data": {"two": None}}, "default")
        await until(client, "p", ended)
        assert await client.logs("p", "default") == "1"

    running(main, tmp_path)


def test_tokens_are_replaced_before_they_expire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pods, "_TOKEN_REFRESH", 0.1)
    changes = 'first=$(cat "$FILE"); until test -s "$FILE" -a "$(cat "$FILE")" != "$first"; do sleep 0.05; done'
    mount = "/of-a-test/serviceaccount"

    async def whole() -> None:
        async with Cluster(ca="the authority", processes=tmp_path) as cluster:
            client = Client(cluster.transport())
            cluster.set_api_address("https://127.0.0.1:1", b"the authority")
            await create_nodes(client, NodeShape(pool="pool"), 1)
            volumes: list[Object] = [{"name": "api", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}]
            mounts = [{"name": "api", "mountPath": mount}]
            for name, file in (("kubeconfig", "$KUBECONFIG"), ("token", f"{mount}/token")):
                script = f"FILE={file}; {changes}"
                await client.create(pod(name, "sh", "-c", script, volumes=volumes, volumeMounts=mounts))
            for name in ("kubeconfig", "token"):
                assert (await until(client, name, ended))["phase"] == "Succeeded"

    clock.run(whole())


def test_sub_path_with_variables_works_without_mount_namespaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(_: NamespaceSupport) -> str:
        return "unshare: Operation not permitted"

    monkeypatch.setattr(NamespaceSupport, "unavailable_reason", refuse)

    async def main(client: Client) -> None:
        env = [{"name": "NAME", "value": "below"}]
        mounts = [{"name": "scratch", "mountPath": "/scratch", "subPathExpr": "$(NAME)"}]
        scratch: list[Object] = [{"name": "scratch", "emptyDir": {}}]
        await client.create(pod("p", "sh", "-c", "ls -d /scratch", env=env, volumes=scratch, volumeMounts=mounts))
        assert (await until(client, "p", ended))["phase"] == "Succeeded"
        assert (await client.logs("p", "default")).endswith("/scratch/below\n")

    running(main, tmp_path)
