"""The store on disk: a log of changes in SQLite (WAL).

A row is one revision of one object, with a checksum that is verified when it is read. The newest row of a key is the object; older
rows stay while they are in the history window, so that watches resume and lists continue after a restart. A commit is one
transaction. A lock file ensures that one process at a time uses a journal.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import sys
import threading
import zlib
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.twin.store.entry import Entry
from sliceworks.twin.store.watch_cache import ADDED, DELETED, MODIFIED, Change

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime
    from pathlib import Path

_APPLICATION_ID, _FORMAT, _FORMAT_WITHOUT_CHECKSUMS = 0x534C4943, 2, 1
COLUMNS = "revision, resource, namespace, name, deleted, data, checksum"
_TABLES = (
    """CREATE TABLE log (
    revision INTEGER PRIMARY KEY, resource TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    deleted INTEGER NOT NULL, data BLOB NOT NULL, checksum INTEGER
) STRICT""",
    "CREATE TABLE compacted (resource TEXT PRIMARY KEY, revision INTEGER NOT NULL) STRICT, WITHOUT ROWID",
)
_SCHEMA = f"""
BEGIN IMMEDIATE;
{";".join(_TABLES)};
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {_FORMAT};
COMMIT;
"""
_CHECKPOINT_BYTES = 32 * 1024 * 1024
_MAX_CHECKPOINT_LAG = 3
"""How many times _CHECKPOINT_BYTES the WAL may grow before the writer waits for the checkpoint."""
_ROW_BYTES = 100
_RECENT_ROWS = 1_000
_PAST_TIME = re.compile(rb'"(?:creationTimestamp|renewTime)":"([0-9TZ:.-]+)"')
"""Times that are never in the future: of creations and of renewed Leases."""
_RESET_HINT = "start with an empty store: `sliceworks twin reset`"
_FOREIGN_HINT = "use a backup: `sliceworks twin restore`, or start with an empty store: `sliceworks twin reset`"
_RECOVERY_HINT = "keep the changes before the damage: `sliceworks twin recover`, or use a backup: `sliceworks twin restore`"


def checksum(place: tuple[int, str, str, str], deleted: int, data: bytes) -> int:
    """The checksum of a row, over all columns; `place` is revision, resource, namespace and name."""
    head = f"{deleted} {' '.join(map(str, place))} ".encode("utf-8", "surrogatepass")
    return zlib.crc32(data, zlib.crc32(head))


def is_intact(row: tuple[Any, ...]) -> bool:
    """Whether a row has values of the right types and its checksum is right; rows of version 0.1 have none."""
    revision, resource, namespace, name, deleted, data, recorded = row
    strings = resource.__class__ is namespace.__class__ is name.__class__ is str
    if not (strings and deleted.__class__ is int and data.__class__ is bytes):
        return False
    return recorded is None or recorded == checksum((revision, resource, namespace, name), deleted, data)


class Journal:
    """Writes changes to disk and reads them back."""

    def __init__(self, path: Path, *, checkpoint_bytes: int = _CHECKPOINT_BYTES, lock: bool = True) -> None:
        self._path = path
        self._checkpoint_bytes = checkpoint_bytes
        self._wal_bytes = 0
        self._checkpointer: threading.Thread | None = None
        with self._translate_errors("open"), contextlib.ExitStack() as undo:
            self._lock = acquire_lock(path) if lock else None
            if self._lock is not None:
                undo.callback(os.close, self._lock)
            # Create the file with private permissions; SQLite gives the files beside it the same.
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
        if (owner, version) == (_APPLICATION_ID, _FORMAT_WITHOUT_CHECKSUMS):
            db.executescript(f"ALTER TABLE log ADD COLUMN checksum INTEGER; PRAGMA user_version = {_FORMAT};")
        elif (owner, version) != (_APPLICATION_ID, _FORMAT):
            if db.execute("SELECT count(*) FROM sqlite_master").fetchone() != (0,):
                raise SliceworksError(f"{self._path}: not a store of this version of Sliceworks", hint=_RESET_HINT)
            db.executescript(_SCHEMA)
        self._check_schema(db)
        db.execute("PRAGMA journal_mode=WAL")

    def _check_schema(self, db: sqlite3.Connection) -> None:
        """A backup may come from others: a trigger in it would run with each write, a constraint too."""
        statements = db.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
        if sorted("".join(sql.split()) for (sql,) in statements) != sorted("".join(sql.split()) for sql in _TABLES):
            raise SliceworksError(f"{self._path}: the store is damaged: its tables are not those of a twin", hint=_FOREIGN_HINT)

    def commit(self, changes: Iterable[Change], trimmed: Iterable[Change], compacted: dict[str, int]) -> None:
        """Make changes durable, and delete the rows that only `trimmed` history needed."""
        rows = [_row(change) for change in changes]
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        try:
            db.executemany(_INSERT, rows)
            if compacted:
                db.executemany("DELETE FROM log WHERE revision = ?", _obsolete(trimmed))
                db.executemany("INSERT OR REPLACE INTO compacted VALUES (?, ?)", list(compacted.items()))
            db.execute("COMMIT")
        except sqlite3.Error:
            with contextlib.suppress(sqlite3.Error):
                db.execute("ROLLBACK")
            raise
        self._wal_bytes += sum(len(row[5]) + _ROW_BYTES for row in rows)
        if self._wal_bytes >= self._checkpoint_bytes:
            self._start_checkpoint()

    def restore(self, rows: Iterable[tuple[object, ...]], compacted: dict[str, int]) -> None:
        """Fill an empty journal with rows of another one."""
        with self._translate_errors("write"):
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany(_INSERT, rows)
            self._db.executemany("INSERT OR REPLACE INTO compacted VALUES (?, ?)", list(compacted.items()))
            self._db.execute("COMMIT")

    def _start_checkpoint(self) -> None:
        """Checkpoint the WAL in a thread: its fsync must not delay requests."""
        if self._checkpointer is not None and self._checkpointer.is_alive():
            if self._wal_bytes < _MAX_CHECKPOINT_LAG * self._checkpoint_bytes:
                return
            self._checkpointer.join()
        self._wal_bytes = 0
        self._checkpointer = threading.Thread(target=self._checkpoint, name="store-checkpoint", daemon=True)
        self._checkpointer.start()

    def _checkpoint(self) -> None:
        # After a failure the WAL keeps all changes and grows until the next checkpoint.
        with contextlib.suppress(sqlite3.Error), contextlib.closing(self._connect()) as db:
            db.execute("PRAGMA wal_checkpoint(PASSIVE)")
            # A passive checkpoint never completes under constant writes: block the writer for the rest.
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def compactions(self) -> dict[str, int]:
        """Per resource, the revision up to which history is compacted."""
        with self._translate_errors("read"):
            return dict(self._db.execute("SELECT resource, revision FROM compacted"))

    def load(self) -> Iterator[Change]:
        """All changes in the log, oldest first."""
        current: dict[tuple[str, str, str], Entry] = {}
        with self._translate_errors("read"):
            rows = self._db.execute(f"SELECT {COLUMNS} FROM log ORDER BY revision")
            for row in rows:
                revision, resource, namespace, name, deleted, data, _ = row
                if not is_intact(row):
                    shown = f"{namespace}/{name}" if namespace else name
                    message = f"{self._path}: the store is damaged: revision {revision} of {resource} {shown} has a wrong checksum"
                    raise SliceworksError(message, hint=_RECOVERY_HINT)
                key = (sys.intern(resource), sys.intern(namespace), name)
                entry = Entry(*key, revision, data)
                previous = current.pop(key, None)
                if deleted:
                    yield Change(DELETED, entry, previous)
                    continue
                current[key] = entry
                yield Change(ADDED if previous is None else MODIFIED, entry, previous)

    @contextlib.contextmanager
    def _translate_errors(self, action: str) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            hint = _RECOVERY_HINT if action == "read" or _is_damage(error) else _RESET_HINT
            raise SliceworksError(f"{self._path}: cannot {action} the store: {error}", hint=hint) from error
        except (OSError, sqlite3.Error) as error:
            raise SliceworksError(f"{self._path}: cannot {action} the store: {error}", hint=_RESET_HINT) from error

    def close(self) -> None:
        if self._checkpointer is not None:
            self._checkpointer.join()
        with contextlib.suppress(sqlite3.Error):
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._db.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def read_last_time(path: Path) -> datetime | None:
    """The newest time in a store of version 0.1, which recorded no clock beside it; None for stores of later versions."""
    if not path.exists():
        return None
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            if db.execute("PRAGMA user_version").fetchone() != (_FORMAT_WITHOUT_CHECKSUMS,):
                return None
            rows = db.execute("SELECT data FROM log ORDER BY revision DESC LIMIT ?", (_RECENT_ROWS,)).fetchall()
    except sqlite3.Error:
        return None  # opening the journal reports it
    times = (clock.parse(text.decode()) for (data,) in rows for text in _PAST_TIME.findall(data))
    return max((time for time in times if time is not None), default=None)


_INSERT = f"INSERT INTO log ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"


def _row(change: Change) -> tuple[int, str, str, str, int, bytes, int]:
    deleted, data = int(change.type == DELETED), change.entry.data
    place = (change.revision, change.resource, change.namespace, change.name)
    return (*place, deleted, data, checksum(place, deleted, data))


def _is_damage(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CORRUPT


def acquire_lock(path: Path) -> int:
    """A descriptor that holds the lock of a journal until it is closed or the process ends."""
    import fcntl

    # Do not lock the database itself: closing a descriptor of it would release SQLite's locks.
    descriptor = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            raise SliceworksError(f"{path}: in use by another twin") from error
        raise
    return descriptor


def _obsolete(trimmed: Iterable[Change]) -> list[tuple[int]]:
    """The revisions of rows that a reload does not need without these changes."""
    revisions: list[tuple[int]] = []
    for change in trimmed:
        if change.previous is not None:
            revisions.append((change.previous.revision,))
        if change.type == DELETED:
            revisions.append((change.revision,))
    return revisions
