"""What a worker tells while it runs: counts so far, and the latest answers' times."""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Any

from sliceworks.loadtest.rows import NEVER, Failure

if TYPE_CHECKING:
    from sliceworks.loadtest.rows import Record

_MOST = 250
"""Times that are told at once: enough for a line of a display, and never more than a pipe takes without waiting for its reader."""


class Tally:
    """Counts of all requests, and the times of the latest that ended since it was last asked."""

    def __init__(self) -> None:
        self.due, self.sent, self.ended, self.failed = 0, 0, 0, 0
        self._failures: Counter[str] = Counter()
        self._times: deque[float] = deque(maxlen=_MOST)
        self._first: deque[float] = deque(maxlen=_MOST)
        self._delay = 0.0

    def end(self, record: Record) -> None:
        """A request has ended."""
        self.ended += 1
        if record.failure is not Failure.NONE:
            self.failed += 1
            self._failures[f"status {record.status}" if record.failure is Failure.STATUS else record.failure.name.lower()] += 1
        else:
            self._times.append((record.ended - record.intended) / 1e9)
            if record.first_token != NEVER:
                self._first.append((record.first_token - record.intended) / 1e9)
        if record.sent != NEVER:
            self._delay = max(self._delay, (record.sent - record.intended) / 1e9)

    def told(self) -> dict[str, Any]:
        """Everything so far; what was gathered of the latest begins anew."""
        found = {
            "due": self.due,
            "sent": self.sent,
            "ended": self.ended,
            "failed": self.failed,
            "failures": dict(self._failures),
            "times": list(self._times),
            "first": list(self._first),
            "delay": self._delay,
        }
        self._times.clear()
        self._first.clear()
        self._delay = 0.0
        return found
