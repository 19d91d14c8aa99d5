"""Sets the senders by the clock of the one who brings them together: machines' own clocks may be seconds apart.

A sender asks for the time a few times. The answer was given somewhere between asking and hearing it, so the shortest of the round
trips says most, and half of it is how far it may be wrong. At the end it asks again: what changed meanwhile is how far the two went
apart. Only a machine's steady clock is looked at: one that is put right in the middle of a test would bend every time measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter_ns, time_ns
from typing import TYPE_CHECKING, Any

import gevent
from gevent.event import AsyncResult

if TYPE_CHECKING:
    from collections.abc import Callable

_CLOCK = "clock"
_ROUNDS = 12
_PATIENCE = 5.0
_APART = 0.005


@dataclass(frozen=True, slots=True)
class Reading:
    """`shift` is what the other's clock shows more than this machine's steady one, `uncertain` how far that may be off."""

    shift: int
    uncertain: int


def read(asked: int, there: int, heard: int) -> Reading:
    """From when it was asked and heard by one's own clock, and what the other's showed in between."""
    return Reading(there - (asked + heard) // 2, (heard - asked + 1) // 2)


def local() -> Reading:
    """Of this machine's own clock of the day."""
    return Reading(time_ns() - perf_counter_ns(), 0)


def answer(runner: Any, now: Callable[[], int]) -> None:
    """Tell the time to all who ask for it."""
    runner.register_message(_CLOCK, lambda msg, **_: runner.send_message(_CLOCK, [msg.data, now()], client_id=msg.node_id))


class Asker:
    """Asks the master for the time."""

    def __init__(self, runner: Any, now: Callable[[], int] = perf_counter_ns) -> None:
        self._runner, self._now = runner, now
        self._waiting: dict[int, AsyncResult[tuple[int, int]]] = {}
        runner.register_message(_CLOCK, self._hear)

    def ask(self) -> Reading:
        """The best of several readings; TimeoutError when nobody answers."""
        found = [reading for _ in range(_ROUNDS) if (reading := self._once()) is not None]
        if not found:
            raise TimeoutError("nobody tells the time")
        return min(found, key=lambda each: each.uncertain)

    def _once(self) -> Reading | None:
        came: AsyncResult[tuple[int, int]] = AsyncResult()
        asked = self._now()
        self._waiting[asked] = came
        self._runner.send_message(_CLOCK, asked)
        came.wait(_PATIENCE)
        del self._waiting[asked]
        gevent.sleep(_APART)
        return None if came.value is None else read(asked, *came.value)

    def _hear(self, msg: Any, **_: Any) -> None:
        heard = self._now()
        asked, there = msg.data
        if asked in self._waiting:
            self._waiting[asked].set((there, heard))
