"""The controller is killed before and after every request of a scenario, and restarted.

The cluster always reaches the same state, no object is created twice, and no foreign object is deleted.
"""

from __future__ import annotations

from typing import Any

import orjson
import pytest
import yaml
from tests.support.clusters import real_enabled
from tests.support.embedded_twin import EmbeddedTwin, run_on_twin
from tests.support.graph_controller import GRAPHS, REVISIONS, WRITES, ObjectCounter, RestartingController

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


async def scenario(twin: EmbeddedTwin) -> list[Object]:
    """Run a definition, an instance, a change and both deletions; returns the cluster's state after each step."""
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


async def picture(twin: EmbeddedTwin) -> Object:
    """The relevant state of the cluster, without what differs between runs."""
    result: Object = {}
    for path in (f"{CORE}/configmaps", f"{CORE}/secrets", f"{CORE}/serviceaccounts", GRAPHS, REVISIONS, STALLS):
        status, listed = await twin.ask("GET", path)
        result[path] = [settled(item) for item in listed["items"]] if status == 200 else status
    return result


def settled(obj: Object) -> Object:
    metadata = {name: value for name, value in obj["metadata"].items() if name in ("name", "labels", "annotations", "finalizers")}
    labels = {name: value for name, value in (metadata.get("labels") or {}).items() if not name.endswith("-id") or "node" in name}
    status = obj.get("status") or {}
    conditions = [{**condition, "lastTransitionTime": ""} for condition in status.get("conditions") or ()]
    run_main = {**obj, "metadata": {**metadata, "labels": labels}, "status": {**status, "conditions": conditions}}
    created: Object = orjson.loads(orjson.dumps(run_main, option=orjson.OPT_SORT_KEYS))
    return created


def run_with_crash(die_at: int | None, *, before: bool = True) -> tuple[list[Object], ObjectCounter, list[tuple[str, str]]]:
    """Run the scenario with one crash; returns the states, the created and deleted objects, and the calls up to the crash."""
    results: list[Any] = []

    async def run_main(twin: EmbeddedTwin) -> None:
        for obj in (SHARED, BYSTANDER):
            await Client(twin.cluster.transport()).create(obj)
        births, mortal = ObjectCounter(twin), RestartingController(twin, die_at, before=before)
        await clock.sleep(5)
        try:
            results.extend((await scenario(twin), births, mortal.first.sent))
        finally:
            await mortal.stop()
            await births.stop()

    run_on_twin(run_main)
    return results[0], results[1], results[2]


def test_scenario_without_a_crash() -> None:
    seen, births, _ = run_with_crash(None)
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
def test_crash_after_every_write(part: int) -> None:
    """The server's state after a write is that before the next call: a crash after each write covers every state."""
    _die_at(part, before=False)


@pytest.mark.real
@pytest.mark.skipif(not real_enabled(), reason="the long run: SLICEWORKS_REAL=1")
@pytest.mark.parametrize("part", range(4))
def test_crash_before_every_call(part: int) -> None:
    """Including reads."""
    _die_at(part, before=True)


def _die_at(part: int, *, before: bool) -> None:
    expected, births, calls = run_with_crash(None)
    fatal = [number for number, (method, _) in enumerate(calls) if before or method in WRITES]
    for number in fatal[part::4]:
        seen, born, _ = run_with_crash(number, before=before)
        where = f"killed {'before' if before else 'after'} call {number}: {' '.join(calls[number])}"
        assert seen == expected, where
        assert born.made == births.made, where
        assert born.gone == births.gone, where


def run_deletion_during_crash(die_at: int | None) -> tuple[list[Object], list[tuple[str, str]]]:
    """A definition and an instance that is deleted while the controller is down; returns what is left and the calls."""
    results: list[Any] = []

    async def run_main(twin: EmbeddedTwin) -> None:
        async def delete() -> None:
            await twin.ask("DELETE", f"{STALLS}/a")

        client = Client(twin.cluster.transport())
        mortal = RestartingController(twin, die_at, before=False, meanwhile=delete)
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
            result = await picture(twin)
            owned = [item for listed in result.values() for item in listed if "kro.run/instance-name" in item["metadata"]["labels"]]
            results.extend((owned + result[STALLS], sent))
        finally:
            await mortal.stop()

    run_on_twin(run_main)
    return results[0], results[1]


def test_instance_deleted_while_controller_was_down() -> None:
    left, calls = run_deletion_during_crash(None)
    assert left == []
    started = next(number for number, (_, path) in enumerate(calls) if path == f"{STALLS}/a")
    fatal = [number for number in range(started, len(calls)) if calls[number][0] in WRITES]
    assert len(fatal) > 5
    for number in fatal:
        left, _ = run_deletion_during_crash(number)
        assert left == [], f"killed after call {number}: {' '.join(calls[number])}"
