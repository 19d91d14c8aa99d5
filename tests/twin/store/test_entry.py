"""Compression of objects that did not change for some time."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from tests.support.stores import PODS, keys, put, remove, values

from sliceworks.twin.store.entry import Entry, RecentEntries
from sliceworks.twin.store.store import Store
from sliceworks.twin.store.watch_cache import HistoryWindow

if TYPE_CHECKING:
    from collections.abc import Callable

WINDOW = HistoryWindow(uncompressed_bytes=20_000)


def value(number: int) -> dict[str, object]:
    """A value of 2 KB that differs from others in few bytes."""
    return {"number": number, "fields": [f"field-{index}-of-a-long-list" for index in range(80)]}


def stored_bytes(entry: Entry) -> int:
    """What an entry keeps of its object."""
    stored = entry._stored
    return len(stored if isinstance(stored, bytes) else stored._data)


def filled(change: Callable[[Store], object] = lambda _: None) -> Store:
    store = Store(window=WINDOW)
    for number in range(100):
        put(store, f"a/x-{number:03}", value(number))
        change(store)
    return store


def test_old_objects_are_compressed_and_read_as_before() -> None:
    store = filled()
    entries = list(store.scan(PODS))
    assert [entry.object()["value"] for entry in entries] == [value(number) for number in range(100)]
    assert [entry.size for entry in entries] == [len(entry.data) for entry in entries]
    compressed = [entry for entry in entries if stored_bytes(entry) < entry.size]
    # The newest 20 KB are not compressed, and the first object is the dictionary of the others.
    assert [entry.name for entry in compressed] == [f"x-{number:03}" for number in range(1, 100 - 20_000 // entries[-1].size)]
    assert all(stored_bytes(entry) < entry.size / 10 for entry in compressed)


def test_a_small_store_is_not_compressed() -> None:
    store = Store(window=WINDOW)
    for number in range(5):
        put(store, f"a/x-{number}", value(number))
    assert all(stored_bytes(entry) == entry.size for entry in store.scan(PODS))


def test_only_current_objects_are_compressed() -> None:
    store = filled(lambda store: put(store, "a/often", value(store.revision)))
    history = [change.entry for change in store._cache(PODS).since(0) if change.name == "often"]
    assert len(history) == 100
    assert all(stored_bytes(entry) == entry.size for entry in history)


def test_history_and_deletions_read_compressed_objects() -> None:
    store = filled()
    revision = store.revision
    put(store, "a/x-010", {"new": True})
    remove(store, "a/x-011")
    assert keys(store.scan(PODS, at=revision)) == [f"a/x-{number:03}" for number in range(100)]
    assert values(store.scan(PODS, at=revision))["a/x-010"] == value(10)
    assert values(store.scan(PODS))["a/x-010"] == {"new": True}
    assert "a/x-011" not in keys(store.scan(PODS))


def test_unlike_objects_stay_as_they_are() -> None:
    recent, contents = RecentEntries(0), [Random(number).randbytes(2_000) for number in range(3)]
    entries = [Entry(PODS, "a", str(number), number, content) for number, content in enumerate(contents)]
    for entry in entries:
        recent.add(entry, {entry.key: entry})
    assert [entry.data for entry in entries] == contents
    assert all(stored_bytes(entry) == entry.size for entry in entries)


def test_large_objects_are_not_compressed() -> None:
    recent = RecentEntries(0)
    for number in range(3):
        entry = Entry(PODS, "a", str(number), number, b"0" * 200_000)
        recent.add(entry, {entry.key: entry})
        assert stored_bytes(entry) == 200_000
