"""Watches and subscribers of a store."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from tests.support.stores import NODES, PODS, drain, events, put, remove

from sliceworks.base.errors import Expired
from sliceworks.twin.store import watch_cache
from sliceworks.twin.store.store import Store
from sliceworks.twin.store.watch_cache import ADDED, DELETED, MODIFIED, Change, HistoryWindow

if TYPE_CHECKING:
    from sliceworks.twin.store.watch_cache import Watch


def follow(store: Store, since: int = 1, namespace: str | None = None, name: str | None = None) -> Watch:
    return store.watch(PODS, lambda: None, namespace=namespace, name=name, since=since)


def test_watch_returns_changes_after_its_revision() -> None:
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


def test_change_has_the_previous_object() -> None:
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
def test_watch_filters_by_namespace_and_name(namespace: str | None, name: str | None, seen: list[str], resumed: bool) -> None:
    store = Store()
    before = None if resumed else follow(store, 1, namespace, name)
    for key in ("a/x", "a/y", "b/x"):
        put(store, key)
    watch = before or follow(store, 1, namespace, name)
    assert [key for _, _, key in drain(watch)] == seen


def test_watch_of_cluster_scoped_object_by_name() -> None:
    store = Store()
    watch = store.watch(NODES, lambda: None, name="n", since=1)
    put(store, "n", resource=NODES)
    put(store, "m", resource=NODES)
    assert [key for _, _, key in drain(watch)] == ["n"]


def test_watch_skips_changes_up_to_its_revision() -> None:
    store = Store()
    watch = follow(store, since=5)
    for _ in range(6):
        put(store, "a/x")
    assert drain(watch) == [(6, MODIFIED, "a/x"), (7, MODIFIED, "a/x")]


def test_watch_wakes_its_reader_once_for_unread_changes() -> None:
    store, wakeups = Store(), []
    watch = store.watch(PODS, lambda: wakeups.append(store.revision), since=1)
    put(store, "a/x")
    put(store, "a/x")
    drain(watch)
    put(store, "a/x")
    assert wakeups == [2, 4]


def test_unwatch_stops_delivery() -> None:
    store = Store()
    watches = [follow(store, namespace=namespace) for namespace in (None, "a", "a")]
    assert (store.watchers(PODS), store.watchers(NODES)) == (3, 0)
    store.unwatch(PODS, watches[1])
    store.unwatch(PODS, watches[1])
    put(store, "a/x")
    assert [len(watch.changes) for watch in watches] == [1, 0, 1]
    assert store.watchers(PODS) == 2


def test_unwatch_inside_the_wake_callback() -> None:
    store = Store()
    seen: list[str] = []

    def leave() -> None:
        store.unwatch(PODS, first)
        seen.append("wakeups")

    first = store.watch(PODS, leave, since=1)
    second = follow(store)
    put(store, "a/x")
    assert seen == ["wakeups"]
    assert len(second.changes) == 1


def test_close_watches_of_one_resource_or_all() -> None:
    store = Store()
    pods, nodes = follow(store), store.watch(NODES, lambda: None, since=1)
    put(store, "a/x")
    store.close_watches(PODS)
    assert (pods.closed, nodes.closed) == (True, False)
    put(store, "a/x")
    assert drain(pods) == [(2, ADDED, "a/x")], "changes before the close stay readable, later ones are not delivered"
    store.close_watches()
    assert nodes.closed


def test_history_window_is_bounded_by_changes() -> None:
    store = Store(window=HistoryWindow(changes=100))
    for number in range(1000):
        put(store, "a/x", number)
        assert len(store._cache(PODS).changes) <= 125
    compacted = store.compacted(PODS)
    assert store.revision - 125 <= compacted <= store.revision - 100
    assert len(follow(store, since=compacted).changes) == store.revision - compacted
    with pytest.raises(Expired):
        follow(store, since=compacted - 1)


def test_history_window_is_bounded_by_bytes() -> None:
    store = Store(window=HistoryWindow(bytes=100_000))
    for number in range(200):
        put(store, "a/x", f"{number}" + "x" * 10_000)
        assert sum(len(change.entry.data) for change in store._cache(PODS).changes) <= 125_000
    assert store.compacted(PODS) >= store.revision - 13
    put(store, "a/x", "x" * 500_000)
    assert store.compacted(PODS) == store.revision - 1, "the newest change is always kept"


def test_history_window_is_per_resource() -> None:
    store = Store(window=HistoryWindow(changes=10))
    put(store, "n", resource=NODES)
    for _ in range(100):
        put(store, "a/x")
    assert store.compacted(NODES) == 0
    assert events(store.watch(NODES, lambda: None, since=1).changes) == [(2, ADDED, "n")]


def test_slow_watch_is_closed_when_history_is_trimmed() -> None:
    store = Store(window=HistoryWindow(changes=10))
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


def test_compaction_keeps_unread_changes_of_watches() -> None:
    store = Store()
    watch = follow(store)
    put(store, "a/x")
    store.compact()
    put(store, "a/x")
    assert not watch.closed
    assert drain(watch) == [(2, ADDED, "a/x"), (3, MODIFIED, "a/x")]
    with pytest.raises(Expired):
        follow(store, since=1)


def test_encoded_events_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    recent = watch_cache._RecentEvents(10_000)
    monkeypatch.setattr(watch_cache, "_recent", recent)
    store = Store()
    watch = follow(store)
    for number in range(100):
        put(store, "a/x", number)
    for change in watch.changes:
        change.encoded["plain"] = b"x" * 1000
    assert [len(change.encoded) for change in watch.changes] == [0] * 90 + [1] * 10
    assert recent.size == 10_000
    watch.changes[0].encoded["table"] = b"x" * 20_000
    assert sum(len(change.encoded) for change in watch.changes) == 0
    assert recent.size == 0


def test_subscriber_gets_existing_objects_then_changes_in_order() -> None:
    store = Store()
    put(store, "b/x", 1)
    put(store, "a/x", 1)
    put(store, "b/x", 2)
    changes_seen: list[Change] = []
    store.subscribe(changes_seen.append)
    put(store, "n", resource=NODES)
    remove(store, "a/x")
    assert [(change.type, change.entry.key) for change in changes_seen] == [
        (ADDED, "a/x"), (ADDED, "b/x"), (ADDED, "n"), (DELETED, "a/x"),
    ]  # fmt: skip


def test_subscriber_gets_the_decoded_object_which_is_released_afterwards() -> None:
    store = Store()
    seen: list[bool] = []
    store.subscribe(lambda change: seen.append(change.obj is change.obj))
    watch = follow(store)
    put(store, "a/x", 7)
    assert seen == [True]
    change = watch.changes[0]
    assert change.obj["value"] == 7
    assert change.obj is not change.obj


def test_subscribers_that_write_get_changes_in_order() -> None:
    store = Store()
    changes_seen: list[list[int]] = [[], []]

    def writes(change: Change) -> None:
        changes_seen[0].append(change.revision)
        if change.entry.key == "a/x":
            put(store, "a/y")
            put(store, "a/z")

    store.subscribe(writes)
    store.subscribe(lambda change: changes_seen[1].append(change.revision))
    watch = follow(store)
    put(store, "a/x")
    assert changes_seen == [[2, 3, 4], [2, 3, 4]]
    assert [revision for revision, _, _ in drain(watch)] == [2, 3, 4]
    assert store.announced == 4


def test_failing_subscriber_does_not_affect_others(caplog: pytest.LogCaptureFixture) -> None:
    store = Store()
    changes_seen: list[int] = []

    def fails(change: Change) -> None:
        raise ValueError("broken")

    store.subscribe(fails)
    store.subscribe(lambda change: changes_seen.append(change.revision))
    with caplog.at_level(logging.ERROR):
        put(store, "a/x", "a secret")
    assert changes_seen == [2]
    assert "subscriber failed on revision 2 of /pods" in caplog.text
    assert "a secret" not in caplog.text


def test_subscriber_of_some_resources_gets_no_others() -> None:
    store = Store()
    put(store, "a/x")
    put(store, "m", resource=NODES)
    changes_seen: list[Change] = []
    store.subscribe(changes_seen.append, (NODES,))
    put(store, "a/y")
    put(store, "n", resource=NODES)
    assert [change.entry.key for change in changes_seen] == ["m", "n"]
    store.unsubscribe(changes_seen.append)
    put(store, "o", resource=NODES)
    assert len(changes_seen) == 2
    with pytest.raises(ValueError, match="not in list"):
        store.unsubscribe(changes_seen.append)


def test_existing_object_is_decoded_once_for_a_subscriber() -> None:
    store = Store()
    put(store, "a/x", 7)
    seen: list[tuple[object, bool]] = []
    store.subscribe(lambda change: seen.append((change.obj["value"], change.obj is change.obj)))
    assert seen == [(7, True)]
