"""Valid objects with missing, duplicated or swapped fields: no controller fails on them, not even after a restart."""

from __future__ import annotations

import copy
import logging
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.kube.client import Client
from sliceworks.kube.resources import GVK
from sliceworks.twin.cluster import Cluster
from sliceworks.twin.nodes.node_shape import NodeShape, create_nodes
from sliceworks.twin.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.kube.resources import Resource

Object = dict[str, Any]
Steps = tuple[str | int, ...]
TEMPLATES: list[Object] = list(yaml.safe_load_all(Path(__file__).with_name("unusual_objects.yaml").read_text()))
VALUES: tuple[Any, ...] = ({}, [], "", 0, -1, "x", 1, "100%", "0", True, None, 2**31 - 1, 2**62, "1e999")
STEPS = 250


def _paths(value: Any, below: Steps = ()) -> Iterator[Steps]:
    result = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in result:
        yield (*below, key)
        yield from _paths(inner, (*below, key))


def _at(value: Any, path: Steps) -> Any:
    for key in path:
        value = value[key]
    return value


def _strings_by_field() -> dict[str | int, list[str]]:
    """The strings that occur in fields of each name."""
    words: dict[str | int, list[str]] = {}
    for obj in TEMPLATES:
        for path in _paths(obj):
            if isinstance(text := _at(obj, path), str) and text not in words.setdefault(path[-1], []):
                words[path[-1]].append(text)
    return words


STRINGS = _strings_by_field()


def _mutate(obj: Object, rng: Random) -> Object:
    """A copy of the object with a few fields changed, duplicated or removed."""
    obj = copy.deepcopy(obj)
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        kept = {("apiVersion",), ("kind",), ("metadata",), ("metadata", "name"), ("metadata", "namespace")}
        path = rng.choice([path for path in _paths(obj) if path not in kept])
        around, key = _at(obj, path[:-1]), path[-1]
        old = around[key]
        action = rng.randrange(5)
        if action == 0:
            del around[key]
        elif action == 1 and isinstance(old, list) and old:
            around[key] = [*old, copy.deepcopy(rng.choice(old))]
        elif action == 2 and isinstance(old, str) and key in STRINGS:
            around[key] = rng.choice(STRINGS[key])
        else:
            around[key] = rng.choice(VALUES)
    return obj


class Fuzzer:
    """Creates, updates and deletes mutated objects; the API may reject them."""

    def __init__(self, client: Client, seed: int) -> None:
        self._client, self._chance = client, Random(seed)

    async def begin(self) -> None:
        await create_nodes(self._client, NodeShape(pool="pool"), 3)
        for obj in TEMPLATES:
            await self._client.create(copy.deepcopy(obj), obj["metadata"].get("namespace"))
        await clock.sleep(30)

    async def step(self, number: int) -> None:
        rng, template = self._chance, self._chance.choice(TEMPLATES)
        group, _, version = template["apiVersion"].rpartition("/")
        resource = await self._client.discovery.by_gvk(GVK(group, version, template["kind"]))
        action = rng.randrange(12)
        if action < 4:
            new = _mutate(template, rng)
            new["metadata"]["name"] = f"mutated-{number}"
            await self._client.create(new, template["metadata"].get("namespace"), resource=resource)
        elif action < 10:
            await self._change(resource, subresource="status" if action > 7 else "")
        elif action < 11:
            result = rng.choice((await self._client.list(resource)).items)["metadata"]
            await self._client.delete(resource, result["name"], result.get("namespace"))
        else:
            await clock.sleep(rng.choice((1, 10, 60)))

    async def _change(self, resource: Resource, subresource: str) -> None:
        objects = (await self._client.list(resource)).items
        if objects:
            new = _mutate(self._chance.choice(objects), self._chance)
            new |= {"apiVersion": resource.api_version, "kind": resource.kind}
            await self._client.replace(new, resource=resource, subresource=subresource)


@pytest.mark.parametrize("seed", [1, 2])
def test_controllers_do_not_fail_on_unusual_objects(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        store = Store()
        async with Cluster(store, ca="the authority") as cluster:
            fuzzer = Fuzzer(Client(cluster.transport()), seed)
            await fuzzer.begin()
            done = 0
            for number in range(STEPS):
                try:
                    await fuzzer.step(number)
                    done += 1
                except (SliceworksError, IndexError):
                    await clock.sleep(1)
            assert done > STEPS // 2
            await clock.sleep(100)
        async with Cluster(store, ca="the authority") as cluster:
            await clock.sleep(100)
            assert not [task for component in cluster.controllers.components for task in component._tasks if task.done()]

    caplog.set_level(logging.WARNING, "sliceworks.twin")
    clock.run(main(), virtual=True, seed=seed)
    failed = [record for record in caplog.records if record.exc_info and record.name.startswith("sliceworks.twin")]
    assert not failed, failed[0].getMessage()
