"""Those who watch a store and those who subscribe to it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from tests.support.stores import NODES, PODS, drain, put, remove, told

from sliceworks.base.errors import Expired
from sliceworks.twin.store import entries
from sliceworks.twin.store.buckets import Window
from sliceworks.twin.store.entries import ADDED, DELETED, MODIFIED, Change
from sliceworks.twin.store.store import Store

if TYPE_CHECKING:
    from sliceworks.twin.store.watches import Watch


def follow(store: Store, since: int = 1, namespace: str | None = None, name: str | None = None) -> Watch:
    return store.watch(PODS, lambda: None, namespace=namespace, name=name, since=since)


def test_a_watch_begins_after_its_revision_and_goes_on() -> None:
    store = Store()
    put(store, "a/x")
    put(store, "a/x")
    put(store, "n", resource=NODES)
    watch = follow(store, since=2)
    put(store, "a/y")
    remove(store, "a/x")
    assert drain(watch) == [(3, MODIFIED, "a/x"), (5, ADDED, "a/y"), (6, DELETED, "a/x")]
    put(store, "a/x")
    assert drain(watch) == [(7, ADDED, "a/x")]


def test_a_change_knows_what_was_before() -> None:
    store = Store()
    watch = follow(store)
    put(store, "a/x", 1)
    put(store, "a/x", 2)
    remove(store, "a/x")
    old = [change.old["value"] if change.old else None for change in watch.changes]
    assert old == [None, 1, 2]


@pytest.mark.parametrize(
    ("namespace", "name", "seen"),
    [
        (None, None, ["a/x", "a/y", "b/x"]),
        ("a", None, ["a/x", "a/y"]),
        (None, "x", ["a/x", "b/x"]),
        ("b", "x", ["b/x"]),
        ("b", "y", []),
    ],
)
@pytest.mark.parametrize("resumed", [False, True])
def test_a_watch_covers_a_namespace_or_a_name(namespace: str | None, name: str | None, seen: list[str], resumed: bool) -> None:
    store = Store()
    before = None if resumed else follow(store, 1, namespace, name)
    for key in ("a/x", "a/y", "b/x"):
        put(store, key)
    watch = before or follow(store, 1, namespace, name)
    assert [key for _, _, key in drain(watch)] == seen


def test_cluster_scoped_objects_are_watched_by_name() -> None:
    store = Store()
    watch = store.watch(NODES, lambda: None, name="n", since=1)
    put(store, "n", resource=NODES)
    put(store, "m", resource=NODES)
    assert [key for _, _, key in drain(watch)] == ["n"]


def test_nothing_comes_twice_or_from_before_its_revision() -> None:
    store = Store()
    watch = follow(store, since=5)
    for _ in range(6):
        put(store, "a/x")
    assert drain(watch) == [(6, MODIFIED, "a/x"), (7, MODIFIED, "a/x")]


def test_a_reader_is_woken_once_for_all_that_it_has_not_read() -> None:
    store, woken = Store(), []
    watch = store.watch(PODS, lambda: woken.append(store.revision), since=1)
    put(store, "a/x")
    put(store, "a/x")
    drain(watch)
    put(store, "a/x")
    assert woken == [2, 4]


def test_what_is_not_watched_any_more_is_not_told() -> None:
    store = Store()
    watches = [follow(store, namespace=namespace) for namespace in (None, "a", "a")]
    assert (store.watchers(PODS), store.watchers(NODES)) == (3, 0)
    store.unwatch(PODS, watches[1])
    store.unwatch(PODS, watches[1])
    put(store, "a/x")
    assert [len(watch.changes) for watch in watches] == [1, 0, 1]
    assert store.watchers(PODS) == 2


def test_a_reader_may_stop_watching_when_it_is_woken() -> None:
    store = Store()
    seen: list[str] = []

    def leave() -> None:
        store.unwatch(PODS, first)
        seen.append("woken")

    first = store.watch(PODS, leave, since=1)
    second = follow(store)
    put(store, "a/x")
    assert seen == ["woken"]
    assert len(second.changes) == 1


def test_closing_watches_ends_those_of_one_resource_or_all() -> None:
    store = Store()
    pods, nodes = follow(store), store.watch(NODES, lambda: None, since=1)
    put(store, "a/x")
    store.close_watches(PODS)
    assert (pods.closed, nodes.closed) == (True, False)
    put(store, "a/x")
    assert drain(pods) == [(2, ADDED, "a/x")], "what was told before the end is still there, later changes are not"
    store.close_watches()
    assert nodes.closed


def test_the_window_is_bounded_by_changes() -> None:
    store = Store(window=Window(changes=100))
    for number in range(1000):
        put(store, "a/x", number)
        assert len(store._bucket(PODS).changes) <= 125
    floor = store.compacted(PODS)
    assert store.revision - 125 <= floor <= store.revision - 100
    assert len(follow(store, since=floor).changes) == store.revision - floor
    with pytest.raises(Expired):
        follow(store, since=floor - 1)


def test_the_window_is_bounded_by_bytes() -> None:
    store = Store(window=Window(bytes=100_000))
    for number in range(200):
        put(store, "a/x", f"{number}" + "x" * 10_000)
        assert sum(len(change.entry.data) for change in store._bucket(PODS).changes) <= 125_000
    assert store.compacted(PODS) >= store.revision - 13
    put(store, "a/x", "x" * 500_000)
    assert store.compacted(PODS) == store.revision - 1, "the newest change is always there"


def test_each_resource_has_a_window_of_its_own() -> None:
    store = Store(window=Window(changes=10))
    put(store, "n", resource=NODES)
    for _ in range(100):
        put(store, "a/x")
    assert store.compacted(NODES) == 0
    assert told(store.watch(NODES, lambda: None, since=1).changes) == [(2, ADDED, "n")]


def test_a_reader_that_falls_out_of_the_window_is_cut_off() -> None:
    store = Store(window=Window(changes=10))
    slow, quick = follow(store), follow(store)
    for _ in range(12):
        put(store, "a/x")
        drain(quick)
    assert (slow.closed, len(slow.changes)) == (False, 12)
    put(store, "a/x")
    drain(quick)
    assert (slow.closed, len(slow.changes)) == (True, 0)
    put(store, "a/x")
    assert (len(slow.changes), quick.closed, len(quick.changes)) == (0, False, 1)


def test_compaction_leaves_watches_what_they_have_not_read() -> None:
    store = Store()
    watch = follow(store)
    put(store, "a/x")
    store.compact()
    put(store, "a/x")
    assert not watch.closed
    assert drain(watch) == [(2, ADDED, "a/x"), (3, MODIFIED, "a/x")]
    with pytest.raises(Expired):
        follow(store, since=1)


def test_lines_of_changes_are_kept_for_a_while_only(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = entries._Kept(10_000)
    monkeypatch.setattr(entries, "_kept", kept)
    store = Store()
    watch = follow(store)
    for number in range(100):
        put(store, "a/x", number)
    for change in watch.changes:
        change.lines["plain"] = b"x" * 1000
    assert [len(change.lines) for change in watch.changes] == [0] * 90 + [1] * 10
    assert kept.size == 10_000
    watch.changes[0].lines["table"] = b"x" * 20_000
    assert sum(len(change.lines) for change in watch.changes) == 0
    assert kept.size == 0


def test_a_subscriber_hears_of_what_is_there_and_of_every_change_in_order() -> None:
    store = Store()
    put(store, "b/x", 1)
    put(store, "a/x", 1)
    put(store, "b/x", 2)
    heard: list[Change] = []
    store.subscribe(heard.append)
    put(store, "n", resource=NODES)
    remove(store, "a/x")
    assert [(change.type, change.entry.key) for change in heard] == [
        (ADDED, "a/x"), (ADDED, "b/x"), (ADDED, "n"), (DELETED, "a/x"),
    ]  # fmt: skip


def test_a_subscriber_sees_the_object_without_decoding_it_and_nobody_keeps_it() -> None:
    store = Store()
    seen: list[bool] = []
    store.subscribe(lambda change: seen.append(change.obj is change.obj))
    watch = follow(store)
    put(store, "a/x", 7)
    assert seen == [True]
    change = watch.changes[0]
    assert change.obj["value"] == 7
    assert change.obj is not change.obj


def test_subscribers_that_write_see_changes_in_order_all_the_same() -> None:
    store = Store()
    heard: list[list[int]] = [[], []]

    def writes(change: Change) -> None:
        heard[0].append(change.revision)
        if change.entry.key == "a/x":
            put(store, "a/y")
            put(store, "a/z")

    store.subscribe(writes)
    store.subscribe(lambda change: heard[1].append(change.revision))
    watch = follow(store)
    put(store, "a/x")
    assert heard == [[2, 3, 4], [2, 3, 4]]
    assert [revision for revision, _, _ in drain(watch)] == [2, 3, 4]
    assert store.announced == 4


def test_a_subscriber_that_fails_takes_nothing_from_the_others(caplog: pytest.LogCaptureFixture) -> None:
    store = Store()
    heard: list[int] = []

    def fails(change: Change) -> None:
        raise ValueError("broken")

    store.subscribe(fails)
    store.subscribe(lambda change: heard.append(change.revision))
    with caplog.at_level(logging.ERROR):
        put(store, "a/x", "a secret")
    assert heard == [2]
    assert "a subscriber failed on revision 2 of /pods" in caplog.text
    assert "a secret" not in caplog.text
