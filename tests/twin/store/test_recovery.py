"""Power loss, damage and copies of the store on disk."""

from __future__ import annotations

import os
import queue
import shutil
import sqlite3
import threading
from random import Random
from typing import TYPE_CHECKING

import pytest
from tests.support.stores import NODES, PODS, durable, put, remove, run, values

from sliceworks.base.errors import Expired, SliceworksError
from sliceworks.twin.store import recovery
from sliceworks.twin.store.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def fill(folder: Path, count: int = 6) -> None:
    async def main() -> None:
        store = durable(folder)
        for number in range(count):
            put(store, f"a/{number}", number)
            await store.wait_durable()
        put(store, "a/0", "newer")
        put(store, "n", 1, resource=NODES)
        await store.wait_durable()
        store.close()

    run(main())


def execute(folder: Path, statement: str, *values: object) -> None:
    db = sqlite3.connect(folder / "store.db")
    db.execute(statement, values)
    db.commit()
    db.close()


@pytest.mark.timeout(3600 if os.environ.get("SLICEWORKS_FUZZ") else 300)
def test_log_cut_at_any_byte_loses_only_the_end(tmp_path: Path) -> None:
    """After a power loss the WAL may end anywhere: the store opens with the first writes, and no write in between is missing."""
    alive, dead = tmp_path / "alive", tmp_path / "dead"
    alive.mkdir()

    async def main() -> None:
        store = durable(alive)
        for number in range(4):
            put(store, f"a/{number}", number)
            await store.wait_durable()
        wal, base = (alive / "store.db-wal").read_bytes(), (alive / "store.db").read_bytes()
        frame = 24 + 4096
        starts = range(32, len(wal), frame)
        cuts = {cut for start in starts for cut in range(start - 3, start + 30)} | set(range(0, len(wal), 211)) | {len(wal)}
        if os.environ.get("SLICEWORKS_FUZZ"):
            cuts = set(range(len(wal) + 1))
        seen: set[int] = set()
        for cut in sorted(cuts):
            shutil.rmtree(dead, ignore_errors=True)
            dead.mkdir()
            (dead / "store.db").write_bytes(base)
            (dead / "store.db-wal").write_bytes(wal[:cut])
            restored = durable(dead)
            result = values(restored.scan(PODS))
            assert result == {f"a/{number}": number for number in range(len(result))}
            assert restored.revision == 1 + len(result)
            restored.close()
            seen.add(len(result))
        assert seen == {0, 1, 2, 3, 4}
        store.close()

    run(main())


@pytest.mark.parametrize("column", ["data", "name", "resource", "deleted", "revision"])
def test_changed_row_is_noticed(tmp_path: Path, column: str) -> None:
    fill(tmp_path)
    change = {"data": "replace(CAST(data AS TEXT), '3', '4')", "deleted": "1", "revision": "100"}.get(column, f"{column} || 'x'")
    value = f"CAST({change} AS BLOB)" if column == "data" else change
    execute(tmp_path, f"UPDATE log SET {column} = {value} WHERE name = '3'")
    with pytest.raises(SliceworksError) as refusal:
        durable(tmp_path)
    assert "the store is damaged: revision" in refusal.value.message
    assert "twin recover" in refusal.value.hint


def test_recovery_sets_damaged_objects_back_and_reports_them(tmp_path: Path) -> None:
    fill(tmp_path)
    execute(tmp_path, "UPDATE log SET data = x'7b' WHERE name = '3' OR revision = 8")
    report = recovery.recover(tmp_path / "store.db")
    assert sorted(report.lost) == ["/pods a/0: set back to revision 2", "/pods a/3: lost"]
    assert (report.kept, report.damaged) == (6, tmp_path / "store.db.damaged-1")
    store = durable(tmp_path)
    assert values(store.scan(PODS)) == {"a/0": 0, "a/1": 1, "a/2": 2, "a/4": 4, "a/5": 5}
    assert store.revision == 9
    with pytest.raises(Expired):
        store.watch(PODS, lambda: None, since=5)
    store.close()
    assert recovery.recover(tmp_path / "store.db") == recovery.RecoveryReport()


def test_recovery_reads_around_damaged_pages(tmp_path: Path) -> None:
    fill(tmp_path, 200)
    file = tmp_path / "store.db"
    content = bytearray(file.read_bytes())
    middle = len(content) // 4096 // 2 * 4096
    content[middle : middle + 4096] = b"\xff" * 4096
    file.write_bytes(content)
    with pytest.raises(SliceworksError) as refusal:
        durable(tmp_path)
    assert "twin recover" in refusal.value.hint
    report = recovery.recover(file)
    assert report.lost[0].startswith("revisions from ")
    assert report.kept > 100
    store = durable(tmp_path)
    assert len(values(store.scan(PODS))) + 1 == report.kept
    store.close()


