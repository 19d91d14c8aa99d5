"""The cloud after a restart of the twin: operations, faults and settings continue."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from tests.support.clouds import PLACE, POOLS, Cloud, is_ready

from sliceworks.base import clock
from sliceworks.kube.client import Client
from sliceworks.kube.resources import NODE
from sliceworks.twin.cluster import Cluster
from sliceworks.twin.store.journal import Journal
from sliceworks.twin.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

BEGIN = datetime(2026, 11, 15, 8, tzinfo=UTC)


def on_disk(path: Path, main: Callable[[Cloud], Awaitable[None]], *, after: float = 0.0) -> None:
    """Run on a twin with a stored state, some seconds after the first start."""

    async def whole() -> None:
        async with Cluster(Store(Journal(path)), ca="the authority") as twin:
            await main(Cloud(twin))

    clock.run(whole(), virtual=True, seed=3, start=BEGIN + timedelta(seconds=after))


def killed(path: Path, main: Callable[[Cloud], Awaitable[None]], tmp_path: Path, name: str) -> Path:
    """The stored state of a twin that is killed at the end of a coroutine."""
    copy = tmp_path / name

    async def until_killed(cloud: Cloud) -> None:
        await main(cloud)
        for suffix in ("", "-wal"):
            file = path.with_name(path.name + suffix)
            if file.exists():
                shutil.copy(file, copy.with_name(copy.name + suffix))

    on_disk(path, until_killed)
    return copy


@pytest.mark.parametrize("seconds", [0.0, 29.9, 30.0, 40.0, 75.0, 200.0])
def test_node_pool_is_created_once_across_restarts(tmp_path: Path, seconds: float) -> None:
    async def begin(cloud: Cloud) -> None:
        cloud.container.clusters.adopt("p", "us-central2-b", "c")
        await cloud.slice("slice")
        await clock.sleep(seconds)

    copy = killed(tmp_path / "one.db", begin, tmp_path, "two.db")

    async def go_on(cloud: Cloud) -> None:
        (operation,) = (await cloud.do("GET", f"{PLACE}/operations"))["operations"]
        ended = await cloud.done(operation)
        assert "error" not in ended
        nodes = await cloud.nodes("slice")
        assert [is_ready(node) for node in nodes] == [True] * 4
        assert (await cloud.pool("slice"))["status"] == "RUNNING"
        await cloud.create("other")
        addresses = {node["spec"]["podCIDR"] for node in await cloud.nodes()}
        assert len(addresses) == 4
        await clock.sleep(200)
        assert len({node["spec"]["podCIDR"] for node in await cloud.nodes()}) == 5

    on_disk(copy, go_on, after=seconds + 1)


def test_operations_resume_without_a_request(tmp_path: Path) -> None:
    async def begin(cloud: Cloud) -> None:
        cloud.container.clusters.adopt("p", "us-central2-b", "c")
        await cloud.slice("slice")

    copy = killed(tmp_path / "one.db", begin, tmp_path, "two.db")

    async def nodes() -> list[bool]:
        async with Cluster(Store(Journal(copy)), ca="the authority") as twin:
            await clock.sleep(7200)
            return [is_ready(node) for node in (await Client(twin.transport()).list_all(NODE, None)).items]

    assert clock.run(nodes(), virtual=True, seed=3, start=BEGIN) == [True] * 4


def test_unused_cloud_starts_no_tasks() -> None:
    async def main() -> None:
        async with Cluster(ca="the authority") as twin:
            await clock.sleep(3600)
            assert twin._cloud is None

    clock.run(main(), virtual=True)


@pytest.mark.parametrize("seconds", [0.0, 30.0, 60.0, 61.0])
def test_node_pool_is_deleted_across_restarts(tmp_path: Path, seconds: float) -> None:
    async def begin(cloud: Cloud) -> None:
        cloud.container.clusters.adopt("p", "us-central2-b", "c")
        await cloud.done(await cloud.slice("slice"))
        await cloud.do("DELETE", f"{POOLS}/slice")
        await clock.sleep(seconds)

    copy = killed(tmp_path / "one.db", begin, tmp_path, "two.db")

    async def go_on(cloud: Cloud) -> None:
        for operation in (await cloud.do("GET", f"{PLACE}/operations"))["operations"]:
            await cloud.done(operation)
        assert await cloud.nodes() == []
        assert await cloud.do("GET", POOLS) == {}

    on_disk(copy, go_on, after=200)


def test_faults_settings_and_stuck_operations_survive(tmp_path: Path) -> None:
    async def begin(cloud: Cloud) -> None:
        cloud.container.clusters.adopt("p", "us-central2-b", "c")
        cloud.set(operations=2, seconds={"boot": 1})
        cloud.fault("StuckOperations", name="stuck", **{"for": 3600})
        cloud.fault("Unavailable", match={"method": "clusters.list"}, count=2)
        await cloud.create("one")
        assert (await cloud.refused("GET", f"{PLACE}/clusters"))[0] == 503

    copy = killed(tmp_path / "one.db", begin, tmp_path, "two.db")

    async def go_on(cloud: Cloud) -> None:
        assert (await cloud.refused("GET", f"{PLACE}/clusters"))[0] == 503
        await cloud.do("GET", f"{PLACE}/clusters")
        await cloud.create("two")
        assert (await cloud.refused("POST", POOLS, {"nodePool": {"name": "three"}}))[0] == 429
        await clock.sleep(3500)
        assert (await cloud.pool("one"))["status"] == "PROVISIONING"
        await clock.sleep(200)
        assert [pool["status"] for pool in (await cloud.do("GET", POOLS))["nodePools"]] == ["RUNNING", "RUNNING"]

    on_disk(copy, go_on, after=60)


def test_node_deleted_while_stopped_is_recreated(tmp_path: Path) -> None:
    async def begin(cloud: Cloud) -> None:
        cloud.container.clusters.adopt("p", "us-central2-b", "c")
        await cloud.done(await cloud.create("one", 2))
        name = (await cloud.nodes("one"))[0]["metadata"]["name"]
        entry = cloud.twin.store.get("/nodes", "", name)
        assert entry is not None
        cloud.server.services.clear()
        await cloud.container.stop()
        cloud.twin.store.remove("/nodes", "", name, entry.object())
        await cloud.twin.store.wait_durable()

    copy = killed(tmp_path / "one.db", begin, tmp_path, "two.db")

    async def go_on(cloud: Cloud) -> None:
        assert len(await cloud.nodes("one")) == 1
        await clock.sleep(300)
        assert len(await cloud.nodes("one")) == 2

    on_disk(copy, go_on, after=300)


def test_clock_going_back_does_not_extend_waits(tmp_path: Path) -> None:
    async def begin(cloud: Cloud) -> None:
        cloud.container.clusters.adopt("p", "us-central2-b", "c")
        await clock.sleep(100_000)
        cloud.fault("Unavailable", match={"method": "clusters.get"}, **{"for": 60})
        await cloud.create("one")

    copy = killed(tmp_path / "one.db", begin, tmp_path, "two.db")

    async def go_on(cloud: Cloud) -> None:
        await clock.sleep(100)
        assert (await cloud.pool("one"))["status"] == "RUNNING"
        await cloud.do("GET", f"{PLACE}/clusters/c")

    on_disk(copy, go_on)
