"""What pods that run as processes get from their node and their service account."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from tests.support.process_pods import ended, mounts_wanted, pod, running, until

from sliceworks.kube.resources import POD
from sliceworks.twin.nodes.runtime.process_runtime import ApiAccess

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.kube.client import Client

Object = dict[str, Any]


def _claims(token: str) -> Object:
    body = token.split(".")[1]
    claims: Object = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return claims


def test_tokens_are_bound_to_the_pod_and_have_the_audiences_of_volumes(tmp_path: Path) -> None:
    source = {"serviceAccountToken": {"path": "token", "audience": "vault"}}
    volumes = [{"name": "tokens", "projected": {"sources": [source]}}]

    async def main(client: Client) -> None:
        created = await client.create(pod("p", "true", volumes=volumes))
        tokens = await ApiAccess("https://127.0.0.1:1").tokens(client, created)
        claims = {audience: _claims(token) for audience, token in tokens.items()}
        assert {audience: claim["aud"] for audience, claim in claims.items()} == {
            "": ["https://kubernetes.default.svc"],
            "vault": ["vault"],
        }
        bound = {"name": "p", "uid": created["metadata"]["uid"]}
        assert all(claim["kubernetes.io"]["pod"] == bound for claim in claims.values())

    running(main, tmp_path)


@mounts_wanted
def test_paths_of_a_node_are_shared_by_its_pods(tmp_path: Path) -> None:
    volumes = [{"name": "node", "hostPath": {"path": "/var/of-a-test"}}]
    mounts = [{"name": "node", "mountPath": "/node-of-a-test"}]

    async def main(client: Client) -> None:
        for name, script in (("first", "echo shared > /node-of-a-test/file"), ("second", "cat /node-of-a-test/file")):
            await client.create(pod(name, "sh", "-c", script, volumes=volumes, volumeMounts=mounts))
            assert (await until(client, name, ended))["phase"] == "Succeeded"
        assert await client.logs("second", "default") == "shared\n"

    running(main, tmp_path)


@mounts_wanted
def test_hosts_file_of_a_node_replaces_that_of_the_pod(tmp_path: Path) -> None:
    volumes = [{"name": "hosts", "hostPath": {"path": "/etc/hosts", "type": "FileOrCreate"}}]
    mounts = [{"name": "hosts", "mountPath": path} for path in ("/etc/hosts-original", "/etc/hosts")]

    async def main(client: Client) -> None:
        for name, count in (("managed", 1), ("not-managed", 2)):
            script = "cat /etc/hosts; echo; cmp /etc/hosts /etc/hosts-original > /dev/null && echo same"
            await client.create(pod(name, "sh", "-c", script, volumes=volumes, volumeMounts=mounts[:count]))
            await until(client, name, ended)
        logs = [await client.logs(name, "default") for name in ("managed", "not-managed")]
        assert [log.startswith("# Kubernetes-managed hosts file.") for log in logs] == [True, False]
        assert [log.endswith("\nsame\n") for log in logs] == [False, True]

    running(main, tmp_path)


def test_deadline_of_a_running_pod_can_be_set(tmp_path: Path) -> None:
    async def main(client: Client) -> None:
        await client.create(pod("p", "sleep", "600"))
        await until(client, "p", lambda status: "running" in status["containerStatuses"][0]["state"])
        await client.patch(POD, "p", {"spec": {"activeDeadlineSeconds": 1}}, "default")
        status = await until(client, "p", ended)
        assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")

    running(main, tmp_path)
