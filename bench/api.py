"""The twin's API server compared with the real etcd and kube-apiserver, with the same client in the same run.

    python bench/api.py [--quick | --large] [--twin-only] [--json-only]

Progress goes to stderr. The last line on stdout is JSON: `{"creates": {"ratio": 2.3, "goal": 2.0}, …}`. The real programs are built
once, with Go, in a few minutes. etcd runs without fsync; the twin writes to disk.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.harness import instant_webhook
from bench.harness.api_load import ApiLoad
from bench.harness.command import Profiles, Script
from bench.harness.metric import Metric, limit
from bench.harness.servers import ControlPlaneServer, Server, TwinServer

from sliceworks.base import clock, progress

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Awaitable, Callable

MEMORY_LIMIT = 1_000.0  # MB
START_LIMIT = 0.5  # s
IDLE_LIMIT = 120.0  # MB
PROTOBUF = "application/vnd.kubernetes.protobuf"


@dataclass(frozen=True, slots=True)
class Sizes:
    """Repetitions, operations per repetition, and numbers of objects."""

    repeats: int = 5
    starts: int = 3
    warm_up: int = 500
    creates: int = 900
    gets: int = 3_000
    patches: int = 1_500
    listed: int = 5_000  # must be at least warm_up + repeats * creates
    watchers: int = 100
    events: int = 1_000
    objects: int = 100_000


FULL = Sizes()
QUICK = Sizes(repeats=3, starts=1, warm_up=150, creates=600, gets=1_500, patches=400, events=250, objects=10_000)
TINY = replace(QUICK, repeats=1, warm_up=10, creates=20, gets=20, patches=20, listed=40, watchers=3, events=5, objects=60)
LARGE = replace(FULL, starts=1, creates=9_000, gets=30_000, patches=15_000, listed=50_000, watchers=1_000)
NORMAL = replace(FULL, starts=1, objects=10_000)


def new_metrics(sizes: Sizes) -> dict[str, Metric]:
    """The metrics with their goals."""
    metrics = (
        Metric("start", "s until ready", 8, lower_is_better=True),
        limit("start_workloads", "s until ready, with all controllers", START_LIMIT),
        limit("memory_workloads", "MB, with all controllers, idle", IDLE_LIMIT),
        Metric("memory", "MB after the load", 5, lower_is_better=True),
        Metric("creates", "creates/s, 16 clients", 2, amount=1),
        Metric("webhooks", "creates/s with a mutating and a validating webhook", 1.5, amount=1),
        Metric("gets", "gets/s, 16 clients", 2, amount=1),
        Metric("protobuf", "gets/s in protobuf, 16 clients", 1, amount=1),
        Metric("protobuf_json", "gets/s in protobuf; baseline: JSON, not decoded", 1),
        Metric("patches", "merge patches/s, 16 clients", 2, amount=1),
        Metric("list", f"s, list of {sizes.listed:,} pods", 1, lower_is_better=True, amount=sizes.listed),
        Metric("watch", f"events/s to {sizes.watchers:,} watchers", 1, amount=1),
        limit("memory_100k", "MB, 100,000 pods", MEMORY_LIMIT, amount=1),
    )
    return {metric.name: metric for metric in metrics}


class Bench:
    """One run."""

    def __init__(self, sizes: Sizes, folder: Path, *, twin_only: bool = False, profile: Path | None = None) -> None:
        self.sizes, self.folder, self.profile = sizes, folder, profile
        self.kinds: tuple[str, ...] = ("twin",) if twin_only else ("twin", "real")
        self.metrics = new_metrics(sizes)

    def run(self) -> list[Metric]:
        """Start the servers, load them and stop them."""
        # Compile the bytecode before the first start that is measured, as an installation does.
        TwinServer(self.folder / "first").stop()
        for number in range(self.sizes.starts):
            twin = TwinServer(self.folder / f"workloads-{number}", workloads=True)
            self._add("start_workloads", twin, twin.seconds_to_ready)
            self._add("memory_workloads", twin, twin.resident_bytes() / 1e6)
            twin.stop()
        servers: list[Server] = []
        try:
            # The twin first: kube-apiserver is busy for some seconds after its start.
            servers += [self._measure_starts(kind) for kind in self.kinds]
            clock.run(self._load(servers))
        finally:
            for server in servers:
                server.stop()
        return list(self.metrics.values())

    def _measure_starts(self, kind: str) -> Server:
        """Start a server several times; returns the last one, running."""
        for number in range(1, max(self.sizes.starts, 3 if kind == "twin" else 1)):
            self._start(kind, number).stop()
        return self._start(kind, 0)

    def _start(self, kind: str, number: int) -> Server:
        folder = self.folder / f"{kind}-{number}"
        server: Server = TwinServer(folder, profile=self.profile) if kind == "twin" else ControlPlaneServer(folder)
        self._add("start", server, server.seconds_to_ready)
        return server

    def _add(self, name: str, server: Server, value: float) -> None:
        metric = self.metrics[name]
        progress.say(f"{name:16} {server.name}  {value:,.3f} {metric.unit}")
        (metric.values if server.name == "twin" else metric.baseline).append(value)

    async def _load(self, servers: list[Server]) -> None:
        sizes, loads = self.sizes, [ApiLoad(server) for server in servers]
        for load in loads:
            await load.prepare(sizes.warm_up)
        await self._repeat("creates", loads, lambda load: load.creates(sizes.creates))
        await self._repeat("gets", loads, lambda load: load.gets(sizes.gets))
        await self._repeat("protobuf", loads, lambda load: load.raw_gets(sizes.gets, PROTOBUF))
        for _ in range(sizes.repeats):
            self.metrics["protobuf_json"].baseline.append(await loads[0].raw_gets(sizes.gets, "application/json"))
        self.metrics["protobuf_json"].values = self.metrics["protobuf"].values
        await self._repeat("patches", loads, lambda load: load.patches(sizes.patches))
        with instant_webhook.running(self.folder) as (port, certificate):
            for load in loads:
                await load.install_webhooks(port, certificate)
            await self._repeat("webhooks", loads, lambda load: load.reviewed_creates(sizes.creates))
        for load in loads:
            await load.fill(sizes.listed)
        await self._repeat("list", loads, lambda load: load.list_seconds())
        await self._repeat(
            "watch", loads, lambda load: load.fan_out(sizes.watchers, sizes.events), repeats=(sizes.repeats + 1) // 2
        )
        for load in loads:
            self._add("memory", load.server, load.server.resident_bytes() / 1e6)
        await self._memory_100k(loads[0])
        for load in loads:
            await load.close()

    async def _repeat(
        self, name: str, loads: list[ApiLoad], act: Callable[[ApiLoad], Awaitable[float]], *, repeats: int | None = None
    ) -> None:
        """Measure both servers in alternating order."""
        for turn in range(repeats or self.sizes.repeats):
            for load in loads if turn % 2 else reversed(loads):
                self._add(name, load.server, await act(load))

    async def _memory_100k(self, load: ApiLoad) -> None:
        """Memory of the twin with 100,000 pods, extrapolated in a smaller run."""
        idle = load.server.resident_bytes()
        before = len(load.names)
        await load.fill(self.sizes.objects)
        # With few pods the server may have released more memory than they take.
        per_pod = max(load.server.resident_bytes() - idle, 0) / (self.sizes.objects - before)
        extrapolated = load.server.resident_bytes() + per_pod * (100_000 - self.sizes.objects)
        self._add("memory_100k", load.server, extrapolated / 1e6)


def measure(sizes: Sizes, options: Namespace) -> list[Metric]:
    """Run all benchmarks at this size."""
    with tempfile.TemporaryDirectory(prefix="sliceworks-bench-") as folder:
        return Bench(sizes, Path(folder), twin_only=options.no_peers, profile=options.profile).run()


SCRIPT = Script(
    "api",
    "The twin's API server compared with the real etcd and kube-apiserver.",
    Profiles(FULL, QUICK, TINY, LARGE, NORMAL),
    measure,
    ("real", "twin"),
    peers="--twin-only",
    files={"--profile": "run the twin under cProfile and write the profile to FILE"},
)

if __name__ == "__main__":
    SCRIPT.main()
