"""The store on disk: what comes back, what is thrown away, and files that are none of ours."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from tests.support.stores import NODES, PODS, crashed, drain, durable, keys, put, remove, run, told, values

from sliceworks.base.errors import Expired, SliceworksError
from sliceworks.twin.store.buckets import Window
from sliceworks.twin.store.entries import ADDED, DELETED, MODIFIED
from sliceworks.twin.store.journal import Journal
from sliceworks.twin.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def written(folder: Path, work: Callable[[Store], None], window: Window | None = None) -> Store:
    """A store that was filled, closed and opened again."""

    async def main() -> None:
        store = durable(folder, window)
        work(store)
        await store.settled()
        store.close()

    run(main())
    return durable(folder, window)


def count(folder: Path) -> int:
    db = sqlite3.connect(folder / "store.db")
    (found,) = db.execute("SELECT count(*) FROM log").fetchone()
    db.close()
    return int(found)


def history(store: Store) -> None:
    put(store, "a/x", 1)
    put(store, "b/y", {"text": "é ☃", "list": [1, 2.5, None, True]})
    put(store, "n", "node", resource=NODES)
    put(store, "a/x", 2)
    remove(store, "b/y")
    put(store, "b/y", 3)
    remove(store, "n", resource=NODES)


def test_everything_comes_back(tmp_path: Path) -> None:
    store = written(tmp_path, history)
    assert (store.revision, store.announced) == (8, 8)
    assert values(store.scan(PODS)) == {"a/x": 2, "b/y": 3}
    assert keys(store.scan(NODES)) == []
    assert store.resources() == [PODS]
    assert values(store.scan(PODS, at=3)) == {"a/x": 1, "b/y": {"text": "é ☃", "list": [1, 2.5, None, True]}}
    assert told(store.watch(PODS, lambda: None, since=1).changes) == [
        (2, ADDED, "a/x"), (3, ADDED, "b/y"), (5, MODIFIED, "a/x"), (6, DELETED, "b/y"), (7, ADDED, "b/y"),
    ]  # fmt: skip
    assert told(store.watch(NODES, lambda: None, since=4).changes) == [(8, DELETED, "n")]
    entry = store.get(PODS, "a", "x")
    assert entry is not None
    assert entry.object()["metadata"]["resourceVersion"] == "5"
    store.close()


def test_a_watch_goes_on_where_it_was_before_the_restart(tmp_path: Path) -> None:
    store = written(tmp_path, history)

    async def main() -> None:
        watch = store.watch(PODS, lambda: None, since=6)
        put(store, "a/z")
        await store.settled()
        assert drain(watch) == [(7, ADDED, "b/y"), (9, ADDED, "a/z")]
        store.close()

    run(main())


def test_the_revision_never_goes_back_even_when_nothing_is_left_of_it(tmp_path: Path) -> None:
    def work(store: Store) -> None:
        put(store, "a/x")
        remove(store, "a/x")
        store.compact()

    store = written(tmp_path, work)
    assert store.revision == 3
    assert store.compacted(PODS) == 3
    with pytest.raises(Expired):
        store.watch(PODS, lambda: None, since=2)
    store.close()
    assert count(tmp_path) == 0


def test_a_compaction_is_remembered_and_keeps_the_objects(tmp_path: Path) -> None:
    def work(store: Store) -> None:
        history(store)
        store.compact()
        put(store, "a/x", 4)

    store = written(tmp_path, work)
    assert values(store.scan(PODS)) == {"a/x": 4, "b/y": 3}
    assert values(store.scan(PODS, at=8)) == {"a/x": 2, "b/y": 3}
    assert told(store.watch(PODS, lambda: None, since=8).changes) == [(9, MODIFIED, "a/x")]
    with pytest.raises(Expired):
        list(store.scan(PODS, at=7))
    store.close()
    assert count(tmp_path) == 3


def test_a_smaller_window_takes_effect_when_the_store_is_opened(tmp_path: Path) -> None:
    def work(store: Store) -> None:
        for number in range(100):
            put(store, f"a/{number % 3}", number)

    written(tmp_path, work).close()
    assert count(tmp_path) == 100
    store = durable(tmp_path, Window(changes=10))
    assert store.compacted(PODS) == 91

    async def main() -> None:
        put(store, "a/0")
        await store.settled()
        store.close()

    run(main())
    assert count(tmp_path) <= 15


def test_a_killed_process_loses_nothing_that_was_settled(tmp_path: Path) -> None:
    (tmp_path / "alive").mkdir()

    async def main() -> None:
        store = durable(tmp_path / "alive", Window(changes=10))
        for number in range(50):
            put(store, f"a/{number % 4}", number)
            await store.settled()
        put(store, "a/x", "not settled")
        again = durable(crashed(tmp_path / "alive", tmp_path / "dead"), Window(changes=10))
        assert values(again.scan(PODS)) == {"a/0": 48, "a/1": 49, "a/2": 46, "a/3": 47}
        assert again.revision == 51
        assert again.compacted(PODS) <= store.compacted(PODS)
        again.close()
        store.close()

    run(main())


def test_a_log_that_was_torn_loses_the_torn_commit_alone(tmp_path: Path) -> None:
    (tmp_path / "alive").mkdir()

    async def main() -> None:
        store = durable(tmp_path / "alive")
        for number in range(10):
            put(store, f"a/{number}")
            await store.settled()
        dead = crashed(tmp_path / "alive", tmp_path / "dead")
        log = dead / "store.db-wal"
        os.truncate(log, log.stat().st_size - 100)
        again = durable(dead)
        assert len(list(again.scan(PODS))) == again.revision - 1 == 9
        again.close()
        store.close()

    run(main())


def test_files_do_not_grow_with_the_number_of_writes(tmp_path: Path) -> None:
    sizes: list[int] = []

    async def main() -> None:
        store = Store(Journal(tmp_path / "store.db", fold_after=500_000), window=Window(changes=100))
        for number in range(100_000):
            put(store, "a/x", number)
            if number % 100 == 99:
                await store.settled()
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


def test_a_writer_waits_for_a_fold_that_falls_far_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fold, held, folds = Journal._fold, threading.Event(), list[int]()

    def slow(journal: Journal) -> None:
        held.wait(0.2)
        folds.append(1)
        fold(journal)

    monkeypatch.setattr(Journal, "_fold", slow)
    largest = 0

    async def main() -> None:
        nonlocal largest
        store = Store(Journal(tmp_path / "store.db", fold_after=50_000), window=Window(changes=100))
        for number in range(20_000):
            put(store, "a/x", number)
            if number % 100 == 99:
                await store.settled()
                largest = max(largest, (tmp_path / "store.db-wal").stat().st_size)
        store.close()

    run(main())
    # Without waiting the log would have all writes in it: some nine million bytes.
    assert largest < 1_000_000, largest
    assert len(folds) > 5


def test_many_objects_load_in_key_order(tmp_path: Path) -> None:
    def work(store: Store) -> None:
        for number in range(5_000):
            put(store, f"ns-{number % 7}/{number * 7919 % 5_000}")

    store = written(tmp_path, work, Window(changes=100))
    found = keys(store.scan(PODS))
    assert found == sorted(found)
    assert len(found) == 5_000
    assert len(store._bucket(PODS).changes) <= 125
    store.close()


def test_the_files_are_their_owners_alone(tmp_path: Path) -> None:
    store = written(tmp_path, lambda store: None)

    async def main() -> None:
        put(store, "a/x")
        await store.settled()
        assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}
        assert len(list(tmp_path.iterdir())) == 4
        store.close()

    run(main())


def test_two_twins_cannot_share_a_file(tmp_path: Path) -> None:
    store = durable(tmp_path)
    with pytest.raises(SliceworksError, match=r"store\.db: another twin is using it"):
        Journal(tmp_path / "store.db")
    program = "import sys, pathlib; from sliceworks.twin.store.journal import Journal; Journal(pathlib.Path(sys.argv[1]))"
    ended = subprocess.run([sys.executable, "-c", program, str(tmp_path / "store.db")], capture_output=True, text=True, check=False)
    assert "another twin is using it" in ended.stderr
    store.close()
    durable(tmp_path).close()


def broken(tmp_path: Path) -> str:
    with pytest.raises(SliceworksError) as caught:
        durable(tmp_path)
    assert "\n" not in str(caught.value)
    assert str(tmp_path / "store.db") in str(caught.value)
    assert "reset" in caught.value.hint
    return str(caught.value)


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"apiVersion: v1\n" * 1000)
    assert "file is not a database" in broken(tmp_path)
    assert (tmp_path / "store.db").read_bytes().startswith(b"apiVersion")


@pytest.mark.parametrize("schema", ["CREATE TABLE log (id INTEGER)", "CREATE TABLE people (name TEXT)"])
def test_a_database_of_somebody_else_is_left_alone(tmp_path: Path, schema: str) -> None:
    db = sqlite3.connect(tmp_path / "store.db")
    db.execute(schema)
    db.close()
    before = (tmp_path / "store.db").read_bytes()
    assert "is not a store of this version of Sliceworks" in broken(tmp_path)
    assert (tmp_path / "store.db").read_bytes() == before


def test_a_store_of_another_version(tmp_path: Path) -> None:
    durable(tmp_path).close()
    db = sqlite3.connect(tmp_path / "store.db")
    db.execute("PRAGMA user_version = 99")
    db.close()
    assert "is not a store of this version" in broken(tmp_path)


def test_a_file_with_damaged_pages(tmp_path: Path) -> None:
    def work(store: Store) -> None:
        for number in range(500):
            put(store, f"a/{number}", "x" * 500)

    written(tmp_path, work).close()
    with (tmp_path / "store.db").open("r+b") as file:
        file.seek(8 * 4096)
        file.write(os.urandom(20 * 4096))
    journal = Journal(tmp_path / "store.db")
    with pytest.raises(SliceworksError, match="cannot be read as a store"):
        Store(journal)
    journal.close()


def test_places_where_no_file_can_be(tmp_path: Path) -> None:
    (tmp_path / "store.db").mkdir()
    assert "cannot be used as a store" in broken(tmp_path)
    with pytest.raises(SliceworksError, match="No such file or directory"):
        durable(tmp_path / "missing")
