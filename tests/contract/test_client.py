"""The Sliceworks client on a running cluster over HTTPS, end to end."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sliceworks.base import clock
from sliceworks.base.errors import AlreadyExists, Conflict, Forbidden, NotFound, Unauthorized
from sliceworks.kube import (
    Client,
    Controller,
    Done,
    EventRecorder,
    Informers,
    Key,
    LeaderElection,
    PatchType,
    open_client,
)
from sliceworks.kube.https import HttpsTransport
from sliceworks.kube.kubeconfig import connect
from sliceworks.kube.resources import CONFIG_MAP, CORE_EVENT, DEPLOYMENT, GVK, LEASE, POD, SECRET

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.support.clusters import Cluster

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "use-the-client.md"


def on(cluster: Cluster, ns: str, use: Callable[[Client], Awaitable[None]]) -> None:
    """Run a test with its own client."""

    async def main() -> None:
        async with open_client(cluster.kubeconfig, namespace=ns) as client, asyncio.timeout(240):
            await use(client)

    clock.run(main())


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"n": name}}, "data": data}


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.01)


def test_object_lifecycle(cluster: Cluster, ns: str) -> None:
    async def use(client: Client) -> None:
        created = await client.create(config_map("a", x="1"))
        assert created["metadata"]["managedFields"][0]["manager"] == "sliceworks"
        with pytest.raises(AlreadyExists):
            await client.create(config_map("a"))
        created["data"]["y"] = "2"
        changed = await client.replace(created)
        with pytest.raises(Conflict):
            await client.replace(created)
        assert changed["data"] == {"x": "1", "y": "2"}
        changed = await client.patch(CONFIG_MAP, "a", [{"op": "remove", "path": "/data/y"}], kind=PatchType.JSON)
        changed = await client.patch(CONFIG_MAP, "a", {"data": {"z": "3"}}, kind=PatchType.STRATEGIC)
        changed = await client.patch(CONFIG_MAP, "a", {"data": {"x": None}})
        assert changed["data"] == {"z": "3"}
        assert (await client.delete(CONFIG_MAP, "a"))["status"] == "Success"
        with pytest.raises(NotFound) as missing:
            await client.get(CONFIG_MAP, "a")
        assert missing.value.details == {"name": "a", "kind": "configmaps"}

    on(cluster, ns, use)


def test_apply_takes_fields_only_with_force(cluster: Cluster, ns: str) -> None:
    async def use(client: Client) -> None:
        await client.apply(config_map("a", x="1"), field_manager="one")
        with pytest.raises(Conflict) as conflict:
            await client.apply(config_map("a", x="2"), field_manager="two")
        assert (conflict.value.details or {})["causes"][0]["field"] == ".data.x"
        assert (await client.apply(config_map("a", x="2"), field_manager="two", force=True))["data"] == {"x": "2"}

    on(cluster, ns, use)


def test_preconditions_and_dry_run_are_honored(cluster: Cluster, ns: str) -> None:
    async def use(client: Client) -> None:
        await client.create(config_map("dry"), dry_run=True)
        created = await client.create(config_map("a"))
        with pytest.raises(Conflict):
            await client.delete(CONFIG_MAP, "a", uid="another")
        await client.delete(CONFIG_MAP, "a", uid=created["metadata"]["uid"], dry_run=True)
        assert [item["metadata"]["name"] for item in (await client.list(CONFIG_MAP, ns, labels="n")).items] == ["a"]

    on(cluster, ns, use)


def test_lists_are_chunked_and_selected(cluster: Cluster, ns: str) -> None:
    async def use(client: Client) -> None:
        await asyncio.gather(*(client.create(config_map(f"m{number}")) for number in range(25)))
        result = await client.list_all(CONFIG_MAP, ns, chunk=10, labels="n")
        assert len(result.items) == 25
        assert len({item["metadata"]["name"] async for item in client.iterate(CONFIG_MAP, ns, chunk=7, labels="n")}) == 25
        assert len((await client.list(CONFIG_MAP, ns, labels="n in (m1,m2)")).items) == 2
        assert len((await client.list(CONFIG_MAP, ns, fields="metadata.name=m3")).items) == 1
        await client.delete_collection(CONFIG_MAP, ns, {"labels": "n!=m1"})
        assert {item["metadata"]["name"] for item in (await client.list(CONFIG_MAP, ns, labels="n")).items} == {"m1"}

    on(cluster, ns, use)


def test_watch_reports_changes_until_timeout(cluster: Cluster, ns: str) -> None:
    async def use(client: Client) -> None:
        version = (await client.list(CONFIG_MAP, ns)).resource_version
        await client.create(config_map("a"))
        await client.delete(CONFIG_MAP, "a")
        events = client.watch(CONFIG_MAP, ns, resource_version=version, timeout_seconds=3, labels="n")
        assert [event.type async for event in events] == ["ADDED", "DELETED"]

    on(cluster, ns, use)


def test_informers_follow_and_controllers_reconcile(cluster: Cluster, ns: str) -> None:
    async def use(client: Client) -> None:
        async with Informers(client) as informers:
            maps = informers.open(CONFIG_MAP, ns, labels="n")
            maps.store.add_index("x", lambda obj: [obj["data"]["x"]] if "x" in obj.get("data", {}) else [])

            async def reconcile(key: Key) -> Done:
                if key in maps.store and not maps.store.by_index("x", key.name):
                    await client.patch(CONFIG_MAP, key.name, {"data": {"x": key.name}})
                return Done()

            controller = Controller("marker", reconcile, workers=4)
            controller.watch(maps)
            running = asyncio.create_task(controller.run())
            await asyncio.gather(*(client.create(config_map(f"m{number}")) for number in range(20)))
            await until(lambda: all(len(maps.store.by_index("x", f"m{number}")) == 1 for number in range(20)))
            await client.delete_collection(CONFIG_MAP, ns, {"labels": "n"})
            await until(lambda: len(maps.store) == 0)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    on(cluster, ns, use)


def test_leader_election_and_events(cluster: Cluster, ns: str) -> None:
    async def use(client: Client) -> None:
        async def lead() -> str:
            return str((await client.get(LEASE, "lock"))["spec"]["holderIdentity"])

        assert await LeaderElection(client, "lock", ns, identity="me").run(lead) == "me"
        lease = await client.get(LEASE, "lock")
        assert not lease["spec"].get("holderIdentity")
        for core in (False, True):
            async with EventRecorder(client, "sliceworks.dev/test", core=core) as events:
                for _ in range(3):
                    events.record(lease, "Tested", "a note", type="Warning", action="Test")
        reported = (await client.list(CORE_EVENT, ns, fields="reason=Tested")).items
        assert sorted(
            (event.get("count"), (event.get("series") or {}).get("count")) for event in reported if event.get("count")
        ) == [(3, None)]
        assert [event["series"]["count"] for event in reported if event.get("series")] == [3]

    on(cluster, ns, use)


def test_subresources_are_read_and_written(cluster: Cluster, ns: str) -> None:
    async def use(client: Client) -> None:
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
        await client.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec})
        assert (await client.patch(DEPLOYMENT, "d", {"spec": {"replicas": 3}}, subresource="scale"))["spec"] == {"replicas": 3}
        assert (await client.get(DEPLOYMENT, "d", subresource="scale"))["status"]["replicas"] == 0
        await client.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": template["spec"]})
        status = {"status": {"phase": "Running"}}
        assert (await client.patch(POD, "p", status, subresource="status"))["status"]["phase"] == "Running"
        await client.evict("p", ns, grace_period_seconds=0)
        token = (await client.create_token("default", ns, seconds=600))["status"]["token"]
        assert token.count(".") == 2

    on(cluster, ns, use)


def test_discovery_resolves_names_and_short_names(cluster: Cluster, ns: str) -> None:
    async def use(client: Client) -> None:
        discovery = client.discovery
        assert (await discovery.find("deploy")).qualified == "deployments.apps"
        assert (await discovery.find("events")).group == ""
        assert (await discovery.by_gvk(GVK("batch", "v1", "Job"))).subresources == ("status",)
        with pytest.raises(NotFound, match='the server doesn\'t have a resource type "nonesuches"'):
            await discovery.find("nonesuches")

    on(cluster, ns, use)


def test_identity_and_permissions_are_reported(cluster: Cluster, ns: str) -> None:
    async def use(client: Client) -> None:
        token = (await client.create_token("default", ns))["status"]["token"]
        for credential, error in ((token, Forbidden), ("nonsense", Unauthorized)):
            config = cluster.kubeconfig.with_name("another")
            config.write_text(cluster.kubeconfig.read_text().replace(cluster.token, credential))
            async with Client(HttpsTransport(connect(config))) as other:
                with pytest.raises(error):
                    await other.list(SECRET, ns)

    on(cluster, ns, use)


def test_watch_is_closed_early(cluster: Cluster, ns: str) -> None:
    async def use(client: Client) -> None:
        await client.create(config_map("a"))
        async with aclosing(client.watch(CONFIG_MAP, ns, labels="n")) as events:
            assert (await anext(events)).object["metadata"]["name"] == "a"
        await client.get(CONFIG_MAP, "a")

    on(cluster, ns, use)


@pytest.mark.parametrize("number", range(3))
def test_client_guide_runs(cluster: Cluster, ns: str, number: int) -> None:
    code = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)[number].replace('"default"', f'"{ns}"')
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False, timeout=240)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line for line in done.stdout.splitlines() if "rror" in line] == []
