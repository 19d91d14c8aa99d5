"""Objects that are odd but allowed: whatever fields are missing, doubled or swapped, no controller fails on them, nor a restart."""

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
from sliceworks.twin.nodes.shapes import Shape, create_nodes
from sliceworks.twin.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.kube.resources import Resource

Object = dict[str, Any]
Steps = tuple[str | int, ...]
PLAIN: list[Object] = list(yaml.safe_load_all(Path(__file__).with_name("odd_objects.yaml").read_text()))
ANYTHING: tuple[Any, ...] = ({}, [], "", 0, -1, "x", 1, "100%", "0", True, None)
STEPS = 250


def _paths(value: Any, below: Steps = ()) -> Iterator[Steps]:
    found = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in found:
        yield (*below, key)
        yield from _paths(inner, (*below, key))


def _at(value: Any, path: Steps) -> Any:
    for key in path:
        value = value[key]
    return value


def _words() -> dict[str | int, list[str]]:
    """What texts there are in fields of each name."""
    words: dict[str | int, list[str]] = {}
    for obj in PLAIN:
        for path in _paths(obj):
            if isinstance(text := _at(obj, path), str) and text not in words.setdefault(path[-1], []):
                words[path[-1]].append(text)
    return words


WORDS = _words()


def _odd(obj: Object, chance: Random) -> Object:
    """The object with a few fields changed, doubled or left out."""
    obj = copy.deepcopy(obj)
    for _ in range(chance.choice((0, 1, 1, 2, 3))):
        kept = {("apiVersion",), ("kind",), ("metadata",), ("metadata", "name"), ("metadata", "namespace")}
        path = chance.choice([path for path in _paths(obj) if path not in kept])
        around, key = _at(obj, path[:-1]), path[-1]
        old = around[key]
        what = chance.randrange(5)
        if what == 0:
            del around[key]
        elif what == 1 and isinstance(old, list) and old:
            around[key] = [*old, copy.deepcopy(chance.choice(old))]
        elif what == 2 and isinstance(old, str) and key in WORDS:
            around[key] = chance.choice(WORDS[key])
        else:
            around[key] = chance.choice(ANYTHING)
    return obj


class Visitor:
    """Makes, changes and deletes odd objects. What the twin refuses is refused."""

    def __init__(self, client: Client, seed: int) -> None:
        self._client, self._chance = client, Random(seed)

    async def begin(self) -> None:
        await create_nodes(self._client, Shape(pool="pool"), 3)
        for obj in PLAIN:
            await self._client.create(copy.deepcopy(obj), obj["metadata"].get("namespace"))
        await clock.sleep(30)

    async def step(self, number: int) -> None:
        chance, plain = self._chance, self._chance.choice(PLAIN)
        group, _, version = plain["apiVersion"].rpartition("/")
        resource = await self._client.discovery.by_gvk(GVK(group, version, plain["kind"]))
        what = chance.randrange(12)
        if what < 4:
            new = _odd(plain, chance)
            new["metadata"]["name"] = f"odd-{number}"
            await self._client.create(new, plain["metadata"].get("namespace"), resource=resource)
        elif what < 10:
            await self._change(resource, subresource="status" if what > 7 else "")
        elif what < 11:
            found = chance.choice((await self._client.list(resource)).items)["metadata"]
            await self._client.delete(resource, found["name"], found.get("namespace"))
        else:
            await clock.sleep(chance.choice((1, 10, 60)))

    async def _change(self, resource: Resource, subresource: str) -> None:
        there = (await self._client.list(resource)).items
        if there:
            new = _odd(self._chance.choice(there), self._chance)
            new |= {"apiVersion": resource.api_version, "kind": resource.kind}
            await self._client.replace(new, resource=resource, subresource=subresource)


@pytest.mark.parametrize("seed", [1, 2])
def test_no_controller_fails_on_an_odd_object(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        store = Store()
        async with Cluster(store, ca="the authority") as cluster:
            visitor = Visitor(Client(cluster.transport()), seed)
            await visitor.begin()
            done = 0
            for number in range(STEPS):
                try:
                    await visitor.step(number)
                    done += 1
                except (SliceworksError, IndexError):
                    await clock.sleep(1)
            assert done > STEPS // 2
            await clock.sleep(100)
        async with Cluster(store, ca="the authority") as cluster:
            await clock.sleep(100)
            assert not [task for program in cluster.controllers.programs for task in program._tasks if task.done()]

    caplog.set_level(logging.WARNING, "sliceworks.twin")
    clock.run(main(), virtual=True, seed=seed)
    failed = [each for each in caplog.records if each.exc_info and each.name.startswith("sliceworks.twin")]
    assert not failed, failed[0].getMessage()
