"""`count` agrees with `scan`, now and at past revisions."""

from __future__ import annotations

import random

import pytest

from sliceworks.twin.store.store import Store

NAMES = [f"o-{number:02}" for number in range(20)]


def random_store(seed: int) -> Store:
    """A store after many writes and deletions in three namespaces with a common prefix."""
    choice, store = random.Random(seed), Store()
    for number in range(150):
        namespace, name = choice.choice(("a", "a-b", "b")), choice.choice(NAMES)
        entry = store.get("/pods", namespace, name)
        if entry is not None and choice.random() < 0.4:
            store.remove("/pods", namespace, name, entry.object())
        else:
            store.put("/pods", namespace, name, {"metadata": {"name": name, "namespace": namespace}, "number": number})
    return store


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("namespace", [None, "a", "a-b", "b", "c"])
def test_count_agrees_with_scan(seed: int, namespace: str | None) -> None:
    store = random_store(seed)
    for after in ("", "a/o-07", "a-b/o-10", "b/o-19", "z"):
        for at in (None, store.revision, store.revision - 1, store.revision - 40, 2):
            scanned = [entry.key for entry in store.scan("/pods", namespace, after=after, at=at)]
            assert store.count("/pods", namespace, after=after, at=at) == len(scanned)
            assert scanned == sorted(scanned)
