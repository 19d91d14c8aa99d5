"""The dependency graph: which keys a change enqueues."""

from __future__ import annotations

from typing import Any

from sliceworks.twin.controllers.builtin.dependency_graph import DependencyGraph
from sliceworks.twin.controllers.runtime.controller_context import ObjectKey


def key(name: str) -> ObjectKey:
    return ObjectKey("/configmaps", "ns", name)


def metadata(
    name: str, *owners: str, block: bool = False, finalizers: tuple[str, ...] = (), deleting: bool = False
) -> dict[str, Any]:
    refs = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": f"uid-{owner}", "blockOwnerDeletion": block}
        for owner in owners
    ]
    fields: dict[str, Any] = {"name": name, "uid": f"uid-{name}", "ownerReferences": refs, "finalizers": list(finalizers)}
    return {**fields, "deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else fields


def test_objects_without_owners_are_not_held() -> None:
    graph = DependencyGraph()
    assert graph.put(key("a"), metadata("a")) == []
    assert graph.put(key("b"), metadata("b", finalizers=("x",), deleting=True)) == []
    assert graph.nodes == {}


def test_dependent_is_enqueued_when_its_owners_change() -> None:
    graph = DependencyGraph()
    assert graph.put(key("c"), metadata("c", "p")) == [key("c")]
    assert graph.put(key("c"), metadata("c", "p")) == []
    assert graph.put(key("c"), metadata("c", "p", "q")) == [key("c")]
    assert graph.dependents("uid-q") == [key("c")]
    graph.put(key("c"), metadata("c"))
    assert graph.nodes == {}
    assert graph.dependents("uid-p") == []


def test_deleted_owner_enqueues_its_dependents() -> None:
    graph = DependencyGraph()
    graph.put(key("c"), metadata("c", "p"))
    graph.put(key("d"), metadata("d", "p"))
    assert graph.remove(key("p"), "uid-p") == [key("c"), key("d")]


def test_waiting_owner_is_enqueued_when_a_dependent_is_deleted_or_released() -> None:
    graph = DependencyGraph()
    for name in ("c", "d", "e"):
        graph.put(key(name), metadata(name, "p", block=name != "e"))
    waiting = metadata("p", finalizers=("foregroundDeletion",), deleting=True)
    assert graph.put(key("p"), waiting) == [key("p"), key("c"), key("d"), key("e")]
    assert graph.blocking("uid-p") == [key("c"), key("d")]
    assert graph.remove(key("c"), "uid-c") == [key("p")]
    assert graph.put(key("d"), metadata("d")) == [key("p")]
    assert graph.blocking("uid-p") == []


def test_recreated_object_replaces_its_node() -> None:
    graph = DependencyGraph()
    graph.put(key("p"), metadata("p", "x"))
    graph.put(key("c"), metadata("c", "p"))
    assert graph.put(key("p"), {**metadata("p", "x"), "uid": "new"}) == [key("c"), key("p")]
