"""Our load generator compared with stock Locust, wrk and AIPerf, against one backend, one after the other, each side on one core.

    python bench/loadgen.py [--quick | --large] [--ours-only] [--json-only]

Progress goes to stderr. The last line on stdout is JSON: `{"closed_loop": {"ratio": 1.3, "goal": 0.7}, …}`. Arrival times are
recorded by the backend. AIPerf is installed into the cache once and is left out with --quick.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.harness import load_peers, loadgen
from bench.harness.command import Profiles, Script
from bench.harness.metric import Metric, limit

from sliceworks.base import progress

if TYPE_CHECKING:
    from argparse import Namespace

_CHUNK_INTERVAL = 0.02
_AIPERF_SECONDS = 5.0
"""AIPerf cannot send all requests in time; a few seconds are enough to see that."""
_FIRST_PROBE = 5_000.0
"""Requests per second of the first step of the search for the highest rate; the fifth is 25,312/s."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Durations, rates, users, and records of a report."""

    seconds: float = 20.0
    records: int = 10_000_000
    unary_rate: float = 2_000.0
    stream_rate: float = 500.0
    users: int = 16
    chunks: int = 50
    probe_seconds: float = 6.0
    probes: int = 6
    """Steps of the search for the highest rate; each tries 1.5 times the previous rate."""
    aiperf: bool = True


FULL = Sizes()
QUICK = Sizes(seconds=3.0, records=500_000, probe_seconds=2.0, probes=5, aiperf=False)
TINY = Sizes(seconds=1.0, records=2_000, unary_rate=20.0, stream_rate=5.0, chunks=5, probe_seconds=0.5, probes=1, aiperf=False)
NORMAL = Sizes(records=1_000_000, probes=0)
LARGE = Sizes(seconds=200.0, records=10_000_000, users=160, probes=0)


