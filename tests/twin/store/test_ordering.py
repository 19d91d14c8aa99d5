"""Keys that come and go are in order whenever somebody looks, and only once."""

from __future__ import annotations

from random import Random

from sliceworks.twin.store.ordering import Ordered


def test_what_comes_and_goes_between_two_looks() -> None:
    keys = Ordered()
    for key in ("b", "a", "c"):
        keys.add(key)
    assert keys.listed() == ["a", "b", "c"]
    keys.remove("b")
    keys.add("b")
    keys.add("d")
    keys.remove("d")
    keys.add("d")
    keys.remove("a")
    assert keys.listed() == ["b", "c", "d"]
    keys.add("a")
    assert keys.listed() == ["a", "b", "c", "d"]


def test_a_list_stays_as_it_was() -> None:
    keys = Ordered()
    keys.add("a")
    before = keys.listed()
    keys.add("b")
    assert (before, keys.listed()) == (["a"], ["a", "b"])


def test_it_is_a_set_in_order_whatever_happens() -> None:
    chance, keys, there = Random(7), Ordered(), set[str]()
    for _ in range(5_000):
        key = str(chance.randrange(200))
        if key in there:
            keys.remove(key)
            there.discard(key)
        else:
            keys.add(key)
            there.add(key)
        if chance.random() < 0.05:
            assert keys.listed() == sorted(there)
    assert keys.listed() == sorted(there)
