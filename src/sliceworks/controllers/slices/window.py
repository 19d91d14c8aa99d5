"""How many operations at once: as many as the cloud takes, found out by asking.

GKE answers 429 when too much goes on in a cluster, and 400 when something goes on that tolerates nothing beside it. Until the first
refusal the number doubles. A refusal sets it to what was running then; afterwards it grows by one for each time that all of them
have ended, and faster up to a number that was taken before and not refused with 429.
"""

from __future__ import annotations

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0


class Window:
    """Times are the loop's seconds."""

    def __init__(self, start: int) -> None:
        self.limit = float(max(start, 1))
        self._proven = 0.0
        self._refused = False
        self._refusals = 0
        self._pause_until = 0.0

    def free(self, in_flight: int, now: float) -> int:
        """How many more may be asked for now."""
        return 0 if now < self._pause_until else max(int(self.limit) - in_flight, 0)

    def resumes(self, now: float) -> float | None:
        """When to try again after a refusal, in seconds from now; None when there is no pause."""
        return self._pause_until - now if self._pause_until > now else None

    def accepted(self, running: int) -> None:
        """A request was taken; so many are running with it."""
        self._refusals = 0
        self._proven = max(self._proven, float(running))
        if not self._refused:
            self.limit += 1.0

    def refused(self, running: int, now: float, at_least: float = 0.0, *, full: bool = True) -> None:
        """A request was not taken while so many others were running; `full` says that there were too many of them."""
        self._refused = True
        self.limit = float(max(running, 1))
        if full:
            self._proven = self.limit
        self._refusals += 1
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(self._refusals - 1, 10))
        self._pause_until = now + max(pause, at_least)

    def finished(self) -> None:
        """An operation has ended: there is room for another."""
        self._pause_until = 0.0
        if self._refused:
            self.limit += 1.0 if self.limit < self._proven else 1.0 / self.limit
