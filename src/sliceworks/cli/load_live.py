"""What a person sees while a load test runs: rates asked and sent, latencies, errors. In a log it is a line every few seconds."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from sliceworks.base import clock, progress
from sliceworks.cli.moving import Moving
from sliceworks.loadtest.report import words

if TYPE_CHECKING:
    from sliceworks.loadtest.listening import Progress
    from sliceworks.loadtest.plans import Plan

_BARS = "▁▂▃▄▅▆▇█"
_LINE_EVERY = 5.0


class Live(Moving):
    """Draws on a terminal; says a line now and then elsewhere; nothing when it is to be quiet."""

    def __init__(self, name: str, plan: Plan) -> None:
        super().__init__()
        self._name, self._lasts = name, plan.schedule.lasts
        self._medians: deque[float] = deque(maxlen=60)
        self._latest: deque[tuple[float, int, int]] = deque(maxlen=11)
        self._began: float | None = None
        self._said: float | None = None

    def show(self, now: Progress) -> None:
        """How it stands."""
        moment = clock.loop_time()
        self._began = moment if self._began is None else self._began
        self._latest.append((moment, now.due, now.sent))
        if now.times:
            self._medians.append(sorted(now.times)[len(now.times) // 2])
        text = self._text(now, moment)
        if self.display is not None:
            from rich.text import Text

            self.display.update(Text(text), refresh=True)
        elif self._said is None or moment - self._said >= _LINE_EVERY:
            self._said = moment
            progress.say(text.replace("\n", "; "))

    def _text(self, now: Progress, moment: float) -> str:
        before, due, sent = self._latest[0]
        seconds = max(moment - before, 0.001)
        rates = (
            f"asked {(now.due - due) / seconds:,.0f}/s, sent {(now.sent - sent) / seconds:,.0f}/s"
            if len(self._latest) > 1
            else "begins"
        )
        lines = [
            f"{self._name}: {moment - (moment if self._began is None else self._began):.0f} of {self._lasts:.0f} s",
            f"{rates}, {now.sent - now.ended:,} under way, {now.ended:,} answered",
        ]
        if self._medians:
            lines.append(f"latency {sparks(list(self._medians))} {words.time(self._medians[-1])}")
        if now.failed:
            worst = ", ".join(f"{many:,} × {kind}" for kind, many in now.failures.most_common(3))
            lines.append(f"{now.failed:,} failed: {worst}")
        return "\n".join(lines)


def sparks(values: list[float]) -> str:
    """A line of little bars, the highest value the tallest."""
    most = max(values) or 1.0
    return "".join(_BARS[min(int(each / most * (len(_BARS) - 1) + 0.5), len(_BARS) - 1)] for each in values)
