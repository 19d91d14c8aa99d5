"""What senders tell while a test runs, put together; and when a test has to end before its time."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.specs.load_test import StopRule


@dataclass(slots=True)
class Progress:
    """All senders together, so far."""

    due: int = 0
    sent: int = 0
    ended: int = 0
    failed: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    times: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Clocks:
    """Of several senders, in seconds: how far their machines' clocks were apart, how well that is known, and how much they drifted.
    The worst of all."""

    senders: int = 0
    apart: float = 0.0
    uncertain: float = 0.0
    drift: float = 0.0

    def and_of(self, told: dict[str, int]) -> Clocks:
        """With what one more sender tells, in nanoseconds."""
        more = {name: max(getattr(self, name), abs(told.get(name, 0)) / 1e9) for name in ("apart", "uncertain", "drift")}
        return Clocks(self.senders + 1, **more)


class Listener:
    """Hears every line of every sender. `told` is called with how it stands; `stopping` is set when the test is to end."""

    def __init__(self, rule: StopRule, told: Callable[[Progress], None] | None = None) -> None:
        self._rule, self._told = rule, told
        self._latest: dict[int, dict[str, Any]] = {}
        self._history: deque[tuple[float, int, int]] = deque()
        self._whole: set[int] = set()
        self.stopping = asyncio.Event()
        self.why = ""
        self.began = 0.0
        """Seconds of the wall clock; 0 before the first request."""
        self.clocks = Clocks()

    def stop(self, why: str) -> None:
        """The test is to end early; the first reason counts."""
        self.why = self.why or why
        self.stopping.set()

    def came_to_its_end(self, index: int) -> bool:
        """Whether a sender has said that it sent all it had to send, or all until it was told to stop."""
        return index in self._whole

    def hear(self, index: int, line: dict[str, Any]) -> None:
        """What one sender says about itself."""
        if "begins" in line:
            self.began = line["begins"] / 1e9
            return
        if known := line.pop("clock", {}):
            self.clocks = self.clocks.and_of(known)
        told = line.pop("stopped", False) and self.stopping.is_set()
        if line.pop("done", False) or told:
            self._whole.add(index)
        if problem := line.pop("problem", ""):
            self.stop(f"sender {index} cannot write its rows: {problem}")
        self._latest[index] = line
        if line["due"]:
            self._judge()

    def _judge(self) -> None:
        """Put all together, tell it, and see whether to go on."""
        now = Progress()
        for each in self._latest.values():
            now.due, now.sent, now.ended = now.due + each["due"], now.sent + each["sent"], now.ended + each["ended"]
            now.failed += each["failed"]
            now.failures.update(each["failures"])
            now.times += each.pop("times", [])
            now.first += each.pop("first", [])
            now.delay = max(now.delay, each["delay"])
        if self._told is not None:
            self._told(now)
        if why := self._too_bad(now):
            self.stop(why)

    def _too_bad(self, now: Progress) -> str:
        rule, moment = self._rule, clock.loop_time()
        self._history.append((moment, now.ended, now.failed))
        while self._history[0][0] < moment - rule.over and len(self._history) > 1:
            self._history.popleft()
        _, ended, failed = self._history[0]
        ended, failed = (
            (now.ended - ended, now.failed - failed) if moment - self._history[0][0] >= rule.over / 2 else (now.ended, now.failed)
        )
        if ended >= rule.at_least and failed / ended >= rule.errors:
            worst = now.failures.most_common(1)[0][0]
            return f"{failed / ended:.0%} of the last {ended:,} requests failed, most of them with {worst}"
        if rule.delay is not None and now.delay > rule.delay:
            return f"requests left {now.delay:.1f} s later than they should"
        return ""
