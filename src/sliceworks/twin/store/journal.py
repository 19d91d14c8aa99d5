"""The store on disk: one log of changes in SQLite (WAL).

A row is one revision of one object. The newest row of a key is the object; older rows stay while they are in the history window, so
that watches resume and lists continue after a restart. A commit is one transaction however many changes it carries. One process at
a time has a journal: a lock on a file beside it sees to that.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import sys
import threading
from typing import TYPE_CHECKING

from sliceworks.base.errors import SliceworksError
from sliceworks.twin.store.entries import ADDED, DELETED, MODIFIED, Change, Entry

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_OURS, _FORMAT = 0x534C4943, 1
_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE log (
    revision INTEGER PRIMARY KEY, resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    deleted INTEGER NOT NULL, data BLOB NOT NULL
) STRICT;
CREATE TABLE compacted (resource TEXT PRIMARY KEY, revision INTEGER NOT NULL) STRICT, WITHOUT ROWID;
PRAGMA application_id = {_OURS};
PRAGMA user_version = {_FORMAT};
COMMIT;
"""
_FOLD_AFTER_BYTES = 32 * 1024 * 1024
_MOST_UNFOLDED = 3
"""How many times as much may wait to be folded before the writer waits too: the log must not outgrow the disk."""
_ROW_BYTES = 100
_START_ANEW = "`sliceworks twin reset` starts anew, with an empty one"


class Journal:
    """Writes changes down and reads them back."""

    def __init__(self, path: Path, *, fold_after: int = _FOLD_AFTER_BYTES) -> None:
        self._path = path
        self._fold_after = fold_after
        self._unfolded = 0
        self._folding: threading.Thread | None = None
        with self._usable("used"), contextlib.ExitStack() as undo:
            self._lock = _locked(path)
            undo.callback(os.close, self._lock)
            # The file is made here so that nobody else could ever read it; the files beside it get the same rights.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            path.chmod(0o600)
            self._db = self._connect()
            undo.callback(self._db.close)
            self._prepare(self._db)
            undo.pop_all()

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, cached_statements=16)
        db.execute("PRAGMA synchronous=NORMAL")
        db.execute("PRAGMA wal_autocheckpoint=0")
        return db

    def _prepare(self, db: sqlite3.Connection) -> None:
        (owner,), (version,) = db.execute("PRAGMA application_id").fetchone(), db.execute("PRAGMA user_version").fetchone()
        if (owner, version) != (_OURS, _FORMAT):
            if db.execute("SELECT count(*) FROM sqlite_master").fetchone() != (0,):
                raise SliceworksError(f"{self._path}: is not a store of this version of Sliceworks", hint=_START_ANEW)
            db.executescript(_SCHEMA)
        db.execute("PRAGMA journal_mode=WAL")

    def commit(self, changes: Iterable[Change], left: Iterable[Change], floors: dict[str, int]) -> None:
        """Make changes durable, and drop the rows that nothing can ask for once `left` has left the window."""
        rows = [(c.revision, c.resource, c.namespace, c.name, int(c.type == DELETED), c.entry.data) for c in changes]
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        try:
            db.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)", rows)
            if floors:
                db.executemany("DELETE FROM log WHERE revision = ?", _obsolete(left))
                db.executemany("INSERT OR REPLACE INTO compacted VALUES (?, ?)", list(floors.items()))
            db.execute("COMMIT")
        except sqlite3.Error:
            with contextlib.suppress(sqlite3.Error):
                db.execute("ROLLBACK")
            raise
        self._unfolded += sum(len(row[5]) + _ROW_BYTES for row in rows)
        if self._unfolded >= self._fold_after:
            self._start_folding()

    def _start_folding(self) -> None:
        """Fold the WAL into the database beside the writer: the fsync it needs must not hold up requests."""
        if self._folding is not None and self._folding.is_alive():
            if self._unfolded < _MOST_UNFOLDED * self._fold_after:
                return
            self._folding.join()
        self._unfolded = 0
        self._folding = threading.Thread(target=self._fold, name="store-fold", daemon=True)
        self._folding.start()

    def _fold(self) -> None:
        # Should this fail, the WAL keeps everything and grows until the next time.
        with contextlib.suppress(sqlite3.Error), contextlib.closing(self._connect()) as db:
            db.execute("PRAGMA wal_checkpoint(PASSIVE)")
            # A log that is written to without pause is never folded whole: the writer waits for the little that is left.
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def compactions(self) -> dict[str, int]:
        """Per resource, the revision up to which history is gone."""
        with self._usable("read"):
            return dict(self._db.execute("SELECT resource, revision FROM compacted"))

    def load(self) -> Iterator[Change]:
        """Every change still written down, oldest first."""
        current: dict[tuple[str, str, str], Entry] = {}
        with self._usable("read"):
            rows = self._db.execute("SELECT revision, resource, namespace, name, deleted, data FROM log ORDER BY revision")
            for revision, resource, namespace, name, deleted, data in rows:
                key = (sys.intern(resource), sys.intern(namespace), name)
                entry = Entry(*key, revision, data)
                previous = current.pop(key, None)
                if deleted:
                    yield Change(DELETED, entry, previous)
                    continue
                current[key] = entry
                yield Change(ADDED if previous is None else MODIFIED, entry, previous)

    @contextlib.contextmanager
    def _usable(self, how: str) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise SliceworksError(f"{self._path}: cannot be {how} as a store: {error}", hint=_START_ANEW) from error

    def close(self) -> None:
        if self._folding is not None:
            self._folding.join()
        with contextlib.suppress(sqlite3.Error):
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._db.close()
        os.close(self._lock)


def _locked(path: Path) -> int:
    """A descriptor that holds the lock of a journal, until it is closed or the process ends in whatever way."""
    import fcntl

    # Not the database itself: to close any descriptor of that would take SQLite's own locks away.
    descriptor = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise SliceworksError(f"{path}: another twin is using it") from error
        raise
    return descriptor


def _obsolete(left: Iterable[Change]) -> list[tuple[int]]:
    revisions: list[tuple[int]] = []
    for change in left:
        if change.previous is not None:
            revisions.append((change.previous.revision,))
        if change.type == DELETED:
            revisions.append((change.revision,))
    return revisions
