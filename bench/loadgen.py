"""Our load generator beside stock Locust and wrk, against one server, one after the other: a core for it, and one for the server.

    python bench/loadgen.py [--quick] [--json-only]

Progress goes to stderr. The last line on stdout is JSON: `{"closed": {"ratio": 1.3, "goal": 0.7}, …}`; a goal is met when the ratio
is at least as large.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.measure import loadgen
from bench.measure.results import Measure, as_json, report

from sliceworks.base import progress


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    seconds: float = 20.0
    rows: int = 10_000_000
    unary: float = 2_000.0
    streams: float = 500.0
    pieces: int = 50


QUICK = Sizes(seconds=5.0, rows=500_000)
TINY = Sizes(seconds=1.0, rows=2_000, unary=20.0, streams=5.0, pieces=5)


def measure(sizes: Sizes) -> list[Measure]:
    """Everything, one after the other."""
    found = []
    with loadgen.server() as url:
        run = loadgen.unary(url, sizes.unary, sizes.seconds)
        found += _held("unary", run, sizes.unary)
        ours, stock = loadgen.closed(url, sizes.seconds), loadgen.stock(url, sizes.seconds)
        found.append(Measure("closed", f"requests/s, {loadgen.USERS} users, stock Locust", 0.7, real=[stock], twin=[ours]))
        wrk = loadgen.wrk(url, sizes.seconds)
        progress.say(
            f"closed: ours {ours:,.0f}/s, stock Locust {stock:,.0f}/s, wrk {f'{wrk:,.0f}/s' if wrk else 'is not installed'}"
        )
    with loadgen.server(sizes.pieces, 0.02) as url:
        run = loadgen.streams(url, sizes.streams, sizes.seconds)
        found += _held("streams", run, sizes.streams)
    seconds, megabytes = loadgen.reported(sizes.rows)
    # Fewer rows may take a share of the time; the memory of an empty report is not theirs.
    found.append(
        Measure(
            "report",
            f"s, {sizes.rows:,} rows",
            1,
            less_is_better=True,
            real=[60 * max(sizes.rows / 10_000_000, 0.1)],
            twin=[seconds],
        )
    )
    found.append(Measure("report memory", f"MB, {sizes.rows:,} rows", 1, less_is_better=True, real=[2_000], twin=[megabytes]))
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
    parser = argparse.ArgumentParser(description="Our load generator beside stock Locust and wrk.")
    parser.add_argument("--quick", action="store_true", help="less of everything: under a minute")
    parser.add_argument("--tiny", action="store_true", help="next to nothing: shows that it runs, measures nothing")
    parser.add_argument("--json-only", action="store_true", help="print the last line alone, and no progress")
    arguments = parser.parse_args()
    progress.set_quiet(arguments.json_only)
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[1:2] or cores)
    found = measure(TINY if arguments.tiny else QUICK if arguments.quick else Sizes())
    if not arguments.json_only:
        print(report(found, ("bound", "ours")))
    print(as_json(found))


if __name__ == "__main__":
    main()
