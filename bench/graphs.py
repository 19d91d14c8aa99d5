"""Our graphs controller compared with kro, each on a fresh etcd and kube-apiserver, one after the other.

    python bench/graphs.py [--quick | --large] [--ours-only] [--json-only]

Progress goes to stderr. The last line on stdout is JSON: `{"instances_tuned": {"ratio": 4.1, "goal": 3.0}, …}`. kro runs with its
defaults, and tuned: 32 workers, no rate limits of client and queue, a short requeue interval. The programs are built once, with Go,
in a few minutes.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.harness.command import Profiles, Script
from bench.harness.graph_engines import TUNED, Engine, GraphLoad, chain, collection, start_load, wide
from bench.harness.metric import Metric

from sliceworks.base import clock, progress

if TYPE_CHECKING:
    from argparse import Namespace

    from sliceworks.kube import Resource


@dataclass(frozen=True, slots=True)
class Sizes:
    """Instances per engine, idle instances, seconds of idling, small and large graphs, and objects created per graph size."""

    default: int = 500
    tuned: int = 500
    ours: int = 500
    idle: int = 1000
    idle_seconds: float = 20.0
    resources: tuple[int, int] = (50, 100)
    items: tuple[int, int] = (250, 1000)
    objects: int = 1000


FULL = Sizes()
QUICK = Sizes(default=24, tuned=40, ours=120, idle=120, idle_seconds=4.0, resources=(20, 40), items=(100, 300), objects=300)
TINY = replace(QUICK, default=2, tuned=3, ours=3, idle=3, idle_seconds=1.0, resources=(10, 20), items=(5, 10), objects=20)
LARGE = Sizes(ours=5_000, idle=10_000, resources=(50, 1_000), items=(250, 10_000), objects=10_000)


def new_metrics(sizes: Sizes) -> dict[str, Metric]:
    """The metrics with their goals."""
    metrics = (
        Metric("instances_tuned", "instances ready/s, kro tuned", 3, amount=1),
        Metric("instances_default", "instances ready/s, kro with its defaults", 10),
        Metric("requests", "API requests per instance", 3, lower_is_better=True, amount=1),
        Metric("memory", f"MB, {sizes.idle:,} idle instances", 0.5, lower_is_better=True, amount=sizes.idle),
        Metric("idle_writes", "writes while idle, plus one", 1, lower_is_better=True),
        Metric("resource_cpu", "CPU ms per resource, small and large graph", 0.7, lower_is_better=True, amount=1),
        Metric("item_cpu", "CPU ms per item, small and large collection", 0.7, lower_is_better=True, amount=1),
    )
    return {metric.name: metric for metric in metrics}


class Bench:
    """One run."""

    def __init__(self, sizes: Sizes, folder: Path, *, ours_only: bool) -> None:
        self.sizes, self.folder, self.ours_only = sizes, folder, ours_only
        self.metrics = new_metrics(sizes)

    async def run(self) -> list[Metric]:
        """Measure one engine after the other."""
        if not self.ours_only:
            await self._kro_default()
            await self._engine("kro-tuned", TUNED, self.sizes.tuned)
        await self._engine("ours", (), self.sizes.ours)
        return list(self.metrics.values())

    async def _kro_default(self) -> None:
        async with start_load(Engine("kro", self.folder / "kro")) as load:
            kind = await load.publish(chain())
            rate = self.sizes.default / await load.create_instances(kind, self.sizes.default)
            self._add("instances_default", rate, ours=False)

    async def _engine(self, name: str, flags: tuple[str, ...], count: int) -> None:
        ours = name == "ours"
        async with start_load(Engine(name, self.folder / name, flags)) as load:
            kind = await load.publish(chain())
            before = await load.requests(kind.plural)
            rate = count / await load.create_instances(kind, count)
            self._add("instances_tuned", rate, ours=ours)
            if ours:
                self._add("instances_default", rate, ours=ours)
            await load.wait_idle(kind.plural)
            # Without the request that creates the instance.
            self._add("requests", ((await load.requests(kind.plural)) - before).total / count - 1, ours=ours)
            await self._idle(load, kind, self.sizes.idle - count, ours=ours)
            if ours:
                await self._graph_sizes(load)

    async def _idle(self, load: GraphLoad, kind: Resource, missing: int, *, ours: bool) -> None:
        if missing > 0:
            await load.create_instances(kind, missing)
        await load.wait_idle(kind.plural)
        before = await load.requests(kind.plural)
        await clock.sleep(self.sizes.idle_seconds)
        writes = ((await load.requests(kind.plural)) - before).writes
        self._add("memory", load.engine.resident_bytes() / 1e6, ours=ours)
        self._add("idle_writes", writes + 1, ours=ours)

    async def _graph_sizes(self, load: GraphLoad) -> None:
        """CPU time per object must not grow with the size of the graph: the baseline is the small graph."""
        for is_large, count in enumerate(self.sizes.resources):
            kind = await load.publish(wide(count))
            self._add("resource_cpu", await self._cpu_per_object(load, kind, count), ours=bool(is_large))
        kind = await load.publish(collection())
        for is_large, count in enumerate(self.sizes.items):
            names = [f"{number:04d}" for number in range(count)]
            self._add("item_cpu", await self._cpu_per_object(load, kind, count, {"items": names}), ours=bool(is_large))

    async def _cpu_per_object(self, load: GraphLoad, kind: Resource, count: int, spec: dict[str, list[str]] | None = None) -> float:
        """Milliseconds of CPU time per object, over enough objects to be measurable."""
        await load.create_instances(kind, 1, spec)
        repeats = max(1, self.sizes.objects // count)
        before = load.engine.cpu_seconds()
        for _ in range(repeats):
            await load.create_instances(kind, 1, spec)
        await clock.sleep(1)
        return 1000 * (load.engine.cpu_seconds() - before) / (count * repeats)

    def _add(self, name: str, value: float, *, ours: bool) -> None:
        metric = self.metrics[name]
        side = ("large" if ours else "small") if name.endswith("_cpu") else ("ours" if ours else "kro")
        progress.say(f"{name:17} {side:5}  {value:,.2f} {metric.unit}")
        (metric.values if ours else metric.baseline).append(value)


def measure(sizes: Sizes, options: Namespace) -> list[Metric]:
    """Run all benchmarks at this size."""
    with tempfile.TemporaryDirectory(prefix="sliceworks-bench-") as folder:
        return clock.run(Bench(sizes, Path(folder), ours_only=options.no_peers).run())


SCRIPT = Script(
    "graphs",
    "Our graphs controller compared with kro.",
    Profiles(FULL, QUICK, TINY, LARGE),
    measure,
    ("kro", "ours"),
    peers="--ours-only",
)

if __name__ == "__main__":
    SCRIPT.main()
