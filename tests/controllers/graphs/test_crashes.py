"""The controller is killed at every call of a scenario, before the server hears it and after, and started again.

However that goes: the cluster ends up the same, nothing is made twice, and nothing is deleted that the controller did not make.
"""

from __future__ import annotations

from typing import Any

import orjson
import pytest
import yaml
from tests.support.clusters import real_wanted
from tests.support.embedded import Embedded, on_twin
from tests.support.graphs import GRAPHS, REVISIONS, WRITES
from tests.support.mortals import Births, Mortal

from sliceworks.base import clock
from sliceworks.kube.client import Client

Object = dict[str, Any]
CORE = "/api/v1/namespaces/default"
STALLS = "/apis/kro.run/v1alpha1/namespaces/default/stalls"
GRAPH = """
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: stall}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Stall
    spec: {title: string, open: boolean | default=true, colours: "[]string"}
    status: {title: "${second.metadata.name}"}
  resources:
  - id: first
    template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}, data: {title: "${schema.spec.title}"}}
  - id: second
    includeWhen: ["${schema.spec.open}"]
    template: {apiVersion: v1, kind: Secret, metadata: {name: "${first.metadata.name}-key"}}
  - id: each1
    forEach: [{colour: "${schema.spec.colours}"}]
    template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}-${colour}"}}
  - id: account
    lifecycle: {onDelete: restore}
    template: {apiVersion: v1, kind: ServiceAccount, metadata: {name: shared, annotations: {title: "${schema.spec.title}"}}}
  - id: kept
    lifecycle: {onDelete: retain}
    template: {apiVersion: v1, kind: ConfigMap, metadata: {name: kept}}
"""
STALL = {
    "apiVersion": "kro.run/v1alpha1",
    "kind": "Stall",
    "metadata": {"name": "a"},
    "spec": {"title": "one", "colours": ["red", "green"]},
}
SHARED = {
    "apiVersion": "v1",
    "kind": "ServiceAccount",
    "metadata": {"name": "shared", "annotations": {"title": "before", "theirs": "yes"}},
    "automountServiceAccountToken": False,
}
BYSTANDER = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bystander"}, "data": {"a": "b"}}


async def story(twin: Embedded) -> list[Object]:
    """A definition, an instance, a change, the end of both; what the cluster has after each chapter."""
    client = Client(twin.cluster.transport())
    seen = []
    await client.apply(yaml.load(GRAPH, yaml.CSafeLoader), field_manager="person")
    await clock.sleep(10)
    await client.create(STALL)
    await clock.sleep(10)
    seen.append(await picture(twin))
    await twin.do("PATCH", f"{STALLS}/a", {"spec": {"title": "two", "open": False, "colours": ["red", "blue"]}})
    await clock.sleep(10)
    seen.append(await picture(twin))
    await twin.do("DELETE", f"{STALLS}/a")
    await clock.sleep(10)
    await twin.do("DELETE", f"{GRAPHS}/stall")
    await clock.sleep(40)
    seen.append(await picture(twin))
    return seen


async def picture(twin: Embedded) -> Object:
    """Everything in the cluster that matters, without what differs from run to run."""
    found: Object = {}
    for path in (f"{CORE}/configmaps", f"{CORE}/secrets", f"{CORE}/serviceaccounts", GRAPHS, REVISIONS, STALLS):
        status, listed = await twin.ask("GET", path)
        found[path] = [settled(item) for item in listed["items"]] if status == 200 else status
    return found


def settled(obj: Object) -> Object:
    metadata = {name: value for name, value in obj["metadata"].items() if name in ("name", "labels", "annotations", "finalizers")}
    labels = {name: value for name, value in (metadata.get("labels") or {}).items() if not name.endswith("-id") or "node" in name}
    status = obj.get("status") or {}
    conditions = [{**item, "lastTransitionTime": ""} for item in status.get("conditions") or ()]
    whole = {**obj, "metadata": {**metadata, "labels": labels}, "status": {**status, "conditions": conditions}}
    made: Object = orjson.loads(orjson.dumps(whole, option=orjson.OPT_SORT_KEYS))
    return made


