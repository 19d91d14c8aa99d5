"""The slice controller beside the bounds that the cloud and we set: a twin with a cloud, everything over HTTP, in real time.

    python bench/slices.py [--quick] [--json-only]

Progress goes to stderr. The last line on stdout is JSON: `{"creates": {"ratio": 0.95, "goal": 0.83}, …}`; a goal is met when the
ratio is at least as large.
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

from bench.measure import program, slices
from bench.measure.results import bounded
from tests.real.processes import resident_bytes

from sliceworks.base import clock, progress

if TYPE_CHECKING:
    from bench.measure.results import Measure

    from sliceworks.kube.client import Client


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    leaders: int = 1_000
    operations: int = 30
    seconds: float = 2.0
    late: int = 200  # leaders that come one by one, once the others have their slices
    pace: float = 0.1  # seconds between them
    nodes: int = 10_000


QUICK = Sizes(leaders=240, late=60, nodes=1_000)
TINY = Sizes(leaders=8, operations=4, seconds=0.4, late=4, nodes=20)


class Bench:
    """One run."""

    def __init__(self, sizes: Sizes, folder: Path) -> None:
        self.sizes, self.folder = sizes, folder
        self.found: list[Measure] = []

    async def run(self) -> list[Measure]:
        """Start a twin, load it, and measure."""
        twin = slices.Twin(self.folder)
        try:
            async with twin.client() as client:
                await self._measure(twin, client)
        finally:
            twin.stop()
        return self.found

    async def _measure(self, twin: slices.Twin, client: Client) -> None:
        sizes = self.sizes
        await twin.configure(client, operations=sizes.operations, seconds=sizes.seconds)
        await client.create(slices.jobset("many", sizes.leaders))
        await slices.leaders_waiting(client, sizes.leaders)
        async with slices.Controller(twin) as controller:
            await self._creates(controller)
            await slices.leaders_running(client, sizes.leaders)
            self._lists(controller)
            await twin.configure(client, operations=sizes.leaders, seconds=sizes.seconds)
            await self._latency(controller, client)
        await slices.add_nodes(client, sizes.nodes)
        await self._memory(twin)

    async def _creates(self, controller: slices.Controller) -> None:
        """From the moment the controller knows of all leaders to the last accepted request."""
        sizes = self.sizes
        began = clock.loop_time()
        bound = (math.ceil(sizes.leaders / sizes.operations) - 1) * sizes.seconds
        await controller.until_accepted(sizes.leaders, 20 * bound + 60)
        took = max(controller.container.accepted.values()) - began
        self._note(bounded("creates", f"s for {sizes.leaders:,} pools", bound, took, 1 / 1.2))

    def _lists(self, controller: slices.Controller) -> None:
        """Each pool changes twice: it is asked for, and it is there."""
        changes = 2 * len(controller.container.accepted)
        self._note(bounded("lists", f"lists for {changes:,} changes", changes, controller.container.lists, 1))

    async def _latency(self, controller: slices.Controller, client: Client) -> None:
        """From the arrival of the news that a leader waits to the request for its pool, with all other slices there."""
        async with slices.arrivals(client) as arrived:
            for number in range(self.sizes.late):
                await client.create(slices.jobset(f"late-{number}", 1))
                await clock.sleep(self.sizes.pace)
            async with asyncio.timeout(120):
                while len([job for job in controller.container.sent if job.startswith("late-")]) < self.sizes.late:
                    await clock.sleep(0.05)
        sent = controller.container.sent
        delays = sorted(max(sent[job] - arrived[job], 0.0) * 1000 for job in sent if job in arrived and job.startswith("late-"))
        middle, high = delays[len(delays) // 2], delays[min(int(len(delays) * 0.99), len(delays) - 1)]
        progress.say(f"latency  {len(delays)} leaders: median {middle:.0f} ms, p99 {high:.0f} ms, most {delays[-1]:.0f} ms")
        self._note(bounded("latency", "ms, p99", 100, high, 1))

    async def _memory(self, twin: slices.Twin) -> None:
        """The controller as a process of its own, once it has seen everything."""
        command = [sys.executable, "-m", "sliceworks", "controller", "run", "slices", "--twin"]
        addresses = ["--metrics-bind-address=0", "--health-probe-bind-address=0"]
        process = subprocess.Popen([*command, *addresses], env=twin.environment, stderr=subprocess.DEVNULL)
        try:
            held, still = 0, 0
            while still < 8:
                await clock.sleep(0.5)
                if process.poll() is not None:
                    raise SystemExit(f"the controller ended with {process.returncode}")
                now = resident_bytes(process.pid)
                held, still = max(held, now), still + 1 if now <= held else 0
            self._note(bounded("memory", f"MB beside {self.sizes.nodes:,} nodes", 150, held / 1e6, 1))
        finally:
            process.terminate()
            process.wait(20)

    def _note(self, measure: Measure) -> None:
        progress.say(f"{measure.name:8} {measure.twin[0]:,.1f} {measure.unit} (bound {measure.real[0]:,.1f})")
        self.found.append(measure)


def main() -> None:
    """Measure, and print."""
    given = program.arguments("The slice controller beside the bounds that the cloud and we set.")
    sizes = program.chosen(given, Sizes(), QUICK, TINY)
    with tempfile.TemporaryDirectory(prefix="sliceworks-bench-") as folder:
        found = clock.run(Bench(sizes, Path(folder)).run())
    program.tell(found, given, ("bound", "found"))


if __name__ == "__main__":
    main()
