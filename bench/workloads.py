"""The twin's workloads beside what is published of the real ones.

    python bench/workloads.py kueue [--scale 1.0] [--unpaced]

The last line on stdout is JSON.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import orjson


def kueue(arguments: argparse.Namespace) -> dict[str, object]:
    """Kueue's scheduler benchmark in virtual time, five times as it was published."""
    from bench.measure.kueue import PUBLISHED, Run

    runs = [Run(arguments.scale, paced=not arguments.unpaced, seed=seed).run() for seed in range(arguments.runs)]
    wall, virtual = (sum(getattr(run, name) for run in runs) / len(runs) for name in ("wall", "virtual"))
    print(f"{runs[0].workloads} workloads: {wall:.1f} s of wall time, {virtual:.0f} s of virtual time", file=sys.stderr)
    averages = {name: round(sum(run.averages()[name] for run in runs) / len(runs), 1) for name in runs[0].averages()}
    for name, seconds in averages.items():
        print(f"  {name}: {seconds} s to admission on average (published: {PUBLISHED[name]} s)", file=sys.stderr)
    ratios = {name: round(seconds / PUBLISHED[name], 2) for name, seconds in averages.items()}
    return {
        "wall_s": round(wall, 1),
        "goal_wall_s": 30,
        "virtual_s": round(virtual, 1),
        "average_s": averages,
        "of_published": ratios,
    }


def main() -> int:
    """Run one benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    below = parser.add_subparsers(dest="benchmark", required=True)
    queued = below.add_parser("kueue", help="15,000 workloads through Kueue's scheduler")
    queued.add_argument("--scale", type=float, default=1.0, help="multiplies the numbers of workloads")
    queued.add_argument("--runs", type=int, default=5, help="the averages are those of so many runs")
    queued.add_argument("--unpaced", action="store_true", help="without the pace of Kueue's client")
    queued.set_defaults(run=kueue)
    arguments = parser.parse_args()
    print(orjson.dumps(arguments.run(arguments)).decode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
