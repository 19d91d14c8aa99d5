"""Stores for tests: short ways to write, to read back, and to come back after an end or a crash."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.twin.store.journal import Journal
from sliceworks.twin.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable
    from pathlib import Path

    from sliceworks.twin.store.buckets import Window
    from sliceworks.twin.store.entries import Change, Entry
    from sliceworks.twin.store.watches import Watch

PODS, NODES = "/pods", "/nodes"


def run(main: Coroutine[Any, Any, None]) -> None:
    """Run a test's coroutine in virtual time."""
    clock.run(main, virtual=True, seed=1)


def obj(key: str, value: Any = None, **metadata: Any) -> dict[str, Any]:
    """An object for a key such as `ns/name` or `name`."""
    namespace, _, name = key.rpartition("/")
    place = {"namespace": namespace} if namespace else {}
    return {"metadata": {"name": name, **place, **metadata}, "value": value}


def put(store: Store, key: str, value: Any = None, resource: str = PODS, **metadata: Any) -> int:
    """Write an object; returns its revision."""
    namespace, _, name = key.rpartition("/")
    return store.put(resource, namespace, name, obj(key, value, **metadata)).revision


def remove(store: Store, key: str, resource: str = PODS) -> int:
    """Delete an object; returns the revision of that."""
    namespace, _, name = key.rpartition("/")
    return store.remove(resource, namespace, name, obj(key)).revision


def keys(entries: Iterable[Entry]) -> list[str]:
    return [entry.key for entry in entries]


def values(entries: Iterable[Entry]) -> dict[str, Any]:
    """Keys in their order, with what the objects hold."""
    return {entry.key: entry.object()["value"] for entry in entries}


def told(changes: Iterable[Change]) -> list[tuple[int, str, str]]:
    return [(change.revision, change.type, change.entry.key) for change in changes]


def drain(watch: Watch) -> list[tuple[int, str, str]]:
    """What a watch has to read now."""
    seen = told(watch.changes)
    watch.changes.clear()
    return seen


def durable(folder: Path, window: Window | None = None) -> Store:
    """A store with its journal in this folder."""
    return Store(Journal(folder / "store.db"), window=window)


def crashed(folder: Path, to: Path) -> Path:
    """A copy of the files as a killed process would leave them."""
    to.mkdir()
    for file in folder.glob("store.db*"):
        if not file.name.endswith("-shm"):
            shutil.copy(file, to)
    return to
