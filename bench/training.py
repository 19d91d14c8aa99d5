"""The `train` commands compared with time limits, on a twin in its own process, over HTTPS and in real time.

    python bench/training.py [submit] [list] [why] [forecast] [--quick | --large] [--json-only]

Without a name all run. Commands are timed as a whole, including the start of Python. Progress goes to stderr. The last line on
stdout is JSON: `{"submit": {"ratio": 2.0, "goal": 1}, …}`; the ratio is limit divided by measured time.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.harness import training_load
from bench.harness.command import Profiles, Script
from bench.harness.metric import limit
from bench.harness.servers import TwinDaemon
from bench.harness.training_load import time_command

from bench import forecast
from sliceworks.base import clock, progress
from sliceworks.cli.env_site import read_environment
from sliceworks.kube.resources import JOBSET
from sliceworks.training import submission
from sliceworks.training.queues import build_manifests

if TYPE_CHECKING:
    from argparse import Namespace

    from bench.harness.metric import Metric

    from sliceworks.kube.client import Client

ROOT = Path(__file__).parents[1]
JOB = ROOT / "examples" / "training-jobs" / "hello-one-slice.yaml"
ENVIRONMENT = ROOT / "examples" / "environments" / "training" / "environment.yaml"
SECONDS_LIMIT = 1.0
_CONCURRENCY = 8


@dataclass(frozen=True, slots=True)
class Sizes:
    """Jobs for `submit` and `list`, jobs for `why`, and repetitions."""

    jobs: int = 5_000
    why_jobs: int = 10_000
    repeats: int = 5
    forecast: forecast.Sizes = field(default_factory=forecast.Sizes)


FULL = Sizes()
QUICK = Sizes(jobs=1_000, why_jobs=1_000, repeats=3, forecast=forecast.QUICK)
TINY = Sizes(jobs=20, why_jobs=110, repeats=1, forecast=forecast.TINY)
LARGE = Sizes(jobs=50_000, why_jobs=100_000, forecast=forecast.LARGE)


def submit_and_list(sizes: Sizes, names: set[str]) -> list[Metric]:
    """`train submit` and `train list` with many jobs on one twin."""
    with tempfile.TemporaryDirectory(prefix="sliceworks-bench-") as folder:
        twin = TwinDaemon(Path(folder))
        try:
            clock.run(_load(twin, sizes.jobs))
            metrics = []
            if "submit" in names:
                metrics.append(_submit(twin, sizes))
            if "list" in names:
                seconds = [time_command(twin, "list", "-A") for _ in range(sizes.repeats)]
                metrics.append(limit("list", f"s, {sizes.jobs:,} jobs", SECONDS_LIMIT, *seconds, amount=sizes.jobs))
            return metrics
        finally:
            twin.stop()


async def _load(twin: TwinDaemon, count: int) -> None:
    """Create `count` training jobs: one runs, the others are pending."""
    jobset, slots = submission.load(JOB).jobset(), asyncio.Semaphore(_CONCURRENCY)
    started = clock.perf_counter()
    async with twin.client() as client:
        for manifest in build_manifests(read_environment(ENVIRONMENT)):
            await client.create(manifest)
        await asyncio.gather(*(_create(client, slots, jobset, f"job-{number}") for number in range(count)))
        await training_load.wait_queued(client, count)
    progress.say(f"{count:,} jobs queued in {clock.perf_counter() - started:.0f} s")


async def _create(client: Client, slots: asyncio.Semaphore, jobset: dict[str, Any], name: str) -> None:
    async with slots:
        await client.create({**jobset, "metadata": {**jobset["metadata"], "name": name}}, resource=JOBSET)


def _submit(twin: TwinDaemon, sizes: Sizes) -> Metric:
    """From the call to the stored JobSet, including all checks."""
    metric = limit("submit", f"s, with {sizes.jobs:,} jobs", SECONDS_LIMIT, amount=1)
    for number in range(sizes.repeats):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(JOB.read_text().replace("name: hello-one-slice", f"name: measured-{number}"))
            file.flush()
            metric.values.append(time_command(twin, "submit", "-q", "-f", file.name))
    return metric


def why(sizes: Sizes) -> list[Metric]:
    """`train why` with many jobs."""
    with tempfile.TemporaryDirectory(prefix="sliceworks-bench-") as folder:
        seconds = clock.run(training_load.measure_why(Path(folder), sizes.why_jobs, sizes.repeats))
    return [limit("why", f"s, with {sizes.why_jobs:,} jobs", SECONDS_LIMIT, *seconds, amount=sizes.why_jobs)]


def measure(sizes: Sizes, options: Namespace) -> list[Metric]:
    """Run the named benchmarks at this size."""
    names = set(options.benchmarks)
    metrics = submit_and_list(sizes, names) if names & {"submit", "list"} else []
    metrics += why(sizes) if "why" in names else []
    if "forecast" in names:
        metrics += [replace(metric, name="forecast") for metric in forecast.duration(sizes.forecast)]
    return metrics


SCRIPT = Script(
    "training",
    "The `train` commands compared with time limits.",
    Profiles(FULL, QUICK, TINY, LARGE),
    measure,
    benchmarks=("submit", "list", "why", "forecast"),
)

if __name__ == "__main__":
    SCRIPT.main()
