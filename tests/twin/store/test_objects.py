"""Objects in a store: revisions, key order and past revisions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from tests.support.stores import NODES, PODS, keys, put, remove, values

from sliceworks.base.errors import Expired
from sliceworks.twin.store.store import Store


def test_revision_increments_across_resources() -> None:
    store = Store()
    assert [put(store, "a/x"), put(store, "n", resource=NODES), put(store, "a/x"), remove(store, "a/x"), put(store, "a/x")] == [
        2, 3, 4, 5, 6,
    ]  # fmt: skip
    assert store.revision == store.announced == 6


def test_object_has_its_revision_as_resource_version() -> None:
    store = Store()
    revision = put(store, "a/x")
    entry = store.get(PODS, "a", "x")
    assert entry is not None
    assert entry.object()["metadata"]["resourceVersion"] == str(revision)
    assert entry.revision == revision


def test_failed_write_uses_no_revision() -> None:
    store = Store()
    with pytest.raises(orjson.JSONEncodeError):
        put(store, "a/x", 2**70)
    assert store.revision == 1
    assert store.get(PODS, "a", "x") is None
    assert put(store, "a/x") == 2


def test_decoded_objects_are_copies() -> None:
    store = Store()
    put(store, "a/x", {"deep": 1})
    entry = store.get(PODS, "a", "x")
    assert entry is not None
    entry.object()["value"]["deep"] = 2
    assert entry.object()["value"] == {"deep": 1}


def test_entry_labels() -> None:
    store = Store()
    put(store, "a/x", labels={"app": "web"})
    put(store, "a/y")
    assert [entry.labels for entry in store.scan(PODS)] == [{"app": "web"}, {}]


def test_scan_returns_keys_in_byte_order() -> None:
    store = Store()
    for key in ("a/x", "a.b/x", "a-b/x", "a0/x", "b/a", "a/a", "a/x.y", "a/x-y"):
        put(store, key)
    # "-" and "." come before "/", as they do in etcd.
    assert keys(store.scan(PODS)) == ["a-b/x", "a.b/x", "a/a", "a/x", "a/x-y", "a/x.y", "a0/x", "b/a"]


@pytest.mark.parametrize(
    ("namespace", "expected"),
    [
        ("a", ["a/a", "a/x"]),
        ("a-b", ["a-b/x"]),
        ("a.b", ["a.b/x"]),
        ("a0", ["a0/x"]),
        ("", ["a-b/x", "a.b/x", "a/a", "a/x", "a0/x"]),
    ],
)
def test_scan_distinguishes_namespaces_with_a_common_prefix(namespace: str, expected: list[str]) -> None:
    store = Store()
    for key in ("a/x", "a.b/x", "a-b/x", "a0/x", "a/a"):
        put(store, key)
    now = store.revision
    remove(store, "a/x")
    remove(store, "a-b/x")
    put(store, "a/new")
    assert keys(store.scan(PODS, namespace, at=now)) == expected
    assert keys(store.scan(PODS, namespace)) == [key for key in sorted([*expected, "a/new"]) if key in {
        "a.b/x", "a/a", "a0/x", "a/new"
    } and (not namespace or key.startswith(f"{namespace}/"))]  # fmt: skip


def test_scan_continues_after_a_key() -> None:
    store = Store()
    for key in ("a/1", "a/2", "a/3", "b/1"):
        put(store, key)
    assert keys(store.scan(PODS, after="a/2")) == ["a/3", "b/1"]
    assert keys(store.scan(PODS, "a", after="a/2")) == ["a/3"]
    # The key need not exist or be in the namespace.
    assert keys(store.scan(PODS, "a", after="a/1zzz")) == ["a/2", "a/3"]
    assert keys(store.scan(PODS, "b", after="a/2")) == ["b/1"]
    assert keys(store.scan(PODS, "a", after="b/0")) == []


def test_scan_at_every_past_revision() -> None:
    store = Store()
    put(store, "a/x", 1)
    put(store, "a/y", 1)
    put(store, "a/x", 2)
    remove(store, "a/y")
    put(store, "a/z", 1)
    put(store, "a/y", 2)
    seen = {at: values(store.scan(PODS, at=at)) for at in range(1, 8)}
    assert seen == {
        1: {},
        2: {"a/x": 1},
        3: {"a/x": 1, "a/y": 1},
        4: {"a/x": 2, "a/y": 1},
        5: {"a/x": 2},
        6: {"a/x": 2, "a/z": 1},
        7: {"a/x": 2, "a/y": 2, "a/z": 1},
    }
    assert list(seen[7]) == ["a/x", "a/y", "a/z"]
    assert keys(store.scan(PODS, "a", after="a/x", at=4)) == ["a/y"]


def test_resources_are_separate() -> None:
    store = Store()
    put(store, "n", resource=NODES)
    put(store, "a/x")
    assert keys(store.scan(NODES)) == ["n"]
    assert store.resources() == [NODES, PODS]
    assert (store.count(NODES), store.count(PODS), store.count("/secrets")) == (1, 1, 0)
    remove(store, "n", resource=NODES)
    assert store.resources() == [PODS]
    assert store.get(NODES, "", "n") is None
    assert store.get("/secrets", "a", "x") is None


def test_scan_during_writes() -> None:
    store = Store()
    for number in range(10):
        put(store, f"a/{number}")
    seen = []
    for entry in store.scan(PODS):
        seen.append(entry.key)
        if entry.key == "a/3":
            for number in (0, 4, 5, 9):
                remove(store, f"a/{number}")
            put(store, "a/00")
    assert seen == ["a/0", "a/1", "a/2", "a/3", "a/6", "a/7", "a/8"]


def test_scan_at_a_compacted_revision_fails() -> None:
    store = Store()
    put(store, "a/x", 1)
    put(store, "a/x", 2)
    store.compact()
    put(store, "a/x", 3)
    with pytest.raises(Expired, match=r"too old resource version: 2 \(3\)"):
        list(store.scan(PODS, at=2))
    assert values(store.scan(PODS, at=3)) == {"a/x": 2}
    assert store.compacted(PODS) == 3
    assert store.compacted("/secrets") == 0


FILL = """
from sliceworks.twin.store.store import Store
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
store = Store()
def fill(count):
    for number in range(count):
        store.put("/pods", "a", str(number), {"metadata": {}, "value": "x" * 1500})
fill(1000)
before = resident()
fill(20_000)
print((resident() - before) / 19_000)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_memory_per_object_is_bounded() -> None:
    completed = subprocess.run([sys.executable, "-c", FILL], capture_output=True, text=True, check=True)
    assert float(completed.stdout) < 3_000