def test_any_flipped_bit_is_noticed_or_harmless(tmp_path: Path) -> None:
    """No damage of the file is served as an object: the store refuses to open, or has exactly what was written."""
    fill(tmp_path)
    file = tmp_path / "store.db"
    content = file.read_bytes()
    for position in range(4096, len(content), 37):
        damaged = bytearray(content)
        damaged[position] ^= 1 << (position % 8)
        file.write_bytes(damaged)
        try:
            store = durable(tmp_path)
        except SliceworksError:
            continue
        result = values(store.scan(PODS))
        assert result == {key: value for key, value in EXPECTED.items() if key in result}
        store.close()


EXPECTED = {"a/0": "newer", **{f"a/{number}": number for number in range(1, 6)}}


def test_any_damage_is_recovered(tmp_path: Path) -> None:
    """Rows with values of other types, unreadable pages and missing ones: recovery reports them, and the store opens again."""
    fill(tmp_path)
    content, random = (tmp_path / "store.db").read_bytes(), Random(5)
    for number in range(3000 if os.environ.get("SLICEWORKS_FUZZ") else 300):
        folder = tmp_path / str(number)
        folder.mkdir()
        damaged = bytearray(content)
        start, size = random.randrange(4096, len(content)), random.choice((1, 2, 20, 3000))
        damaged[start : start + size] = random.randbytes(len(damaged[start : start + size]))
        (folder / "store.db").write_bytes(damaged)
        try:
            durable(folder).close()
        except SliceworksError:
            assert recovery.recover(folder / "store.db").damaged is not None
            durable(folder).close()
        shutil.rmtree(folder)


def test_store_of_an_earlier_version_gets_checksums(tmp_path: Path) -> None:
    fill(tmp_path)
    execute(tmp_path, "ALTER TABLE log DROP COLUMN checksum")
    execute(tmp_path, "PRAGMA user_version = 1")

    async def main() -> None:
        store = durable(tmp_path)
        put(store, "a/1", "newer")
        remove(store, "a/2")
        await store.wait_durable()
        store.close()

    run(main())
    store = durable(tmp_path)
    assert values(store.scan(PODS)) == {"a/0": "newer", "a/1": "newer", "a/3": 3, "a/4": 4, "a/5": 5}
    store.close()


def test_journal_is_copied_while_it_is_written(tmp_path: Path) -> None:
    copies = [tmp_path / "one", tmp_path / "two"]

    async def main() -> None:
        store = durable(tmp_path)
        for number, folder in enumerate(copies):
            folder.mkdir()
            put(store, f"a/{number}", number)
            await store.wait_durable()
            recovery.copy_journal(tmp_path / "store.db", folder / "store.db")
            put(store, f"b/{number}", "later")
        await store.wait_durable()
        store.close()

    run(main())
    for folder, expected in zip(copies, ({"a/0": 0}, {"a/0": 0, "a/1": 1, "b/0": "later"}), strict=True):
        store = durable(folder)
        assert values(store.scan(PODS)) == expected
        store.close()
    with pytest.raises(SliceworksError, match="no store found"):
        recovery.copy_journal(tmp_path / "missing.db", tmp_path / "copy.db")


def test_recovery_needs_a_stopped_twin(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "store.db")
    with pytest.raises(SliceworksError, match="in use by another twin"):
        recovery.recover(tmp_path / "store.db")
    journal.close()


def test_damage_is_reported_while_the_journal_is_used(tmp_path: Path) -> None:
    fill(tmp_path, 300)
    store, reports = durable(tmp_path), queue.Queue[str]()
    with recovery.Scrubber(tmp_path / "store.db", interval=0.0, report=reports.put):
        execute(tmp_path, "UPDATE log SET data = x'7b' WHERE name = '250'")
        assert "the store is damaged: revision 252 of /pods has a wrong checksum" in reports.get(timeout=30)
        assert values(store.scan(PODS))["a/250"] == 250
    store.close()


def test_intact_journal_is_verified_without_a_report(tmp_path: Path) -> None:
    fill(tmp_path, 300)
    reports, verified = queue.Queue[str](), threading.Event()

    class Scrubber(recovery.Scrubber):
        def _problems(self) -> Iterator[str]:
            yield from super()._problems()
            verified.set()

    with Scrubber(tmp_path / "store.db", report=reports.put):
        assert verified.wait(30)
    assert reports.empty()


def test_unreadable_journal_is_reported(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"\xff" * 8192)
    reports = queue.Queue[str]()
    with recovery.Scrubber(tmp_path / "store.db", report=reports.put):
        assert "cannot verify the store" in reports.get(timeout=30)
