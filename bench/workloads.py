"""The twin's workloads: beside what is published of Kueue, beside KWOK on a real control plane, and at size.

    python bench/workloads.py [kueue] [size] [kwok] [--quick] [--json-only]

Without a name all of them run. Progress goes to stderr. The last line on stdout is JSON: `{"kwok": {"ratio": 1.8, "goal": 1}, …}`.
Where the goal is a limit, the ratio says how many times it would fit in. KWOK's side is built once, with Go, in some minutes.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import mean

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.measure import program
from bench.measure.results import Measure, bounded

from sliceworks.base import clock, progress

GIGABYTE = 1e9
WHOLE_SECONDS, WHOLE_BYTES, WHOLE_PODS = 300.0, 4 * GIGABYTE, 100_000
KUEUE_SECONDS, KUEUE_DEVIATION, KUEUE_GROWTH = 30.0, 0.10, 4.0
POD_GROWTH = 1.5


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    runs: int = 5
    scale: float = 1.0
    larger: float = 50_000 / 15_000
    small: tuple[int, int] = (1_000, 200)
    """Nodes and JobSets; a JobSet has fifty pods."""
    large: tuple[int, int] = (10_000, 2_000)
    pods: int = 1_000
    repeats: int = 3


QUICK = Sizes(runs=1, scale=0.2, larger=0.4, small=(20, 4), large=(200, 40), pods=200, repeats=2)
TINY = Sizes(runs=1, scale=0.02, larger=0.04, small=(20, 1), large=(20, 2), pods=5, repeats=1)


def kueue(sizes: Sizes, *, twin_only: bool) -> list[Measure]:
    """Kueue's scheduler benchmark in virtual time, in its published size and in a larger one."""
    from bench.measure.kueue import PUBLISHED, Run

    # What is published are the averages of five runs.
    runs, larger = [Run(sizes.scale, seed=seed).run() for seed in range(sizes.runs)], Run(sizes.larger).run()
    for one in (*runs, larger):
        progress.say(f"kueue: {one.workloads:,} workloads in {one.wall:.1f} s, {one.virtual:.0f} s of virtual time")
    wall = mean(run.wall for run in runs)
    averages = {name: mean(run.averages()[name] for run in runs) for name in runs[0].averages()}
    for name, seconds in averages.items():
        progress.say(f"kueue: {name} ones waited {seconds:.1f} s on average (published: {PUBLISHED[name]} s)")
    off = max(abs(seconds / PUBLISHED[name] - 1) for name, seconds in averages.items())
    # Waiting grows with the size: only the published one can be held against what was published.
    published = sizes.scale == 1.0
    return [
        bounded("kueue", "s, 15,000 workloads", KUEUE_SECONDS, wall / sizes.scale),
        bounded("kueue averages", "off what is published", KUEUE_DEVIATION, off if published else None),
        bounded("kueue growth", "times the time, 50,000", KUEUE_GROWTH, larger.wall / wall * stretch(sizes)),
    ]


def stretch(sizes: Sizes) -> float:
    """How much more the larger run would grow if it were as much larger as 50,000 workloads are than 15,000."""
    return (50_000 / 15_000) / (sizes.larger / sizes.scale)


def size(sizes: Sizes, *, twin_only: bool) -> list[Measure]:
    """Pods from submission to completion in virtual time; a quick run is stretched to the whole number."""
    from bench.measure.size import run

    found = []
    for nodes, jobsets in (sizes.small, sizes.large):
        # Each in a process of its own: the memory of the one is not the other's.
        with get_context("spawn").Pool(1) as pool:
            found.append(pool.apply(run, (nodes, jobsets)))
        one = found[-1]
        progress.say(
            f"size: {one.nodes:,} nodes, {one.jobsets:,} JobSets, {one.pods:,} pods in {one.wall:.1f} s, "
            f"{one.virtual:,.0f} s of virtual time; {one.each * 1000:.2f} ms a pod, {one.peak_bytes / 1e6:,.0f} MB"
        )
    small, large = found
    each = max(large.peak_bytes - small.peak_bytes, 0) / max(large.pods - small.pods, 1)  # a small difference drowns in noise
    memory = large.peak_bytes + each * (WHOLE_PODS - large.pods)
    return [
        bounded("size", "s, 100,000 pods", WHOLE_SECONDS, large.each * WHOLE_PODS),
        bounded("size memory", "MB, 100,000 pods", WHOLE_BYTES / 1e6, memory / 1e6),
        bounded("size growth", "times the cost of a pod", POD_GROWTH, large.each / small.each),
    ]


def kwok(sizes: Sizes, *, twin_only: bool) -> list[Measure]:
    """A Job's pods until they run: the twin in real time, and a real control plane whose nodes KWOK plays."""
    from bench.measure.kwok import compare
    from bench.measure.servers import Real, Server, Twin

    found = Measure("kwok", f"s, {sizes.pods:,} pods running", 1, less_is_better=True)
    with tempfile.TemporaryDirectory(prefix="sliceworks-bench-") as folder:
        servers: list[Server] = []
        try:
            servers.append(Twin(Path(folder) / "twin", workloads=True))
            if not twin_only:
                servers.append(Real(Path(folder) / "real", workloads=True))
            clock.run(compare(servers, sizes.pods, sizes.repeats, found))
        finally:
            for server in servers:
                server.stop()
    return [found]


BENCHMARKS = {"kueue": kueue, "size": size, "kwok": kwok}


def main() -> None:
    """Measure, and print."""
    words = "The twin's workloads: beside Kueue's figures, beside KWOK, and at size."
    given = program.arguments(words, BENCHMARKS, {"--twin-only": "leave the real programs out"})
    sizes = program.chosen(given, Sizes(), QUICK, TINY)
    found: list[Measure] = []
    for name in given.benchmarks:
        found += BENCHMARKS[name](sizes, twin_only=given.twin_only)
    program.tell(found, given)


if __name__ == "__main__":
    main()
