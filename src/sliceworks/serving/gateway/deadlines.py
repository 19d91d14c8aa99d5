"""Which calls take too long, found without a look at all the others.

Each is looked at again when its time could be up at the earliest. A stream that goes on is looked at about once a minute, not four
times a second: ten thousand of them would take milliseconds, and every token would have to wait for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sliceworks.serving.gateway.calls import Call
    from sliceworks.serving.gateway.http.exchange import Exchange

_STEP = 0.25
"""Moments are told apart this far."""


class Deadlines:
    """All calls under way, by the step in which they are looked at next."""

    def __init__(self) -> None:
        self._step: dict[Exchange, int] = {}
        self._due: dict[int, dict[Exchange, Call]] = {}

    def __len__(self) -> int:
        return len(self._step)

    def add(self, exchange: Exchange, call: Call) -> None:
        """Watch a call."""
        self._put(_step(_earliest(exchange, call)), exchange, call)

    def discard(self, exchange: Exchange) -> None:
        """Watch it no more."""
        step = self._step.pop(exchange, None)
        if step is None:
            return
        due = self._due[step]
        del due[exchange]
        if not due:
            del self._due[step]

    def late(self, now: float) -> list[tuple[Exchange, str]]:
        """Whose time is up, and what took too long. They are watched no more."""
        found: list[tuple[Exchange, str]] = []
        until = int(now / _STEP)
        for step in [step for step in self._due if step <= until]:
            for exchange, call in self._due.pop(step).items():
                del self._step[exchange]
                what = _late(exchange, call, now)
                if what:
                    found.append((exchange, what))
                else:
                    self._put(max(until + 1, _step(_earliest(exchange, call))), exchange, call)
        return found

    def _put(self, step: int, exchange: Exchange, call: Call) -> None:
        self.discard(exchange)
        self._step[exchange] = step
        self._due.setdefault(step, {})[exchange] = call


def _step(moment: float) -> int:
    """The first step by which a moment has passed."""
    return int(moment / _STEP) + 1


def _earliest(exchange: Exchange, call: Call) -> float:
    """When its time could be up. Before the first piece too it may be the pause after that one which lasts too long."""
    times = call.served.timeouts
    quiet = times.idle if exchange.size else min(times.first_token, times.idle)
    return min(call.began + times.total, exchange.last + quiet)


def _late(exchange: Exchange, call: Call, now: float) -> str:
    """What took too long, if something did. A client that does not read keeps its server waiting: that is its own fault."""
    times = call.served.timeouts
    if now > call.began + times.total:
        return f"more than {times.total:g} s in all"
    if exchange.connection is None or call.reply.connection.full:
        return ""
    if not exchange.size:
        # What is no stream comes when all of it is there.
        silent = now > exchange.began + times.first_token and call.is_stream
        return f"nothing came within {times.first_token:g} s" if silent else ""
    return f"nothing more came within {times.idle:g} s" if now > exchange.last + times.idle else ""
