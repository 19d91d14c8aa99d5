"""The ownership graph: which keys a change makes worth a look."""

from __future__ import annotations

from typing import Any

from sliceworks.twin.controllers.graph import Graph
from sliceworks.twin.controllers.world import Key


def key(name: str) -> Key:
    return Key("/configmaps", "ns", name)


def metadata(
    name: str, *owners: str, block: bool = False, finalizers: tuple[str, ...] = (), deleting: bool = False
) -> dict[str, Any]:
    refs = [{"apiVersion": "v1", "kind": "ConfigMap", "name": o, "uid": f"uid-{o}", "blockOwnerDeletion": block} for o in owners]
    found: dict[str, Any] = {"name": name, "uid": f"uid-{name}", "ownerReferences": refs, "finalizers": list(finalizers)}
    return {**found, "deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else found


def test_objects_without_owners_cost_nothing() -> None:
    graph = Graph()
    assert graph.put(key("a"), metadata("a")) == []
    assert graph.put(key("b"), metadata("b", finalizers=("x",), deleting=True)) == []
    assert graph.nodes == {}


def test_a_dependent_is_looked_at_when_it_comes_and_when_its_owners_change() -> None:
    graph = Graph()
    assert graph.put(key("c"), metadata("c", "p")) == [key("c")]
    assert graph.put(key("c"), metadata("c", "p")) == []
    assert graph.put(key("c"), metadata("c", "p", "q")) == [key("c")]
    assert graph.dependents("uid-q") == [key("c")]
    graph.put(key("c"), metadata("c"))
    assert graph.nodes == {}
    assert graph.dependents("uid-p") == []


def test_the_end_of_an_owner_concerns_its_dependents() -> None:
    graph = Graph()
    graph.put(key("c"), metadata("c", "p"))
    graph.put(key("d"), metadata("d", "p"))
    assert graph.remove(key("p"), "uid-p") == [key("c"), key("d")]


def test_an_owner_that_waits_is_looked_at_when_a_dependent_goes_or_lets_go() -> None:
    graph = Graph()
    for name in ("c", "d", "e"):
        graph.put(key(name), metadata(name, "p", block=name != "e"))
    waiting = metadata("p", finalizers=("foregroundDeletion",), deleting=True)
    assert graph.put(key("p"), waiting) == [key("p"), key("c"), key("d"), key("e")]
    assert graph.blocking("uid-p") == [key("c"), key("d")]
    assert graph.remove(key("c"), "uid-c") == [key("p")]
    assert graph.put(key("d"), metadata("d")) == [key("p")]
    assert graph.blocking("uid-p") == []


def test_a_new_object_of_the_same_name_is_another() -> None:
    graph = Graph()
    graph.put(key("p"), metadata("p", "x"))
    graph.put(key("c"), metadata("c", "p"))
    assert graph.put(key("p"), {**metadata("p", "x"), "uid": "new"}) == [key("c"), key("p")]
