"""Our load generator beside stock Locust, wrk and AIPerf, against one server, one after the other, with a core for each side.

    python bench/loadgen.py [--quick] [--ours-only] [--json-only]

Progress goes to stderr. The last line on stdout is JSON: `{"closed": {"ratio": 1.3, "goal": 0.7}, …}`; a goal is met when the ratio
is at least as large. What others sent is as the server saw it. AIPerf is installed into the cache once; what is not there is said.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.measure import load_peers, loadgen, program
from bench.measure.results import Measure

from sliceworks.base import progress


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    seconds: float = 20.0
    rows: int = 10_000_000
    unary: float = 2_000.0
    streams: float = 500.0
    pieces: int = 50
    probe: float = 6.0
    probes: int = 6
    """Rates that are tried to find the highest: each half as much again as the one before, for so many seconds."""


QUICK = Sizes(seconds=5.0, rows=500_000, probe=3.0)
TINY = Sizes(seconds=1.0, rows=2_000, unary=20.0, streams=5.0, pieces=5, probe=0.5, probes=1)


class Bench:
    """One run."""

    def __init__(self, sizes: Sizes, *, ours_only: bool = False) -> None:
        self.sizes, self.ours_only = sizes, ours_only

    def run(self) -> list[Measure]:
        """Everything, one after the other."""
        sizes = self.sizes
        with loadgen.server() as url:
            run = loadgen.unary(url, sizes.unary, sizes.seconds)
            found = _held("unary", run, sizes.unary)
            self._beside("unary", url, sizes.unary, run["summary"]["times"]["service"])
            found += [self._closed(url), self._memory(url)]
            top = loadgen.highest(lambda rate: loadgen.unary(url, rate, sizes.probe), sizes.unary, sizes.probes)
            progress.say(f"unary: up to {top:,.0f}/s leave on time")
        with loadgen.server(sizes.pieces, 0.02) as url:
            run = loadgen.streams(url, sizes.streams, sizes.seconds)
            found += _held("streams", run, sizes.streams)
            self._beside("streams", url, sizes.streams, run["summary"]["times"]["ttft service"])
            top = loadgen.highest(lambda rate: loadgen.streams(url, rate, sizes.probe), sizes.streams, sizes.probes)
            progress.say(f"streams: up to {top:,.0f}/s of {sizes.pieces} pieces each leave on time")
        return [*found, *self._report()]

    def _beside(self, name: str, url: str, rate: float, said: dict[str, float]) -> None:
        """What others make of the same rate, and what ours looks like from the server's side."""
        ours = load_peers.arrivals(url, rate, self.sizes.seconds)
        assert ours is not None
        progress.say(f"{name}: ours {replace(ours, said=(said['p50'] * 1000, said['p99'] * 1000))}")
        if self.ours_only:
            return
        if name == "unary":
            progress.say(f"{name}: stock Locust {load_peers.paced_locust(url, rate, self.sizes.seconds)}")
        # It takes its time for requests that it cannot send in time: a few seconds' worth of them is enough to see that.
        other = load_peers.aiperf(url, rate, min(self.sizes.seconds, 5.0), stream=name == "streams")
        progress.say(f"{name}: AIPerf {other or 'is left out'}")

    def _closed(self, url: str) -> Measure:
        """As much as users can ask who wait for their answers."""
        measure = Measure("closed", f"requests/s, {loadgen.USERS} users, stock Locust", 0.7)
        measure.twin.append(loadgen.closed(url, self.sizes.seconds))
        if not self.ours_only:
            measure.real.append(load_peers.locust(url, self.sizes.seconds, loadgen.USERS))
            wrk = load_peers.wrk(url, self.sizes.seconds, loadgen.USERS)
            progress.say(
                f"closed: ours {measure.twin[0]:,.0f}/s, stock Locust {measure.real[0]:,.0f}/s, "
                f"wrk {f'{wrk:,.0f}/s' if wrk else 'is not installed'}"
            )
        return measure

    def _memory(self, url: str) -> Measure:
        found = loadgen.memory(url, 2 * self.sizes.unary, self.sizes.seconds)
        return Measure("memory", "bytes a request", 1, less_is_better=True, real=[200], twin=[found])

    def _report(self) -> list[Measure]:
        """Of many requests; and of as many pieces of fewer of them."""
        rows, found = self.sizes.rows, []
        for name, (seconds, megabytes) in {
            "report": loadgen.reported(rows),
            "report of pieces": loadgen.reported(max(rows // self.sizes.pieces, 1), self.sizes.pieces),
        }.items():
            # Fewer rows may take a share of the time; what an empty report takes is not theirs.
            bound = 60 * max(rows / 10_000_000, 0.1)
            found.append(Measure(name, f"s, {rows:,} rows", 1, less_is_better=True, real=[bound], twin=[seconds]))
            found.append(Measure(f"{name}: memory", f"MB, {rows:,} rows", 1, less_is_better=True, real=[2_000], twin=[megabytes]))
        return found


def _held(name: str, run: dict[str, object], rate: float) -> list[Measure]:
    """Whether a rate was held, and how late requests left."""
    summary = run["summary"]
    assert isinstance(summary, dict)
    delivery, delay = summary["delivery"], summary["times"]["delay"]["p99"] * 1000
    good = delivery["rateSent"] * (1 - summary["errorRate"])
    progress.say(f"{name}: {good:,.0f} of {rate:,.0f}/s, {delay:.2f} ms late (p99), errors {summary['errorRate']:.2%}")
    return [
        Measure(name, "requests/s, asked", 0.99, real=[rate], twin=[good]),
        Measure(f"{name} delay", "ms late, p99", 1, less_is_better=True, real=[5], twin=[delay]),
    ]


def main() -> None:
    """Measure, and print."""
    given = program.arguments(
        "Our load generator beside stock Locust, wrk and AIPerf.", flags={"--ours-only": "leave out all others"}
    )
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[1:2] or cores)
    bench = Bench(program.chosen(given, Sizes(), QUICK, TINY), ours_only=given.ours_only or given.tiny)
    program.tell(bench.run(), given, ("bound", "ours"))


if __name__ == "__main__":
    main()
