"""The store on disk: one append-only log of changes in SQLite (WAL).

A row is one revision of one object. The newest row of a key is the object; older rows stay while they are in the history window, so
that watches resume and lists continue after a restart. A commit is one transaction however many changes it carries.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from typing import TYPE_CHECKING

from sliceworks.base.errors import SliceworksError
from sliceworks.twin.store.entries import ADDED, DELETED, MODIFIED, Change, Entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_SCHEMA = """
CREATE TABLE IF NOT EXISTS log (
    revision INTEGER PRIMARY KEY, resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    deleted INTEGER NOT NULL, data BLOB NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS compacted (resource TEXT PRIMARY KEY, revision INTEGER NOT NULL) STRICT, WITHOUT ROWID;
"""
_CHECKPOINT_EVERY = 20_000


class Journal:
    """Writes changes down and reads them back."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._db = self._connect()
            self._db.executescript(_SCHEMA)
        except sqlite3.Error as error:
            raise SliceworksError(f"{path}: cannot be used as a store: {error}") from error
        path.chmod(0o600)
        self._rows_since_checkpoint = 0
        self._checkpoint: threading.Thread | None = None

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, cached_statements=16)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=NORMAL")
        db.execute("PRAGMA wal_autocheckpoint=0")
        return db

    def commit(self, changes: Iterable[Change], left: Iterable[Change], compacted: dict[str, int]) -> None:
        """Make changes durable, and drop the rows that nothing can ask for once `left` has left the window."""
        rows = [(c.revision, c.resource, c.namespace, c.name, int(c.type == DELETED), c.entry.data) for c in changes]
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        try:
            db.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", rows)
            if compacted:
                db.executemany("DELETE FROM log WHERE revision = ?", _obsolete(left))
                db.executemany("INSERT OR REPLACE INTO compacted VALUES (?, ?)", list(compacted.items()))
            db.execute("COMMIT")
        except sqlite3.Error:
            with contextlib.suppress(sqlite3.Error):
                db.execute("ROLLBACK")
            raise
        self._rows_since_checkpoint += len(rows)
        if self._rows_since_checkpoint >= _CHECKPOINT_EVERY:
            self._start_checkpoint()

    def _start_checkpoint(self) -> None:
        """Fold the WAL into the database beside the writer: the fsync it needs must not hold up requests."""
        if self._checkpoint is not None and self._checkpoint.is_alive():
            return
        self._rows_since_checkpoint = 0
        self._checkpoint = threading.Thread(target=self._fold, name="store-checkpoint", daemon=True)
        self._checkpoint.start()

    def _fold(self) -> None:
        db = self._connect()
        try:
            db.execute("PRAGMA wal_checkpoint(PASSIVE)")
        finally:
            db.close()

    def compactions(self) -> dict[str, int]:
        """Per resource, the revision up to which history is gone."""
        return dict(self._db.execute("SELECT resource, revision FROM compacted"))

    def load(self) -> Iterator[Change]:
        """Every change still written down, oldest first."""
        current: dict[tuple[str, str, str], Entry] = {}
        rows = self._db.execute("SELECT revision, resource, namespace, name, deleted, data FROM log ORDER BY revision")
        for revision, resource, namespace, name, deleted, data in rows:
            key = (resource, namespace, name)
            entry = Entry(resource, namespace, name, revision, data)
            previous = current.pop(key, None)
            if deleted:
                yield Change(DELETED, entry, previous)
                continue
            current[key] = entry
            yield Change(ADDED if previous is None else MODIFIED, entry, previous)

    def close(self) -> None:
        if self._checkpoint is not None:
            self._checkpoint.join()
        with contextlib.suppress(sqlite3.Error):
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._db.close()


def _obsolete(left: Iterable[Change]) -> list[tuple[int]]:
    revisions: list[tuple[int]] = []
    for change in left:
        if change.previous is not None:
            revisions.append((change.previous.revision,))
        if change.type == DELETED:
            revisions.append((change.revision,))
    return revisions
