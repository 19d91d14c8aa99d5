"""Care of a journal: a backup and verification while the twin runs, and recovery of a damaged one up to its last good revision."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import TYPE_CHECKING, Self

from sliceworks.base.errors import SliceworksError
from sliceworks.twin.store.journal import COLUMNS, Journal, acquire_lock, is_intact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import TracebackType

    Row = tuple[int, str, str, str, int, bytes, int | None]

log = logging.getLogger("sliceworks.twin.store")
_SCRUB_INTERVAL, _SCRUB_PAUSE, _SCRUB_ROWS = 86_400.0, 0.01, 200
_SCRUB_ADVICE = "the twin still serves all objects; stop it and run `sliceworks twin recover`, or restore a backup"
_SUFFIXES = ("", "-wal", "-shm")


@dataclass(slots=True)
class RecoveryReport:
    """What a recovery kept and lost. `lost` has a line for each object that was lost or set back, and for unreadable revisions."""

    kept: int = 0
    lost: list[str] = field(default_factory=list)
    damaged: Path | None = None
    """Where the damaged journal was moved; None if the journal is intact."""


def copy_journal(source: Path, target: Path) -> None:
    """Copy a journal that may be in use: the copy holds all changes that were committed when it began."""
    if not source.exists():
        raise SliceworksError(f"{source}: no store found")
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
    try:
        with (
            contextlib.closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as reader,
            contextlib.closing(sqlite3.connect(target)) as writer,
        ):
            reader.backup(writer, pages=1024, sleep=0.01)
            writer.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.Error as error:
        target.unlink(missing_ok=True)
        raise SliceworksError(f"{source}: cannot copy the store: {error}") from error


class Scrubber:
    """Verifies a journal in a thread while it is used: at once, and then every `interval` real seconds.

    A twin serves objects from memory and reads the file only when it starts: without this, damage would be noticed months later.
    """

    def __init__(self, path: Path, *, interval: float = _SCRUB_INTERVAL, report: Callable[[str], None] = log.error) -> None:
        self._path, self._interval, self._report = path, interval, report
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="store-scrubber", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        for pause in chain((0.0,), repeat(self._interval)):
            if self._stopping.wait(pause):
                return
            try:
                for problem in self._problems():
                    self._report(f"{self._path}: the store is damaged: {problem}; {_SCRUB_ADVICE}")
            except sqlite3.Error as error:
                self._report(f"{self._path}: cannot verify the store: {error}; {_SCRUB_ADVICE}")

    def _problems(self) -> Iterator[str]:
        """Each batch is a read transaction of its own: a long one would keep the log from being checkpointed."""
        with contextlib.closing(sqlite3.connect(f"file:{self._path}?mode=ro", uri=True)) as db:
            revision = -1
            statement = f"SELECT {COLUMNS} FROM log WHERE revision > ? ORDER BY revision LIMIT {_SCRUB_ROWS}"
            while rows := db.execute(statement, (revision,)).fetchall():
                yield from (f"revision {row[0]} of {row[1]} has a wrong checksum" for row in rows if not is_intact(row))
                revision = rows[-1][0]
                if self._stopping.wait(_SCRUB_PAUSE):
                    return


def recover(path: Path) -> RecoveryReport:
    """Set each object of a stopped twin's journal to its last good revision, and move the damaged journal aside.

    Watches start over: their clients get 410 Expired and list again.
    """
    lock = acquire_lock(path)
    try:
        return _recover(path)
    finally:
        os.close(lock)


def _recover(path: Path) -> RecoveryReport:
    report = RecoveryReport()
    rows, highest = _read(path, report)
    newest: dict[tuple[str, str, str], Row] = {}
    damaged: dict[tuple[str, str, str], int] = {}
    for row in rows:
        if is_intact(row):
            newest[row[1:4]] = row
        else:
            damaged[row[1:4]] = row[0]
    for key, revision in damaged.items():
        kept = newest.get(key)
        if kept is None or kept[0] < revision:
            outcome = f"set back to revision {kept[0]}" if kept is not None else "lost"
            report.lost.append(f"{key[0]} {'/'.join(str(part) for part in key[1:] if part)}: {outcome}")
    if not (report.lost or damaged or _has_damaged_history(path)):
        return report
    report.damaged = _free_name(path)
    for suffix in _SUFFIXES:
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + suffix).replace(report.damaged.with_name(report.damaged.name + suffix))
    kept_rows = sorted(row for row in newest.values() if not row[4])
    journal = Journal(path, lock=False)
    journal.restore(kept_rows, dict.fromkeys({row[1] for row in rows if isinstance(row[1], str)}, highest))
    journal.close()
    report.kept = len(kept_rows)
    return report


def _read(path: Path, report: RecoveryReport) -> tuple[list[Row], int]:
    """All rows that can be read, oldest first, and a revision that is at least the highest."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        rows, problem = _scan(db, "ASC")
        if not problem:
            return rows, max((row[0] for row in rows), default=1)
        later, _ = _scan(db, "DESC")
    known = rows[-1][0] if rows else 0
    after = [row for row in reversed(later) if row[0] > known]
    end = f"to {after[0][0] - 1}" if after else "on"
    report.lost.append(f"revisions from {known + 1} {end}: {problem}")
    rows += after
    return rows, max((row[0] for row in rows), default=1) + (0 if after else _SKIPPED_REVISIONS)


def _has_damaged_history(path: Path) -> bool:
    """Whether the table cannot be read that tells which history is complete: nothing is lost, but no twin starts with it."""
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            rows = db.execute("SELECT resource, revision FROM compacted").fetchall()
    except sqlite3.Error:
        return True
    return not all(isinstance(resource, str) and isinstance(revision, int) for resource, revision in rows)


_SKIPPED_REVISIONS = 1_000_000
"""How far the revision advances if the newest ones cannot be read: none may be used twice."""


def _scan(db: sqlite3.Connection, order: str) -> tuple[list[Row], str]:
    rows: list[Row] = []
    try:
        columns = {name for _, name, *_ in db.execute("PRAGMA table_info(log)")}
        names = COLUMNS if "checksum" in columns else COLUMNS.replace("checksum", "NULL")
        for row in db.execute(f"SELECT {names} FROM log ORDER BY revision {order}"):
            rows.append(row)  # noqa: PERF402 - an error must not lose the rows before it
    except sqlite3.Error as error:
        return rows, str(error)
    return rows, ""


def _free_name(path: Path) -> Path:
    number = 1
    while (candidate := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    return candidate
