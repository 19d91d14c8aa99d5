"""The commands of training beside their bounds: a twin of its own process, everything over HTTPS, in real time.

    python bench/training.py [submit] [list] [why] [forecast] [--quick] [--json-only]

Without a name all run. Commands are measured whole, as people run them, the start of Python included. Progress goes to stderr. The
last line on stdout is JSON: `{"submit": {"ratio": 2.0, "goal": 1}, …}`; the ratio is how many times the time that it took fits into
the bound.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.measure import program, why
from bench.measure.results import Measure, bounded
from bench.measure.slices import Twin

from bench import forecast
from sliceworks.base import clock, progress
from sliceworks.cli import train_cluster
from sliceworks.cli.env_sites import read_environment
from sliceworks.rehearsal import submissions
from sliceworks.training.queues import manifests

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.kube.client import Client

ROOT = Path(__file__).parents[1]
JOB = ROOT / "examples" / "training-jobs" / "hello-one-slice.yaml"
ENVIRONMENT = ROOT / "examples" / "environments" / "training" / "environment.yaml"
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    listed: int = 5_000
    beside: int = 10_000
    times: int = 5
    forecast: forecast.Sizes = field(default_factory=forecast.Sizes)


QUICK = Sizes(listed=1_000, beside=1_000, times=3, forecast=forecast.QUICK)
TINY = Sizes(listed=20, beside=110, times=1, forecast=forecast.TINY)


def commands(sizes: Sizes, names: set[str]) -> list[Measure]:
    """`submit` and `list` beside many jobs of one twin."""
    with tempfile.TemporaryDirectory(prefix="sliceworks-bench-") as folder:
        twin = Twin(Path(folder))
        try:
            clock.run(_load(twin, sizes.listed))
            return [_MEASURES[name](twin, sizes) for name in ("submit", "list") if name in names]
        finally:
            twin.stop()


async def _load(twin: Twin, count: int) -> None:
    """So many whole training jobs, of which one runs and the others wait."""
    jobset, room = submissions.read(JOB).jobset(), asyncio.Semaphore(_AT_ONCE)
    began = clock.effort()
    async with twin.client() as client:
        for each in manifests(read_environment(ENVIRONMENT)):
            await client.create(each)
        await asyncio.gather(*(_send(client, room, jobset, f"job-{number}") for number in range(count)))
        await why.settled(client, count)
    progress.say(f"{count:,} jobs are queued after {clock.effort() - began:.0f} s")


async def _send(client: Client, room: asyncio.Semaphore, jobset: dict[str, Any], name: str) -> None:
    async with room:
        await client.create({**jobset, "metadata": {**jobset["metadata"], "name": name}}, resource=train_cluster.JOBSETS)


def _submit(twin: Twin, sizes: Sizes) -> Measure:
    """From the call to the stored JobSet, with everything that is checked before."""
    found = []
    for number in range(sizes.times):
        text = JOB.read_text().replace("name: hello-one-slice", f"name: measured-{number}")
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(text)
            file.flush()
            found.append(_timed(twin, "submit", "-q", "-f", file.name))
    return Measure("submit", f"s, beside {sizes.listed:,} jobs", 1, less_is_better=True, real=[1.0], twin=found)


def _list(twin: Twin, sizes: Sizes) -> Measure:
    found = [_timed(twin, "list", "-A") for _ in range(sizes.times)]
    return Measure("list", f"s, {sizes.listed:,} jobs", 1, less_is_better=True, real=[1.0], twin=found)


_MEASURES: dict[str, Callable[[Twin, Sizes], Measure]] = {"submit": _submit, "list": _list}


def _timed(twin: Twin, *arguments: str) -> float:
    command = [sys.executable, "-m", "sliceworks", "train", *arguments, "--twin"]
    began = clock.effort()
    subprocess.run(command, env=twin.environment, check=True, stdout=subprocess.DEVNULL)
    return clock.effort() - began


def beside_many(sizes: Sizes) -> list[Measure]:
    """`why` beside ten thousand jobs."""
    with tempfile.TemporaryDirectory(prefix="sliceworks-bench-") as folder:
        found = clock.run(why.measure(Path(folder), sizes.beside, sizes.times))
    return [bounded("why", f"s, beside {sizes.beside:,} jobs", why.GOAL, found["command"])]


def forecasts(sizes: Sizes) -> list[Measure]:
    """A forecast of two thousand queued jobs."""
    return [replace(each, name="forecast") for each in forecast.size(sizes.forecast)]


BENCHMARKS = ("submit", "list", "why", "forecast")


def main() -> None:
    """Measure, and print."""
    given = program.arguments("The commands of training beside their bounds.", BENCHMARKS)
    sizes, names = program.chosen(given, Sizes(), QUICK, TINY), set(given.benchmarks)
    found = commands(sizes, names) if names & set(_MEASURES) else []
    found += beside_many(sizes) if "why" in names else []
    found += forecasts(sizes) if "forecast" in names else []
    program.tell(found, given, ("bound", "found"))


if __name__ == "__main__":
    main()
