"""SortedKeys under additions and removals."""

from __future__ import annotations

from random import Random

from sliceworks.twin.store.watch_cache import SortedKeys


def test_keys_added_and_removed_between_reads() -> None:
    keys = SortedKeys()
    for key in ("b", "a", "c"):
        keys.add(key)
    assert keys.in_order() == ["a", "b", "c"]
    keys.remove("b")
    keys.add("b")
    keys.add("d")
    keys.remove("d")
    keys.add("d")
    keys.remove("a")
    assert keys.in_order() == ["b", "c", "d"]
    keys.add("a")
    assert keys.in_order() == ["a", "b", "c", "d"]


def test_returned_list_does_not_change() -> None:
    keys = SortedKeys()
    keys.add("a")
    before = keys.in_order()
    keys.add("b")
    assert (before, keys.in_order()) == (["a"], ["a", "b"])


def test_random_changes_match_a_sorted_set() -> None:
    random, keys, expected = Random(7), SortedKeys(), set[str]()
    for _ in range(5_000):
        key = str(random.randrange(200))
        if key in expected:
            keys.remove(key)
            expected.discard(key)
        else:
            keys.add(key)
            expected.add(key)
        if random.random() < 0.05:
            assert keys.in_order() == sorted(expected)
    assert keys.in_order() == sorted(expected)
