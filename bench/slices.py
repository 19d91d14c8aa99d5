"""The slices controller compared with limits, on a twin with a cloud, over HTTP and in real time.

    python bench/slices.py [--quick | --large] [--json-only]

Progress goes to stderr. The last line on stdout is JSON: `{"creates": {"ratio": 0.95, "goal": 0.83}, …}`. The ratio is limit
divided by measured value.
"""

from __future__ import annotations

import asyncio
import math
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.harness import slices
from bench.harness.command import Profiles, Script
from bench.harness.metric import limit, percentile
from bench.harness.servers import TwinDaemon
from tests.real.processes import resident_bytes

from sliceworks.base import clock, progress

if TYPE_CHECKING:
    from argparse import Namespace

    from bench.harness.metric import Metric

    from sliceworks.kube.client import Client


@dataclass(frozen=True, slots=True)
class Sizes:
    """Leader pods, the cloud's concurrent operations and their duration, and nodes."""

    leaders: int = 1_000
    operations: int = 30
    operation_seconds: float = 2.0
    later_leaders: int = 200
    """Leaders that are created one by one, after the others have their slices."""
    interval: float = 0.1
    nodes: int = 10_000
    timeout: float = 300.0


FULL = Sizes()
QUICK = Sizes(leaders=240, later_leaders=60, nodes=1_000)
TINY = Sizes(leaders=8, operations=4, operation_seconds=0.4, later_leaders=4, nodes=20)
LARGE = Sizes(leaders=10_000, operations=300, nodes=100_000, timeout=3_000.0)


class Bench:
    """One run."""

    def __init__(self, sizes: Sizes, folder: Path) -> None:
        self.sizes, self.folder = sizes, folder
        self.metrics: list[Metric] = []

    async def run(self) -> list[Metric]:
        """Start a twin, load it, and measure."""
        twin = TwinDaemon(self.folder)
        try:
            async with twin.client() as client:
                await self._measure(twin, client)
        finally:
            twin.stop()
        return self.metrics

    async def _measure(self, twin: TwinDaemon, client: Client) -> None:
        sizes = self.sizes
        await twin.configure(client, operations=sizes.operations, seconds=sizes.operation_seconds)
        await client.create(slices.jobset("many", sizes.leaders))
        await slices.wait_unschedulable(client, sizes.leaders, sizes.timeout)
        async with slices.Controller(twin) as controller:
            await self._creates(controller)
            await slices.wait_running(client, sizes.leaders, sizes.timeout)
            self._lists(controller)
            await twin.configure(client, operations=sizes.leaders, seconds=sizes.operation_seconds)
            await self._latency(controller, client)
        await slices.add_nodes(client, sizes.nodes)
        await self._memory(twin)

    async def _creates(self, controller: slices.Controller) -> None:
        """From the start of the controller, with all leaders unschedulable, to the last accepted create request."""
        sizes = self.sizes
        started = clock.loop_time()
        bound = (math.ceil(sizes.leaders / sizes.operations) - 1) * sizes.operation_seconds
        await controller.wait_accepted(sizes.leaders, 20 * bound + self.sizes.timeout)
        seconds = max(controller.container.accepted.values()) - started
        # The bound is proportional to leaders / operations, and so is the amount of work in that time.
        amount = sizes.leaders / sizes.operations
        self._add(limit("creates", f"s, {sizes.leaders:,} node pools", bound, seconds, goal=1 / 1.2, amount=amount))

    def _lists(self, controller: slices.Controller) -> None:
        """Each node pool changes twice: its creation is requested, and it is running."""
        changes = 2 * len(controller.container.accepted)
        self._add(limit("lists", f"lists for {changes:,} changes", changes, controller.container.lists, amount=changes))

    async def _latency(self, controller: slices.Controller, client: Client) -> None:
        """From the event of an unschedulable leader to the create request, with all other slices present."""
        async with slices.unschedulable_times(client) as unschedulable:
            for number in range(self.sizes.later_leaders):
                await client.create(slices.jobset(f"later-{number}", 1))
                await clock.sleep(self.sizes.interval)
            sent = controller.container.sent
            async with asyncio.timeout(self.sizes.timeout):
                while (
                    len(jobs := [job for job in sent if job in unschedulable and job.startswith("later-")])
                    < self.sizes.later_leaders
                ):
                    await clock.sleep(0.05)
        delays = [max(sent[job] - unschedulable[job], 0.0) * 1000 for job in jobs]
        median, p99 = percentile(delays, 0.5), percentile(delays, 0.99)
        progress.say(f"latency  {len(delays)} leaders: median {median:.0f} ms, p99 {p99:.0f} ms, maximum {max(delays):.0f} ms")
        self._add(limit("latency", f"ms to the create request, {self.sizes.leaders:,} slices, p99", 100, p99, amount=1))

    async def _memory(self, twin: TwinDaemon) -> None:
        """Peak memory of the controller as a process, when it has been stable for four seconds."""
        command = [sys.executable, "-m", "sliceworks", "controller", "run", "slices", "--twin"]
        addresses = ["--metrics-bind-address=0", "--health-probe-bind-address=0"]
        process = subprocess.Popen([*command, *addresses], env=twin.environment, stderr=subprocess.DEVNULL)
        try:
            peak, stable = 0, 0
            while stable < 8:
                await clock.sleep(0.5)
                if process.poll() is not None:
                    raise SystemExit(f"the controller exited with status {process.returncode}")
                now = resident_bytes(process.pid)
                peak, stable = max(peak, now), stable + 1 if now <= peak else 0
            nodes = self.sizes.nodes
            self._add(limit("memory", f"MB, {nodes:,} nodes", 150, peak / 1e6, amount=nodes))
        finally:
            process.terminate()
            process.wait(120)

    def _add(self, metric: Metric) -> None:
        progress.say(f"{metric.name:8} {metric.values[0]:,.1f} {metric.unit} (limit {metric.baseline[0]:,.1f})")
        self.metrics.append(metric)


def measure(sizes: Sizes, options: Namespace) -> list[Metric]:
    """Run all benchmarks at this size."""
    with tempfile.TemporaryDirectory(prefix="sliceworks-bench-") as folder:
        return clock.run(Bench(sizes, Path(folder)).run())


SCRIPT = Script("slices", "The slices controller compared with limits.", Profiles(FULL, QUICK, TINY, LARGE), measure)

if __name__ == "__main__":
    SCRIPT.main()