def play(die_at: int | None, *, before: bool = True) -> tuple[list[Object], Births, list[tuple[str, str]]]:
    """The story with one death; what was seen, what came and went, and the calls up to the death."""
    results: list[Any] = []

    async def whole(twin: Embedded) -> None:
        for obj in (SHARED, BYSTANDER):
            await Client(twin.cluster.transport()).create(obj)
        births, mortal = Births(twin), Mortal(twin, die_at, before=before)
        await clock.sleep(5)
        try:
            results.extend((await story(twin), births, mortal.first.sent))
        finally:
            await mortal.stop()
            await births.stop()

    on_twin(whole)
    return results[0], results[1], results[2]


def test_story_without_a_death() -> None:
    seen, births, _ = play(None)
    names = [item["metadata"]["name"] for item in seen[0][f"{CORE}/configmaps"]]
    assert sorted(set(names) - {"kube-root-ca.crt"}) == ["a", "a-green", "a-red", "bystander", "kept"]
    assert seen[0][STALLS][0]["status"]["title"] == "a-key"
    last = {item["metadata"]["name"]: item for item in seen[2][f"{CORE}/configmaps"]}
    assert sorted(last.keys() - {"kube-root-ca.crt"}) == ["bystander", "kept"]
    shared = next(item for item in seen[2][f"{CORE}/serviceaccounts"] if item["metadata"]["name"] == "shared")
    assert shared["metadata"]["annotations"] == SHARED["metadata"]["annotations"]  # type: ignore[index]
    assert seen[2][STALLS] == []
    assert seen[2][GRAPHS] == []
    assert max(births.made.values()) == 1


@pytest.mark.parametrize("part", range(4))
def test_death_after_every_write(part: int) -> None:
    """What the server has after a write is what it has before the next call: with a death after each, no state is left out."""
    _die_at(part, before=False)


@pytest.mark.real
@pytest.mark.skipif(not real_wanted(), reason="the long run: SLICEWORKS_REAL=1")
@pytest.mark.parametrize("part", range(4))
def test_death_before_every_call(part: int) -> None:
    """Reads included."""
    _die_at(part, before=True)


def _die_at(part: int, *, before: bool) -> None:
    expected, births, calls = play(None)
    fatal = [number for number, (method, _) in enumerate(calls) if before or method in WRITES]
    for number in fatal[part::4]:
        seen, born, _ = play(number, before=before)
        where = f"killed {'before' if before else 'after'} call {number}: {' '.join(calls[number])}"
        assert seen == expected, where
        assert born.made == births.made, where
        assert born.gone == births.gone, where


def play_short(die_at: int | None) -> tuple[list[Object], list[tuple[str, str]]]:
    """A definition and an instance, which is deleted while the controller is dead; what is left of it, and the calls."""
    results: list[Any] = []

    async def whole(twin: Embedded) -> None:
        async def delete() -> None:
            await twin.ask("DELETE", f"{STALLS}/a")

        client = Client(twin.cluster.transport())
        mortal = Mortal(twin, die_at, before=False, meanwhile=delete)
        await clock.sleep(5)
        try:
            await client.apply(yaml.load(GRAPH, yaml.CSafeLoader), field_manager="person")
            await clock.sleep(10)
            await client.create(STALL)
            await clock.sleep(10)
            sent = list(mortal.first.sent)
            if die_at is None:
                await delete()
            await clock.sleep(10)
            found = await picture(twin)
            owned = [item for listed in found.values() for item in listed if "kro.run/instance-name" in item["metadata"]["labels"]]
            results.extend((owned + found[STALLS], sent))
        finally:
            await mortal.stop()

    on_twin(whole)
    return results[0], results[1]


def test_nothing_is_left_of_an_instance_that_went_while_the_controller_was_dead() -> None:
    left, calls = play_short(None)
    assert left == []
    begun = next(number for number, (_, path) in enumerate(calls) if path == f"{STALLS}/a")
    fatal = [number for number in range(begun, len(calls)) if calls[number][0] in WRITES]
    assert len(fatal) > 5
    for number in fatal:
        left, _ = play_short(number)
        assert left == [], f"killed after call {number}: {' '.join(calls[number])}"
