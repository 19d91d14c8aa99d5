"""The twin's workload controllers compared with Kueue's published benchmark, with KWOK on a real control plane, and at scale.

    python bench/workloads.py [kueue] [pods] [kwok] [--quick | --large] [--twin-only] [--json-only]

Without a name all three run. Progress goes to stderr. The last line on stdout is JSON: `{"kwok": {"ratio": 1.8, "goal": 1}, …}`.
If the baseline is a limit, the ratio is limit divided by measured value. KWOK's side is built once, with Go, in a few minutes.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.harness.command import Profiles, Script
from bench.harness.metric import GROWTH_LIMIT, Metric, limit

from sliceworks.base import clock, progress

if TYPE_CHECKING:
    from argparse import Namespace

TOTAL_PODS = 100_000
POD_SECONDS_LIMIT, POD_MEMORY_LIMIT = 300.0, 4_000.0  # seconds and MB for all pods
KUEUE_SECONDS_LIMIT, KUEUE_DEVIATION_LIMIT, KUEUE_GROWTH_LIMIT = 30.0, 0.10, 4.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """Runs and scale of Kueue's benchmark; numbers of nodes, JobSets and pods."""

    runs: int = 5
    scale: float = 1.0
    larger_scale: float = 50_000 / 15_000
    small: tuple[int, int] = (1_000, 200)
    """Nodes and JobSets; a JobSet has fifty pods."""
    large: tuple[int, int] = (10_000, 2_000)
    job_pods: int = 1_000
    repeats: int = 3


FULL = Sizes()
QUICK = Sizes(runs=1, scale=0.2, larger_scale=0.4, small=(20, 4), large=(200, 40), job_pods=200, repeats=2)
TINY = Sizes(runs=1, scale=0.02, larger_scale=0.04, small=(20, 1), large=(20, 2), job_pods=5, repeats=1)
NORMAL = replace(FULL, runs=1, small=(100, 20), large=(1_000, 200))
LARGE = replace(FULL, runs=1, scale=10.0, larger_scale=20.0, job_pods=10_000)


def kueue(sizes: Sizes, *, twin_only: bool) -> list[Metric]:
    """Kueue's scheduler benchmark in virtual time, at its published size and at a larger one."""
    from bench.harness.kueue import PUBLISHED, Run

    # The published figures are means of five runs.
    runs, larger = [Run(sizes.scale, seed=seed).run() for seed in range(sizes.runs)], Run(sizes.larger_scale).run()
    for run in (*runs, larger):
        progress.say(f"kueue: {run.workloads:,} workloads in {run.wall_seconds:.1f} s, {run.virtual_seconds:.0f} s of virtual time")
    seconds = mean(run.wall_seconds for run in runs)
    waits = {name: mean(run.mean_waits()[name] for run in runs) for name in runs[0].mean_waits()}
    for name, wait in waits.items():
        progress.say(f"kueue: mean wait of {name} workloads {wait:.1f} s (published: {PUBLISHED[name]} s)")
    deviation = max(abs(wait / PUBLISHED[name] - 1) for name, wait in waits.items())
    # Waits grow with the number of workloads: only the published size can be compared with published waits.
    deviations = [deviation] if sizes.scale == 1.0 else []
    return [
        limit("kueue", "s, 15,000 workloads", KUEUE_SECONDS_LIMIT, seconds / sizes.scale, amount=1),
        limit("kueue_wait", "deviation from the published waits", KUEUE_DEVIATION_LIMIT, *deviations),
        limit(
            "kueue_growth", "times the time, 50,000 workloads", KUEUE_GROWTH_LIMIT, larger.wall_seconds / seconds * stretch(sizes)
        ),
    ]


def stretch(sizes: Sizes) -> float:
    """The factor that scales the measured growth to that from 15,000 to 50,000 workloads."""
    return (50_000 / 15_000) / (sizes.larger_scale / sizes.scale)


def pods(sizes: Sizes, *, twin_only: bool) -> list[Metric]:
    """Pods from submission to completion in virtual time; a quick run is extrapolated to 100,000 pods."""
    from bench.harness.pod_scale import run

    outcomes = []
    for nodes, jobsets in (sizes.small, sizes.large):
        # Each run has its own process, so that peak memory is measured separately.
        with get_context("spawn").Pool(1) as pool:
            outcomes.append(pool.apply(run, (nodes, jobsets)))
        outcome = outcomes[-1]
        progress.say(
            f"pods: {outcome.nodes:,} nodes, {outcome.jobsets:,} JobSets, {outcome.pods:,} pods in {outcome.wall_seconds:.1f} s, "
            f"{outcome.virtual_seconds:,.0f} s of virtual time; {outcome.seconds_per_pod * 1000:.2f} ms per pod, "
            f"{outcome.peak_bytes / 1e6:,.0f} MB"
        )
    small, large = outcomes
    # With few pods, noise can make the difference negative.
    bytes_per_pod = max(large.peak_bytes - small.peak_bytes, 0) / max(large.pods - small.pods, 1)
    memory = large.peak_bytes + bytes_per_pod * (TOTAL_PODS - large.pods)
    return [
        limit("pods", "s, 100,000 pods", POD_SECONDS_LIMIT, large.seconds_per_pod * TOTAL_PODS, amount=1),
        limit("pod_memory", "MB, 100,000 pods", POD_MEMORY_LIMIT, memory / 1e6, amount=1),
        limit("pod_growth", "times the cost of a pod, 10× pods", GROWTH_LIMIT, large.seconds_per_pod / small.seconds_per_pod),
    ]


def kwok(sizes: Sizes, *, twin_only: bool) -> list[Metric]:
    """A Job until all its pods are running: the twin in real time, and a real control plane with KWOK's nodes."""
    from bench.harness.kwok import compare
    from bench.harness.servers import ControlPlaneServer, Server, TwinServer

    metric = Metric("kwok", f"s, {sizes.job_pods:,} pods running", 1, lower_is_better=True, amount=sizes.job_pods)
    with tempfile.TemporaryDirectory(prefix="sliceworks-bench-") as folder:
        servers: list[Server] = []
        try:
            servers.append(TwinServer(Path(folder) / "twin", workloads=True))
            if not twin_only:
                servers.append(ControlPlaneServer(Path(folder) / "real", workloads=True))
            clock.run(compare(servers, sizes.job_pods, sizes.repeats, metric))
        finally:
            for server in servers:
                server.stop()
    return [metric]


BENCHMARKS = {"kueue": kueue, "pods": pods, "kwok": kwok}


def measure(sizes: Sizes, options: Namespace) -> list[Metric]:
    """Run the named benchmarks at this size."""
    return [metric for name in options.benchmarks for metric in BENCHMARKS[name](sizes, twin_only=options.no_peers)]


SCRIPT = Script(
    "workloads",
    "The twin's workload controllers compared with Kueue's published benchmark and with KWOK, and at scale.",
    Profiles(FULL, QUICK, TINY, LARGE, NORMAL),
    measure,
    ("limit or real", "twin"),
    benchmarks=BENCHMARKS,
    peers="--twin-only",
)

if __name__ == "__main__":
    SCRIPT.main()
