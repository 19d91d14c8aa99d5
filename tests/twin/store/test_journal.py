"""The store on disk: reload, compaction, and files that are not stores."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from tests.support.stores import NODES, PODS, crashed, drain, durable, events, keys, put, remove, run, values

from sliceworks.base.errors import Expired, SliceworksError
from sliceworks.twin.store.journal import Journal
from sliceworks.twin.store.store import Store
from sliceworks.twin.store.watch_cache import ADDED, DELETED, MODIFIED, HistoryWindow

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def reopened(folder: Path, work: Callable[[Store], None], window: HistoryWindow | None = None) -> Store:
    """A store that was filled, closed and reopened."""

    async def main() -> None:
        store = durable(folder, window)
        work(store)
        await store.wait_durable()
        store.close()

    run(main())
    return durable(folder, window)


def count(folder: Path) -> int:
    db = sqlite3.connect(folder / "store.db")
    (rows,) = db.execute("SELECT count(*) FROM log").fetchone()
    db.close()
    return int(rows)


def history(store: Store) -> None:
    put(store, "a/x", 1)
    put(store, "b/y", {"text": "é ☃", "list": [1, 2.5, None, True]})
    put(store, "n", "node", resource=NODES)
    put(store, "a/x", 2)
    remove(store, "b/y")
    put(store, "b/y", 3)
    remove(store, "n", resource=NODES)


def test_reload_restores_objects_and_history(tmp_path: Path) -> None:
    store = reopened(tmp_path, history)
    assert (store.revision, store.announced) == (8, 8)
    assert values(store.scan(PODS)) == {"a/x": 2, "b/y": 3}
    assert keys(store.scan(NODES)) == []
    assert store.resources() == [PODS]
    assert values(store.scan(PODS, at=3)) == {"a/x": 1, "b/y": {"text": "é ☃", "list": [1, 2.5, None, True]}}
    assert events(store.watch(PODS, lambda: None, since=1).changes) == [
        (2, ADDED, "a/x"), (3, ADDED, "b/y"), (5, MODIFIED, "a/x"), (6, DELETED, "b/y"), (7, ADDED, "b/y"),
    ]  # fmt: skip
    assert events(store.watch(NODES, lambda: None, since=4).changes) == [(8, DELETED, "n")]
    entry = store.get(PODS, "a", "x")
    assert entry is not None
    assert entry.object()["metadata"]["resourceVersion"] == "5"
    store.close()


def test_watch_resumes_after_a_restart(tmp_path: Path) -> None:
    store = reopened(tmp_path, history)

    async def main() -> None:
        watch = store.watch(PODS, lambda: None, since=6)
        put(store, "a/z")
        await store.wait_durable()
        assert drain(watch) == [(7, ADDED, "b/y"), (9, ADDED, "a/z")]
        store.close()

    run(main())


def test_revision_survives_compaction_of_all_rows(tmp_path: Path) -> None:
    def work(store: Store) -> None:
        put(store, "a/x")
        remove(store, "a/x")
        store.compact()

    store = reopened(tmp_path, work)
    assert store.revision == 3
    assert store.compacted(PODS) == 3
    with pytest.raises(Expired):
        store.watch(PODS, lambda: None, since=2)
    store.close()
    assert count(tmp_path) == 0


def test_compaction_survives_a_restart(tmp_path: Path) -> None:
    def work(store: Store) -> None:
        history(store)
        store.compact()
        put(store, "a/x", 4)

    store = reopened(tmp_path, work)
    assert values(store.scan(PODS)) == {"a/x": 4, "b/y": 3}
    assert values(store.scan(PODS, at=8)) == {"a/x": 2, "b/y": 3}
    assert events(store.watch(PODS, lambda: None, since=8).changes) == [(9, MODIFIED, "a/x")]
    with pytest.raises(Expired):
        list(store.scan(PODS, at=7))
    store.close()
    assert count(tmp_path) == 3


def test_smaller_window_applies_on_open(tmp_path: Path) -> None:
    def work(store: Store) -> None:
        for number in range(100):
            put(store, f"a/{number % 3}", number)

    reopened(tmp_path, work).close()
    assert count(tmp_path) == 100
    store = durable(tmp_path, HistoryWindow(changes=10))
    assert store.compacted(PODS) == 91

    async def main() -> None:
        put(store, "a/0")
        await store.wait_durable()
        store.close()

    run(main())
    assert count(tmp_path) <= 15


def test_killed_process_loses_no_durable_write(tmp_path: Path) -> None:
    (tmp_path / "alive").mkdir()

    async def main() -> None:
        store = durable(tmp_path / "alive", HistoryWindow(changes=10))
        for number in range(50):
            put(store, f"a/{number % 4}", number)
            await store.wait_durable()
        put(store, "a/x", "pending")
        recovered = durable(crashed(tmp_path / "alive", tmp_path / "dead"), HistoryWindow(changes=10))
        assert values(recovered.scan(PODS)) == {"a/0": 48, "a/1": 49, "a/2": 46, "a/3": 47}
        assert recovered.revision == 51
        assert recovered.compacted(PODS) <= store.compacted(PODS)
        recovered.close()
        store.close()

    run(main())


def test_torn_log_loses_only_the_torn_commit(tmp_path: Path) -> None:
    (tmp_path / "alive").mkdir()

    async def main() -> None:
        store = durable(tmp_path / "alive")
        for number in range(10):
            put(store, f"a/{number}")
            await store.wait_durable()
        dead = crashed(tmp_path / "alive", tmp_path / "dead")
        log = dead / "store.db-wal"
        os.truncate(log, log.stat().st_size - 100)
        recovered = durable(dead)
        assert len(list(recovered.scan(PODS))) == recovered.revision - 1 == 9
        recovered.close()
        store.close()

    run(main())


def test_file_size_is_bounded(tmp_path: Path) -> None:
    sizes: list[int] = []

    async def main() -> None:
        store = Store(Journal(tmp_path / "store.db", checkpoint_bytes=500_000), window=HistoryWindow(changes=100))
        for number in range(100_000):
            put(store, "a/x", number)
            if number % 100 == 99:
                await store.wait_durable()
            if number % 10_000 == 9_999:
                sizes.append(sum(file.stat().st_size for file in tmp_path.iterdir()))
        assert count(tmp_path) <= 251
        store.close()

    run(main())
    assert max(sizes) < 8_000_000, sizes
    assert (tmp_path / "store.db").stat().st_size < 500_000
    store = durable(tmp_path)
    assert values(store.scan(PODS)) == {"a/x": 99_999}
    assert store.revision == 100_001
    store.close()


def test_writer_waits_for_a_slow_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint, blocked, checkpoints = Journal._checkpoint, threading.Event(), list[int]()

    def slow(journal: Journal) -> None:
        blocked.wait(0.2)
        checkpoints.append(1)
        checkpoint(journal)

    monkeypatch.setattr(Journal, "_checkpoint", slow)
    largest = 0

    async def main() -> None:
        nonlocal largest
        store = Store(Journal(tmp_path / "store.db", checkpoint_bytes=50_000), window=HistoryWindow(changes=100))
        for number in range(20_000):
            put(store, "a/x", number)
            if number % 100 == 99:
                await store.wait_durable()
                largest = max(largest, (tmp_path / "store.db-wal").stat().st_size)
        store.close()

    run(main())
    # Without waiting, the log would contain all writes: about nine million bytes.
    assert largest < 1_000_000, largest
    assert len(checkpoints) > 5


def test_many_objects_load_in_key_order(tmp_path: Path) -> None:
    def work(store: Store) -> None:
        for number in range(5_000):
            put(store, f"ns-{number % 7}/{number * 7919 % 5_000}")

    store = reopened(tmp_path, work, HistoryWindow(changes=100))
    loaded = keys(store.scan(PODS))
    assert loaded == sorted(loaded)
    assert len(loaded) == 5_000
    assert len(store._cache(PODS).changes) <= 125
    store.close()


def test_files_are_private(tmp_path: Path) -> None:
    store = reopened(tmp_path, lambda store: None)

    async def main() -> None:
        put(store, "a/x")
        await store.wait_durable()
        assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}
        assert len(list(tmp_path.iterdir())) == 4
        store.close()

    run(main())


def test_store_can_be_opened_only_once(tmp_path: Path) -> None:
    store = durable(tmp_path)
    with pytest.raises(SliceworksError, match=r"store\.db: in use by another twin"):
        Journal(tmp_path / "store.db")
    program = "import sys, pathlib; from sliceworks.twin.store.journal import Journal; Journal(pathlib.Path(sys.argv[1]))"
    completed = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "store.db")], capture_output=True, text=True, check=False
    )
    assert "in use by another twin" in completed.stderr
    store.close()
    durable(tmp_path).close()


def open_error(tmp_path: Path) -> str:
    with pytest.raises(SliceworksError) as caught:
        durable(tmp_path)
    assert "\n" not in str(caught.value)
    assert str(tmp_path / "store.db") in str(caught.value)
    assert "reset" in caught.value.hint
    return str(caught.value)


def test_file_that_is_not_a_database(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"apiVersion: v1\n" * 1000)
    assert "file is not a database" in open_error(tmp_path)
    assert (tmp_path / "store.db").read_bytes().startswith(b"apiVersion")


@pytest.mark.parametrize("schema", ["CREATE TABLE log (id INTEGER)", "CREATE TABLE people (name TEXT)"])
def test_foreign_database_is_rejected_and_unchanged(tmp_path: Path, schema: str) -> None:
    db = sqlite3.connect(tmp_path / "store.db")
    db.execute(schema)
    db.close()
    before = (tmp_path / "store.db").read_bytes()
    assert "not a store of this version of Sliceworks" in open_error(tmp_path)
    assert (tmp_path / "store.db").read_bytes() == before


def test_store_of_another_version_is_rejected(tmp_path: Path) -> None:
    durable(tmp_path).close()
    db = sqlite3.connect(tmp_path / "store.db")
    db.execute("PRAGMA user_version = 99")
    db.close()
    assert "not a store of this version" in open_error(tmp_path)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON log BEGIN SELECT 1; END",
        "CREATE VIEW v AS SELECT 1",
        "CREATE TABLE other (a)",
        "CREATE INDEX i ON log (data)",
        "ALTER TABLE log ADD COLUMN more TEXT CHECK (more GLOB '*')",
    ],
)
def test_store_with_other_statements_is_rejected(tmp_path: Path, statement: str) -> None:
    """In a backup of others, a trigger would run with each write of the twin."""
    durable(tmp_path).close()
    db = sqlite3.connect(tmp_path / "store.db")
    db.execute(statement)
    db.commit()
    db.close()
    with pytest.raises(SliceworksError, match="the store is damaged: its tables are not those of a twin"):
        durable(tmp_path)


def test_damaged_pages_are_reported(tmp_path: Path) -> None:
    def work(store: Store) -> None:
        for number in range(500):
            put(store, f"a/{number}", "x" * 500)

    reopened(tmp_path, work).close()
    with (tmp_path / "store.db").open("r+b") as file:
        file.seek(8 * 4096)
        file.write(os.urandom(20 * 4096))
    journal = Journal(tmp_path / "store.db")
    with pytest.raises(SliceworksError, match="cannot read the store"):
        Store(journal)
    journal.close()


def test_path_that_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "store.db").mkdir()
    assert "cannot open the store" in open_error(tmp_path)
    with pytest.raises(SliceworksError, match="No such file or directory"):
        durable(tmp_path / "missing")
