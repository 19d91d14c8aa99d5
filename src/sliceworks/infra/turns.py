"""Whose turn it is to work on a stage: one run at a time on this machine, and a lock that our own dead run left is known as ours.

A run holds a file for as long as it, or a Terraform that it started, is alive; the system lets go of it however they end. A note
says since when. Whoever gets the file, and finds a note in it, knows that the run before was killed: a lock on the state that was
taken here since then is its, and nobody else's.
"""

from __future__ import annotations

import fcntl
import getpass
import re
import socket
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import IO, TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILE = "turn"
_LOCK = re.compile(r"\bID: +(?P<id>\S+).*?\bWho: +(?P<who>\S+).*?\bCreated: +(?P<day>\S+) (?P<time>[0-9:]+)", re.DOTALL)
_SLACK = timedelta(seconds=5)


class Turn:
    """A turn that was taken. `handle` is handed on to Terraform, so that the turn lasts as long as that does."""

    def __init__(self, handle: int, killed_since: str) -> None:
        self.handle = handle
        self.stays_locked = False
        """Whether the state is still locked by this turn at its end."""
        self._killed_since = killed_since

    def own_lock(self, said: str) -> str:
        """The id of the lock that Terraform complains about, if a dead run of ours left it; empty if it is somebody else's."""
        found = _LOCK.search(said)
        if found is None or not self._killed_since or found["who"] != f"{getpass.getuser()}@{socket.gethostname()}":
            return ""
        taken = datetime.fromisoformat(f"{found['day']}T{found['time']}+00:00")
        return str(found["id"]) if taken >= datetime.fromisoformat(self._killed_since) - _SLACK else ""


@contextmanager
def taken(folder: Path, stage: str) -> Iterator[Turn]:
    """Take the turn on a stage; at the end it is given back with a clean note, unless a lock is left."""
    with (folder / FILE).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise SliceworksError(
                f"{stage}: another run on this machine is at work on it", hint="wait until it ends, then try again"
            ) from error
        file.seek(0)
        before = file.read().strip()
        since = before or clock.rfc3339_micro(clock.now())
        _note(file, since)
        turn = Turn(file.fileno(), before)
        try:
            yield turn
        finally:
            _note(file, since if turn.stays_locked else "")


def _note(file: IO[str], text: str) -> None:
    file.seek(0)
    file.truncate()
    file.write(text)
    file.flush()
