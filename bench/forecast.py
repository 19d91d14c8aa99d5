"""Forecasts held against what then happened, in a synthetic month of jobs; beside two simple peers; and how long a large one takes.

    python bench/forecast.py [backtest] [size] [--quick] [--json-only]

Without a name both run. Progress goes to stderr. The last line on stdout is JSON: `{"start": {"ratio": 1.8, "goal": 1}, …}`. The
peers are "work ahead by capacity" (chip hours of all that is ahead, divided by the chips) and "waits as of late" (the median wait
of the last twenty jobs of that priority); the ratio is to the better one. Where the goal is a limit, the ratio says how many times
it fits in.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.measure import program
from bench.measure.results import Measure, bounded

from sliceworks.base import progress

SECONDS = 20.0
COVERED = 0.8
"""The least share of starts within their 90 % range that counts as honest."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    months: int = 3
    moments: int = 40
    runs: int = 40
    queued: int = 2_000
    forward: int | None = None
    """How often the large one is run forward; as often as the command does it, unless said."""


QUICK = Sizes(months=1, moments=30, runs=20)
TINY = Sizes(months=1, moments=2, runs=3, queued=50, forward=2)


def backtest(sizes: Sizes) -> list[Measure]:
    """Forecasts at moments of some months."""
    from bench.measure.backtest import held_against, summary

    found = held_against(sizes.months, sizes.moments, sizes.runs)
    for line in summary(found):
        progress.say(f"backtest: {line}")
    ours, ahead, late = (found.error(each) for each in ("ours", "ahead", "late"))
    return [
        bounded("start", "s, median error of the start", min(ahead, late), ours),
        Measure("covered", "of starts within the range", 1, less_is_better=False, real=[COVERED], twin=[found.covered()]),
    ]


def size(sizes: Sizes) -> list[Measure]:
    """A forecast of many queued jobs, as the command makes it."""
    from bench.measure.backtest import crowded

    from sliceworks.rehearsal.forecast.outlook import Outlook

    snapshot = crowded(sizes.queued)
    began = time.perf_counter()
    outlook = Outlook(snapshot)
    done = outlook.forecast([job for job in outlook.jobs.values() if job.state == "queued"], runs=sizes.forward)
    taken = time.perf_counter() - began
    progress.say(f"size: {len(done.expectations):,} queued jobs, {done.runs} runs in {taken:.1f} s")
    stretched = taken * 2_000 / sizes.queued
    return [bounded("size", "s, 2,000 queued jobs", SECONDS, stretched)]


BENCHMARKS = {"backtest": backtest, "size": size}


def main() -> None:
    """Measure, and print."""
    given = program.arguments("Forecasts held against what then happened, and how long a large one takes.", BENCHMARKS)
    sizes = program.chosen(given, Sizes(), QUICK, TINY)
    found: list[Measure] = []
    for name in given.benchmarks:
        found += BENCHMARKS[name](sizes)
    program.tell(found, given)


if __name__ == "__main__":
    main()
