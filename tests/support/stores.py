"""Stores for tests: write, read back, and reopen after a close or a crash."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.twin.store.journal import Journal
from sliceworks.twin.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable
    from pathlib import Path

    from sliceworks.twin.store.entry import Entry
    from sliceworks.twin.store.watch_cache import Change, HistoryWindow, Watch

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
    """Delete an object; returns the revision of the deletion."""
    namespace, _, name = key.rpartition("/")
    return store.remove(resource, namespace, name, obj(key)).revision


def keys(entries: Iterable[Entry]) -> list[str]:
    return [entry.key for entry in entries]


def values(entries: Iterable[Entry]) -> dict[str, Any]:
    """The values of objects by key, in order."""
    return {entry.key: entry.object()["value"] for entry in entries}


def events(changes: Iterable[Change]) -> list[tuple[int, str, str]]:
    return [(change.revision, change.type, change.entry.key) for change in changes]


def drain(watch: Watch) -> list[tuple[int, str, str]]:
    """Remove and return the unread events of a watch."""
    seen = events(watch.changes)
    watch.changes.clear()
    return seen


def durable(folder: Path, window: HistoryWindow | None = None) -> Store:
    """A store with its journal in this folder."""
    return Store(Journal(folder / "store.db"), window=window)


def crashed(folder: Path, to: Path) -> Path:
    """Copy the files as a killed process leaves them."""
    to.mkdir()
    for file in folder.glob("store.db*"):
        if not file.name.endswith("-shm"):
            shutil.copy(file, to)
    return to
