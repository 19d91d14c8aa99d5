"""How much of its cores a machine keeps to itself: what is measured cannot be quicker than the cores that it is given.

A virtual machine's cores are taken away for some milliseconds now and then, mostly when all of them are busy. Nothing tells a guest
of it but the clock.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass

_NOTICED = 0.001
"""A pause that is longer was none of ours: nothing is done between two looks at the clock."""


@dataclass(frozen=True, slots=True)
class Pauses:
    """What all cores together stood still."""

    share: float
    """Of the time, on average of the cores."""
    longest: float
    """In seconds."""

    def __str__(self) -> str:
        return f"its cores stood still for {self.share:.1%} of the time, {self.longest * 1000:.0f} ms at the longest"


def watch(cores: list[int], seconds: float) -> Pauses:
    """Keep all cores busy at once, and note when the clock leaps."""
    watchers = [subprocess.Popen([sys.executable, __file__, str(core), str(seconds)], stdout=subprocess.PIPE) for core in cores]
    pauses = [float(pause) for watcher in watchers for pause in watcher.communicate()[0].split()]
    return Pauses(sum(pauses) / (seconds * len(cores)), max(pauses, default=0.0))


def _pauses(seconds: float) -> list[float]:
    found: list[float] = []
    now = time.perf_counter()
    end = now + seconds
    while now < end:
        before, now = now, time.perf_counter()
        if now - before > _NOTICED:
            found.append(now - before)
    return found


if __name__ == "__main__":
    os.sched_setaffinity(0, {int(sys.argv[1])})
    sys.stdout.write(" ".join(f"{pause:.6f}" for pause in _pauses(float(sys.argv[2]))))
