"""The client, informers, leader election and controllers on a twin in the same process, in virtual time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
import pytest

from sliceworks.base import clock
from sliceworks.base.errors import NotFound, Unreachable
from sliceworks.kube import Client, Controller, Delta, Done, EventRecorder, Informers, Key, LeaderElection, Pending
from sliceworks.kube.resources import CONFIG_MAP, EVENT, LEASE, NAMESPACE
from sliceworks.twin.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sliceworks.base.transport import Request, Response, Transport

T = TypeVar("T")


def on_twin(use: Callable[[Cluster, Client], Awaitable[T]], seed: int = 0) -> T:
    """Run a test on a new twin."""

    async def main() -> T:
        async with Cluster(token="secret") as cluster:
            return await use(cluster, Client(cluster.transport()))

    return clock.run(main(), virtual=True, seed=seed)


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}


class BreakableTransport:
    """A transport whose connections can be broken."""

    def __init__(self, transport: Transport) -> None:
        self.down = False
        self._transport = transport

    async def send(self, request: Request, *, stream: bool = False) -> Response:
        if self.down:
            raise Unreachable("the line is cut")
        return await self._transport.send(request, stream=stream)

    async def close(self) -> None:
        await self._transport.close()


async def settle() -> None:
    await clock.sleep(0.001)


async def stop(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_informer_survives_a_broken_watch_and_an_expired_version() -> None:
    async def use(cluster: Cluster, client: Client) -> None:
        received: list[str] = []

        def hear(delta: Delta) -> None:
            received.append(f"{delta.kind}{'' if delta.final else '?'} {delta.object['metadata']['name']}")

        await client.create(config_map("goes"))
        await clock.sleep(1)  # the cluster has config maps of its own to make
        line = BreakableTransport(cluster.transport())
        async with Informers(Client(line)) as informers:
            maps = informers.open(CONFIG_MAP, "default")
            await maps.wait_synced()
            maps.add_handler(hear)
            del received[:]
            cluster.store.close_watches()
            await client.delete(CONFIG_MAP, "goes")
            await client.create(config_map("comes"))
            await clock.sleep(60)
            assert received == ["deleted goes", "added comes"]
            line.down = True
            cluster.store.close_watches()
            await settle()
            await client.delete(CONFIG_MAP, "comes")
            await client.create(config_map("later"))
            cluster.store.compact()
            await clock.sleep(60)
            assert len(received) == 2
            line.down = False
            await clock.sleep(120)  # the delay before the next attempt is up to a minute
            assert received[2:] == ["added later", "deleted? comes"]
            await client.delete(CONFIG_MAP, "later")
            await settle()
            assert received[4:] == ["deleted later"]

    on_twin(use)


def test_watching_for_a_day_needs_one_list() -> None:
    async def use(cluster: Cluster, client: Client) -> None:
        async with Informers(client) as informers:
            maps = informers.open(CONFIG_MAP, "default")
            for hour in range(24):
                await clock.sleep(3600)
                await client.apply(config_map("a", hour=str(hour)))
            await settle()
            result = maps.store.get("a", "default")
            assert result is not None
            assert result["data"] == {"hour": "23"}

    on_twin(use)


def test_one_of_three_candidates_leads() -> None:
    async def use(cluster: Cluster, client: Client) -> None:
        leading: set[str] = set()
        terms: list[str] = []

        async def lead(name: str) -> None:
            assert not leading
            leading.add(name)
            terms.append(name)
            try:
                await clock.sleep(600)
            finally:
                leading.discard(name)

        names = ("one", "two", "three")
        elections = [LeaderElection(client, "lock", "default", identity=name) for name in names]
        await asyncio.gather(*(election.run(lambda name=name: lead(name)) for election, name in zip(elections, names, strict=True)))  # type: ignore[misc]
        assert sorted(terms) == sorted(names)
        assert (await client.get(LEASE, "lock"))["spec"]["leaseTransitions"] == 2
        assert 1800 <= clock.loop_time() <= 1830

    on_twin(use)


def test_controller_converges() -> None:
    async def use(cluster: Cluster, client: Client) -> None:
        async with Informers(client) as informers, EventRecorder(client, "sliceworks.dev/test") as events:
            maps = informers.open(CONFIG_MAP, "default")

            async def reconcile(key: Key) -> Done | Pending:
                result = maps.store.get(key.name, key.namespace)
                if result is None or result["data"].get("state") != "new":
                    return Done()
                if clock.loop_time() < 300:
                    return Pending("too early", requeue_after=60)
                await client.patch(CONFIG_MAP, key.name, {"data": {"state": "ready"}})
                events.record(result, "Ready", "it is ready")
                return Done()

            controller = Controller("readier", reconcile, workers=2)
            controller.watch(maps)
            running = asyncio.create_task(controller.run())
            for number in range(5):
                await client.create(config_map(f"m{number}", state="new"))
            await clock.sleep(400)
            states = {item["metadata"]["name"]: item["data"].get("state") for item in maps.store.select("default")}
            assert [states[f"m{number}"] for number in range(5)] == ["ready"] * 5
            await stop(running)
        assert len((await client.list(EVENT, "default")).items) == 5

    on_twin(use)


def test_runs_with_one_seed_are_equal() -> None:
    async def use(cluster: Cluster, client: Client) -> bytes:
        reported: list[Any] = []
        async with Informers(client) as informers, EventRecorder(client, "sliceworks.dev/test", instance="me") as events:
            informers.open(CONFIG_MAP).add_handler(lambda delta: reported.append((delta.kind, delta.object)))
            for number in range(10):
                created = await client.create({**config_map(""), "metadata": {"generateName": "m-", "namespace": "default"}})
                events.record(created, "Made", f"number {number}")
                await clock.sleep(clock.rng().random() * 100)
            await LeaderElection(client, "lock", "default").run(settle)
        everything = [await client.list(kind) for kind in (CONFIG_MAP, EVENT, LEASE, NAMESPACE)]
        return orjson.dumps([reported, [result.items for result in everything]])

    first = on_twin(use, seed=1)
    assert first == on_twin(use, seed=1)
    assert first != on_twin(use, seed=2)


def test_new_custom_resource_is_discovered() -> None:
    async def use(cluster: Cluster, client: Client) -> None:
        obj = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"x": 1}}
        with pytest.raises(NotFound, match=r'no matches for kind "Thing" in version "example.com/v1"'):
            await client.apply(obj)
        schema = {"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}
        spec = {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        }
        definition = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
        await client.create({**definition, "metadata": {"name": "things.example.com"}, "spec": spec})
        await clock.sleep(10)
        assert (await client.apply(obj))["spec"] == {"x": 1}

    on_twin(use)