class Bench:
    """One run."""

    def __init__(self, sizes: Sizes, *, ours_only: bool = False) -> None:
        self.sizes, self.ours_only = sizes, ours_only

    def run(self) -> list[Metric]:
        """Run all benchmarks."""
        sizes = self.sizes
        with loadgen.backend() as url:
            done = loadgen.unary(url, sizes.unary_rate, sizes.seconds)
            metrics = _rate_metrics("unary", done, sizes.unary_rate)
            self._compare("unary", url, sizes.unary_rate, done["summary"]["latencies"]["service"])
            metrics += [*self._closed_loop(url), self._memory(url), *self._open_loop(url)]
        with loadgen.backend(sizes.chunks, _CHUNK_INTERVAL) as url:
            done = loadgen.streams(url, sizes.stream_rate, sizes.seconds)
            metrics += _rate_metrics("stream", done, sizes.stream_rate)
            self._compare("stream", url, sizes.stream_rate, done["summary"]["latencies"]["ttft service"])
            highest = loadgen.highest_rate(
                lambda rate: loadgen.streams(url, rate, sizes.probe_seconds), sizes.stream_rate, sizes.probes
            )
            progress.say(f"stream: highest rate on time {highest:,.0f}/s, {sizes.chunks} chunks each")
        return [*metrics, *self._reports()]

    def _compare(self, name: str, url: str, rate: float, reported: dict[str, float]) -> None:
        """Print arrival times of our requests, and of peers at the same rate."""
        ours = load_peers.arrivals(url, rate, self.sizes.seconds)
        assert ours is not None
        progress.say(f"{name}: ours {replace(ours, reported=(reported['p50'] * 1000, reported['p99'] * 1000))}")
        if self.ours_only:
            return
        if name == "unary":
            progress.say(f"{name}: stock Locust {load_peers.constant_rate_locust(url, rate, self.sizes.seconds)}")
        if self.sizes.aiperf:
            seconds = min(self.sizes.seconds, _AIPERF_SECONDS)
            progress.say(f"{name}: AIPerf {load_peers.aiperf(url, rate, seconds, stream=name == 'stream') or 'was skipped'}")

    def _open_loop(self, url: str) -> list[Metric]:
        """The highest rate of one worker at which requests are sent on time."""
        if not self.sizes.probes:
            return []
        highest = loadgen.highest_rate(
            lambda rate: loadgen.unary(url, rate, self.sizes.probe_seconds), _FIRST_PROBE, self.sizes.probes
        )
        progress.say(f"unary: highest rate on time {highest:,.0f}/s")
        return [Metric("open_loop", "requests/s on time, of 20,000/s", 1, baseline=[20_000.0], values=[highest])]

    def _closed_loop(self, url: str) -> list[Metric]:
        seconds, users = self.sizes.seconds, self.sizes.users
        metric = Metric("closed_loop", f"requests/s, {users} users, stock Locust", 0.7, amount=1)
        peer = Metric("closed_loop_wrk", f"requests/s, {users} users, wrk", 0.6)
        metric.values.append(loadgen.closed_loop(url, users, seconds))
        peer.values += metric.values
        if not self.ours_only:
            metric.baseline.append(load_peers.locust(url, seconds, users))
            wrk = load_peers.wrk(url, seconds, users)
            progress.say(
                f"closed loop: ours {metric.values[0]:,.0f}/s, stock Locust {metric.baseline[0]:,.0f}/s, "
                f"wrk {f'{wrk:,.0f}/s' if wrk else 'not installed'}"
            )
            peer.baseline += [wrk] if wrk else []
        return [metric, peer]

    def _memory(self, url: str) -> Metric:
        value = loadgen.memory(url, 2 * self.sizes.unary_rate, self.sizes.seconds)
        return limit("memory", "bytes per request", 200, value, amount=1)

    def _reports(self) -> list[Metric]:
        """Reports on many requests, and on as many chunks of fewer requests."""
        records, chunks = self.sizes.records, self.sizes.chunks
        # The limits are for ten million records; the fixed cost of a report is allowed in any case.
        seconds_limit = 60 * max(records / 10_000_000, 0.1)
        costs = {
            "report": loadgen.report(records),
            "chunk_report": loadgen.report(max(records // chunks, 1), chunks),
        }
        metrics = []
        for name, (seconds, megabytes) in costs.items():
            unit = f"{records:,} {'chunks' if name == 'chunk_report' else 'requests'}"
            metrics.append(limit(name, f"s, {unit}", seconds_limit, seconds, amount=records))
            metrics.append(limit(f"{name}_memory", f"MB, {unit}", 2_000, megabytes, amount=records))
        return metrics


def _rate_metrics(name: str, done: dict[str, Any], rate: float) -> list[Metric]:
    """Whether a constant rate was reached, and the send delay."""
    summary = done["summary"]
    delivery, delay = summary["delivery"], summary["latencies"]["delay"]["p99"] * 1000
    success = delivery["sentRate"] * (1 - summary["errorRate"])
    progress.say(f"{name}: {success:,.0f} of {rate:,.0f}/s, send delay {delay:.2f} ms (p99), errors {summary['errorRate']:.2%}")
    return [
        Metric(f"{name}_rate", "requests/s, of the requested rate", 0.99, baseline=[rate], values=[success]),
        limit(f"{name}_delay", f"ms send delay at {rate:,.0f}/s, p99", 5, delay),
    ]


def measure(sizes: Sizes, options: Namespace) -> list[Metric]:
    """Run all benchmarks at this size, on the second core."""
    affinity = os.sched_getaffinity(0)
    cores = sorted(affinity)
    os.sched_setaffinity(0, cores[1:2] or cores)
    try:
        return Bench(sizes, ours_only=options.no_peers or options.tiny).run()
    finally:
        os.sched_setaffinity(0, affinity)


SCRIPT = Script(
    "loadgen",
    "Our load generator compared with stock Locust, wrk and AIPerf.",
    Profiles(FULL, QUICK, TINY, LARGE, NORMAL),
    measure,
    ("limit or peer", "ours"),
    peers="--ours-only",
)

if __name__ == "__main__":
    SCRIPT.main()
