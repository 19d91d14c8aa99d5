"""Deadlines of calls: detected soon after they expire, never before; finished calls are forgotten."""

from __future__ import annotations

import math
import random
from types import SimpleNamespace
from typing import Any

import pytest

from sliceworks.serving.gateway.call import Deadlines

TIMES = SimpleNamespace(total=20.0, first_token=3.0, idle=5.0)
IMPATIENT = SimpleNamespace(total=20.0, first_token=3.0, idle=0.5)
STEP = 0.25


def begun(now: float, times: Any = TIMES, *, stream: bool = True) -> tuple[Any, Any]:
    exchange = _Exchange(now, times, stream)
    reply = SimpleNamespace(connection=exchange.client)
    return exchange, SimpleNamespace(served=SimpleNamespace(timeouts=times), started_at=now, response=reply, is_stream=stream)


class _Exchange:
    def __init__(self, now: float, times: Any, stream: bool) -> None:
        self.times, self.stream = times, stream
        self.started_at = self.last_activity = now
        self.size = 0
        self.connection: object | None = object()
        self.client = SimpleNamespace(is_backlogged=False)
        self.seen_late = math.inf

    def overdue(self, now: float) -> float:
        """How long one of its deadlines has been exceeded."""
        waits: list[float] = [self.started_at + self.times.total]
        if self.connection is not None and not self.client.is_backlogged:
            if self.size:
                waits.append(self.last_activity + self.times.idle)
            elif self.stream:
                waits.append(self.started_at + self.times.first_token)
        return now - min(waits)


@pytest.mark.parametrize("times", [TIMES, IMPATIENT])
def test_expired_calls_are_found_within_one_step(times: Any) -> None:
    chance = random.Random(7)
    deadlines, calls, now, result = Deadlines(), dict[_Exchange, Any](), 1000.0, 0
    for _ in range(4000):
        now += chance.choice((0.01, 0.1, 0.25, 0.4))
        if chance.random() < 0.2:
            exchange, call = begun(now, times, stream=chance.random() < 0.7)
            calls[exchange] = call
            deadlines.add(exchange, call)
        for exchange in list(calls):
            if chance.random() < 0.05:
                exchange.size, exchange.last_activity = exchange.size + 1, now
            if chance.random() < 0.02:
                exchange.client.is_backlogged = not exchange.client.is_backlogged
            if chance.random() < 0.01:
                deadlines.discard(exchange)  # type: ignore[arg-type]
                del calls[exchange]
        late: dict[Any, str] = dict(deadlines.expired(now))
        result += len(late)
        for exchange in list(calls):
            if exchange in late:
                assert exchange.overdue(now) > 0
                del calls[exchange]
            else:
                exchange.seen_late = min(exchange.seen_late, now) if exchange.overdue(now) > 0 else math.inf
                assert int(now / STEP) <= exchange.seen_late / STEP
        assert len(deadlines) == len(calls)
    assert result > 100


def test_each_timeout_has_its_message() -> None:
    deadlines = Deadlines()
    silent, broken_off, endless = (begun(0.0) for _ in range(3))
    for exchange, call in (silent, broken_off, endless):
        deadlines.add(exchange, call)
    output: dict[Any, str] = {}
    for step in range(100):
        now = step * STEP
        if now <= 1:
            broken_off[0].size, broken_off[0].last_activity = 1, now
        endless[0].size, endless[0].last_activity = 1, now
        output |= deadlines.expired(now)
    assert output == {
        silent[0]: "no first token within 3 s",
        broken_off[0]: "no further data within 5 s",
        endless[0]: "no response within 20 s in total",
    }
    assert len(deadlines) == 0
    deadlines.discard(silent[0])


def test_active_stream_is_checked_rarely() -> None:
    looks = 0

    class Watched(_Exchange):
        @property
        def connection(self) -> object:
            nonlocal looks
            looks += 1
            return self

        @connection.setter
        def connection(self, value: object) -> None:
            pass

    exchange: Any = Watched(0.0, TIMES, stream=True)
    _, call = begun(0.0)
    deadlines = Deadlines()
    deadlines.add(exchange, call)
    for step in range(60):
        exchange.size, exchange.last_activity = 1, step * STEP
        assert not deadlines.expired(step * STEP)
    assert 0 < looks <= 60 * STEP / TIMES.first_token
