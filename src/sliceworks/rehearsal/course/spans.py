"""States as they follow each other, each from when to when."""

from __future__ import annotations

from sliceworks.rehearsal.day.record import Span


class Spans:
    """Collects the states of one thing."""

    def __init__(self) -> None:
        self._done: list[Span] = []
        self._state, self._begin, self._note = "", 0.0, ""

    @property
    def state(self) -> str:
        """What it is in now; empty before the first and after the last."""
        return self._state

    def enter(self, at: float, state: str, note: str = "") -> bool:
        """Be in a state from now on; False when it is in it already."""
        if state == self._state:
            return False
        self.close(at)
        self._state, self._begin, self._note = state, at, note
        if self._done and (last := self._done[-1]).state == state and last.end == at:
            # What came in between lasted no time.
            self._begin, self._note = self._done.pop().begin, last.note
        return True

    @property
    def note(self) -> str:
        """What is said of the state that it is in now."""
        return self._note if self._state else ""

    def explain(self, note: str) -> None:
        """Say something of the state that it is in now."""
        self._note = note

    def close(self, at: float) -> None:
        """Be in none. A state that lasted no time is forgotten."""
        if self._state and at > self._begin:
            self._done.append(Span(self._state, self._begin, at, self._note))
        self._state = ""

    def until(self, at: float) -> tuple[Span, ...]:
        """All of them; what goes on goes on until then."""
        if self._state and at > self._begin:
            return (*self._done, Span(self._state, self._begin, at, self._note))
        return tuple(self._done)
