"""Our engine of resource graphs beside kro's, each on a fresh etcd and kube-apiserver, one after the other.

    python bench/graphs.py [--quick] [--ours-only] [--json-only]

Progress goes to stderr. The last line on stdout is JSON: `{"tuned": {"ratio": 4.1, "goal": 3.0}, …}`. kro runs with its defaults,
and tuned: 32 workers, no limits on its client or its queue, a short requeue. The programs are built once, which takes Go and some
minutes.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.measure import program
from bench.measure.engines import TUNED, Engine
from bench.measure.graph_load import GraphLoad, chain, collection, wide
from bench.measure.results import Measure

from sliceworks.base import clock, progress

if TYPE_CHECKING:
    from sliceworks.kube import Resource


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured: instances for each engine, idle ones, seconds of idling, steps of growth and objects made in each."""

    default: int = 500
    tuned: int = 500
    ours: int = 500
    idle: int = 1000
    rest: float = 20.0
    resources: tuple[int, int] = (50, 100)
    items: tuple[int, int] = (250, 1000)
    objects: int = 1000


QUICK = Sizes(default=24, tuned=40, ours=120, idle=120, rest=4.0, resources=(20, 40), items=(100, 300), objects=300)
TINY = replace(QUICK, default=2, tuned=3, ours=3, idle=3, rest=1.0, resources=(10, 20), items=(5, 10), objects=20)


def measures() -> dict[str, Measure]:
    """What is compared, with the goals."""
    listed = (
        Measure("tuned", "instances/s, kro tuned", 3),
        Measure("default", "instances/s, kro as it comes", 10),
        Measure("calls", "API calls per instance", 3, less_is_better=True),
        Measure("memory", "MB with idle instances", 0.5, less_is_better=True),
        Measure("idle", "writes while idle, plus one", 1, less_is_better=True),
        Measure("resources", "ms of work per resource, half and whole graph", 0.7, less_is_better=True),
        Measure("items", "ms of work per item, few and many", 0.7, less_is_better=True),
    )
    return {measure.name: measure for measure in listed}


class Bench:
    """One run."""

    def __init__(self, sizes: Sizes, folder: Path, *, ours_only: bool) -> None:
        self.sizes, self.folder, self.ours_only = sizes, folder, ours_only
        self.found = measures()

    async def run(self) -> list[Measure]:
        """Each engine in turn."""
        if not self.ours_only:
            await self._kro_default()
            await self._engine("kro-tuned", TUNED, self.sizes.tuned)
        await self._engine("ours", (), self.sizes.ours)
        return list(self.found.values())

    async def _kro_default(self) -> None:
        async with _Loaded(Engine("kro", self.folder / "kro")) as load:
            kind = await load.publish(chain())
            self._note("default", "real", self.sizes.default / await load.make(kind, self.sizes.default))

    async def _engine(self, name: str, flags: tuple[str, ...], count: int) -> None:
        side = "twin" if name == "ours" else "real"
        async with _Loaded(Engine(name, self.folder / name, flags)) as load:
            kind = await load.publish(chain())
            before = await load.calls(kind.plural)
            speed = count / await load.make(kind, count)
            self._note("tuned", side, speed)
            if side == "twin":
                self._note("default", side, speed)
            await load.at_rest(kind.plural)
            # The creations are the load's own.
            self._note("calls", side, ((await load.calls(kind.plural)) - before).all / count - 1)
            await self._idle(load, kind, side, self.sizes.idle - count)
            if side == "twin":
                await self._growth(load)

    async def _idle(self, load: GraphLoad, kind: Resource, side: str, more: int) -> None:
        if more > 0:
            await load.make(kind, more)
        await load.at_rest(kind.plural)
        before = await load.calls(kind.plural)
        await clock.sleep(self.sizes.rest)
        written = ((await load.calls(kind.plural)) - before).writes
        self._note("memory", side, load.engine.resident_bytes() / 1e6)
        self._note("idle", side, written + 1)

    async def _growth(self, load: GraphLoad) -> None:
        """The work on one resource must not grow with their number: the small case stands in the place of the other side."""
        for side, count in zip(("real", "twin"), self.sizes.resources, strict=True):
            kind = await load.publish(wide(count))
            self._note("resources", side, await self._work(load, kind, count))
        kind = await load.publish(collection())
        for side, count in zip(("real", "twin"), self.sizes.items, strict=True):
            names = [f"{number:04d}" for number in range(count)]
            self._note("items", side, await self._work(load, kind, count, {"items": names}))

    async def _work(self, load: GraphLoad, kind: Resource, count: int, spec: dict[str, list[str]] | None = None) -> float:
        """Milliseconds that the engine works for one object, of enough of them to be measured."""
        await load.make(kind, 1, spec)
        times = max(1, self.sizes.objects // count)
        before = load.engine.cpu_seconds()
        for _ in range(times):
            await load.make(kind, 1, spec)
        await clock.sleep(1)
        return 1000 * (load.engine.cpu_seconds() - before) / (count * times)

    def _note(self, name: str, side: str, value: float) -> None:
        measure = self.found[name]
        progress.say(f"{name:10} {'ours' if side == 'twin' else 'kro '}  {value:,.2f} {measure.unit}")
        (measure.twin if side == "twin" else measure.real).append(value)


class _Loaded:
    """An engine with its load, for as long as it is entered."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._load = GraphLoad(engine)

    async def __aenter__(self) -> GraphLoad:
        try:
            await self._load.prepare()
        except BaseException:
            self._engine.stop()
            raise
        return self._load

    async def __aexit__(self, *_: object) -> None:
        await self._load.close()
        self._engine.stop()


def main() -> None:
    """Measure, and print."""
    given = program.arguments("Our engine of resource graphs beside kro's.", flags={"--ours-only": "leave kro out"})
    sizes = program.chosen(given, Sizes(), QUICK, TINY)
    with tempfile.TemporaryDirectory(prefix="sliceworks-bench-") as folder:
        found = clock.run(Bench(sizes, Path(folder), ours_only=given.ours_only).run())
    program.tell(found, given, ("kro", "ours"))


if __name__ == "__main__":
    main()
