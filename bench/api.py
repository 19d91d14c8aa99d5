"""The twin's API beside the real etcd and kube-apiserver, driven by the same client in the same run.

    python bench/api.py [--quick] [--twin-only] [--json-only]

Progress goes to stderr. The last line on stdout is JSON: `{"creates": {"ratio": 2.3, "goal": 2.0}, …}`. The real programs are built
once, which takes Go and some minutes; etcd runs without fsync. The twin is durable.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.measure import program
from bench.measure.loads import Load
from bench.measure.results import Measure
from bench.measure.servers import Real, Server, Twin

from sliceworks.base import clock, progress

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

GIGABYTE = 1e9


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    repeats: int = 5
    starts: int = 3
    warm_up: int = 500
    creates: int = 900
    gets: int = 3_000
    patches: int = 1_500
    listed: int = 5_000  # those made before count: warm_up + repeats * creates must not be more
    watchers: int = 100
    events: int = 1_000
    objects: int = 100_000


QUICK = Sizes(repeats=3, starts=1, warm_up=150, creates=600, gets=1_500, patches=400, events=250, objects=10_000)
TINY = replace(QUICK, repeats=1, warm_up=10, creates=20, gets=20, patches=20, listed=40, watchers=3, events=5, objects=60)


def measures() -> dict[str, Measure]:
    """What is compared, with the goals."""
    listed = (
        Measure("start", "s to ready", 8, less_is_better=True),
        Measure("memory", "MB after the load", 5, less_is_better=True),
        Measure("creates", "pods/s, 16 at once", 2),
        Measure("gets", "pods/s, 16 at once", 2),
        Measure("patches", "pods/s, 16 at once", 2),
        Measure("list", "s for a whole list", 1, less_is_better=True),
        Measure("fanout", "events/s to watchers", 1),
        Measure("size", "MB for 100,000 pods", 1, less_is_better=True),
    )
    return {measure.name: measure for measure in listed}


class Bench:
    """One run."""

    def __init__(self, sizes: Sizes, folder: Path, *, twin_only: bool = False, profile: Path | None = None) -> None:
        self.sizes, self.folder, self.profile = sizes, folder, profile
        self.kinds: tuple[str, ...] = ("twin",) if twin_only else ("twin", "real")
        self.found = measures()

    def run(self) -> list[Measure]:
        """Start the servers, load them, end them."""
        # Bytecode is there once a package is installed: it must not be made in the first start that is measured.
        Twin(self.folder / "first").stop()
        servers: list[Server] = []
        try:
            # The twin first: a kube-apiserver has much to do in its first seconds.
            servers += [self._started(kind) for kind in self.kinds]
            clock.run(self._load(servers))
        finally:
            for server in servers:
                server.stop()
        return list(self.found.values())

    def _started(self, kind: str) -> Server:
        """A fresh server, the last of several whose starts are measured."""
        for number in range(1, max(self.sizes.starts, 3 if kind == "twin" else 1)):
            self._start(kind, number).stop()
        return self._start(kind, 0)

    def _start(self, kind: str, number: int) -> Server:
        folder = self.folder / f"{kind}-{number}"
        server: Server = Twin(folder, profile=self.profile) if kind == "twin" else Real(folder)
        self._note("start", server, server.seconds_to_ready)
        return server

    def _note(self, name: str, server: Server, value: float) -> None:
        progress.say(f"{name:8} {server.name}  {value:,.3f} {self.found[name].unit}")
        values = self.found[name].twin if server.name == "twin" else self.found[name].real
        values.append(value)

    async def _load(self, servers: list[Server]) -> None:
        sizes, loads = self.sizes, [Load(server) for server in servers]
        for load in loads:
            await load.prepare(sizes.warm_up)
        await self._repeat("creates", loads, lambda load: load.creates(sizes.creates))
        await self._repeat("gets", loads, lambda load: load.gets(sizes.gets))
        await self._repeat("patches", loads, lambda load: load.patches(sizes.patches))
        for load in loads:
            await load.fill(sizes.listed)
        await self._repeat("list", loads, lambda load: load.list_seconds())
        await self._repeat(
            "fanout", loads, lambda load: load.fan_out(sizes.watchers, sizes.events), repeats=(sizes.repeats + 1) // 2
        )
        for load in loads:
            self._note("memory", load.server, load.server.resident_bytes() / 1e6)
        await self._size(loads[0])
        for load in loads:
            await load.close()

    async def _repeat(
        self, name: str, loads: list[Load], act: Callable[[Load], Awaitable[float]], *, repeats: int | None = None
    ) -> None:
        """Measure each side in turn, now one first and now the other."""
        for turn in range(repeats or self.sizes.repeats):
            for load in loads if turn % 2 else reversed(loads):
                self._note(name, load.server, await act(load))

    async def _size(self, load: Load) -> None:
        """What the twin holds with 100,000 pods; a smaller run is stretched to that number."""
        idle = load.server.resident_bytes()
        before = len(load.names)
        await load.fill(self.sizes.objects)
        # A server that gives memory back in between has not paid with it: few objects drown in that.
        each = max(load.server.resident_bytes() - idle, 0) / (self.sizes.objects - before)
        stretched = load.server.resident_bytes() + each * (100_000 - self.sizes.objects)
        self.found["size"].real = [GIGABYTE / 1e6]
        self._note("size", load.server, stretched / 1e6)


def main() -> None:
    """Measure, and print."""
    given = program.arguments(
        "The twin's API beside the real etcd and kube-apiserver.",
        flags={"--twin-only": "leave the real programs out"},
        files={"--profile": "run the twin under cProfile; what it found goes to FILE"},
    )
    with tempfile.TemporaryDirectory(prefix="sliceworks-bench-") as folder:
        sizes = program.chosen(given, Sizes(), QUICK, TINY)
        found = Bench(sizes, Path(folder), twin_only=given.twin_only, profile=given.profile).run()
    program.tell(found, given)


if __name__ == "__main__":
    main()
