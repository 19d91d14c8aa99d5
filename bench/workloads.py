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
    """Kueue's scheduler benchmark in virtual time."""
    from bench.measure.kueue import PUBLISHED, Run

    outcome = Run(arguments.scale, paced=not arguments.unpaced).run()
    averages = {name: round(seconds, 1) for name, seconds in outcome.averages().items()}
    print(
        f"{outcome.workloads} workloads: {outcome.wall:.1f} s of wall time, {outcome.virtual:.0f} s of virtual time",
        file=sys.stderr,
    )
    for name, seconds in averages.items():
        print(f"  {name}: {seconds} s to admission on average (published: {PUBLISHED[name]} s)", file=sys.stderr)
    return {"wall_s": round(outcome.wall, 1), "virtual_s": round(outcome.virtual, 1), "goal_wall_s": 30, "average_s": averages}


def main() -> int:
    """Run one benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    below = parser.add_subparsers(dest="benchmark", required=True)
    queued = below.add_parser("kueue", help="15,000 workloads through Kueue's scheduler")
    queued.add_argument("--scale", type=float, default=1.0, help="multiplies the numbers of workloads")
    queued.add_argument("--unpaced", action="store_true", help="without the pace of Kueue's client")
    queued.set_defaults(run=kueue)
    arguments = parser.parse_args()
    print(orjson.dumps(arguments.run(arguments)).decode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
