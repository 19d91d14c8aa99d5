"""How long environments take: to check, to rehearse from nothing, and by the number of their node pools.

    python bench/environments.py [--quick | --tiny] [--json-only]

Real Terraform works on a twin, with the stand-in provider. There is no peer: `check` and `training` are held against bounds in
seconds. What each further pool costs is counted in seconds of work, which is processor time. Of our own work (the command, the
provider, the twin) a further pool must cost no more with many pools than with few. Terraform itself grows faster than linearly: how
many times more a further pool costs it among many is held against how it grows alone, with as many things of its built-in kind.
Progress goes to stderr. The last line on stdout is JSON: `{"check": {"ratio": 3.1, "goal": 1.0}, …}`.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.measure import program, terraform
from bench.measure.results import Measure
from tests.real.processes import cpu_seconds

from sliceworks.base import progress

EXAMPLE = Path(__file__).parents[1] / "examples" / "environments" / "training" / "environment.yaml"
MANY = """apiVersion: sliceworks.dev/v1alpha1
kind: Environment
metadata: {{name: many}}
spec:
  project: my-project
  region: us-central2
  zones: [us-central2-b]
  deletionProtection: false
  forceDestroy: true
  automation: {{bucket: many-automation}}
  pools:
    cpu: {{{pools}}}
"""
QUICK_CLOUD = """apiVersion: sliceworks.dev/v1alpha1
kind: Scenario
metadata: {name: quick}
spec:
  duration: 1h
  events:
  - {at: 0s, setCloud: {seconds: {createCluster: 1, createNodePool: 1, boot: 1, deleteNodePool: 1}}}
"""
_PLANS = 4
"""Plans change nothing, so the least of several tells their cost best."""
_PACE = "10"
"""How fast the twin's time runs: what its controllers do all day would be counted too, and is more the faster it runs."""
LINEAR = 0.67
"""A further pool costs at most half as much again with many pools as with few: what is measured is small and noisy."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Numbers of pools: what all have in common is in the first; what each further one costs is compared for the others. How often
    `check` is run."""

    pools: tuple[int, int, int] = (2, 50, 200)
    checks: int = 5


QUICK = Sizes((2, 12, 42), 3)
TINY = Sizes((1, 2, 3), 1)


def measures() -> dict[str, Measure]:
    """What is measured, with the goals."""
    listed = (
        Measure("check", "s to check a document", 1, less_is_better=True),
        Measure("training", "s to rehearse the training example", 1, less_is_better=True),
        Measure("apply", "s of our work to apply one more pool, few and many", LINEAR, less_is_better=True),
        Measure("plan", "s of our work to plan one more pool, few and many", LINEAR, less_is_better=True),
        Measure("terraform-apply", "times the work to apply one more among many, alone and ours", 1, less_is_better=True),
        Measure("terraform-plan", "times the work to plan one more among many, alone and ours", 1, less_is_better=True),
    )
    return {measure.name: measure for measure in listed}


class Work(NamedTuple):
    """Seconds of processor time: of ours, and of Terraform."""

    ours: float
    terraform: float

    def __sub__(self, other: Work) -> Work:
        return Work(self.ours - other.ours, self.terraform - other.terraform)


@dataclass(frozen=True, slots=True)
class Home:
    """A home with a twin of its own."""

    folder: Path

    def timed(self, *arguments: str) -> float:
        """Seconds that a command takes; one that fails ends the benchmark."""
        command = [sys.executable, "-m", "sliceworks", *arguments]
        environment = {**os.environ, "SLICEWORKS_HOME": str(self.folder), **self.meter.install()}
        began = time.perf_counter()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(arguments)} failed: {done.stderr.strip()}")
        return time.perf_counter() - began

    def worked(self, *arguments: str) -> Work:
        """Seconds of work that a command takes, the twin's among them."""
        before = self._work()
        self.timed(*arguments)
        return self._work() - before

    def _work(self) -> Work:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        pid = (self.folder / "twins" / "default" / "twin.pid").read_text().split()[0]
        whole = used.ru_utime + used.ru_stime + cpu_seconds(int(pid))
        of_terraform = self.meter.seconds()
        return Work(whole - of_terraform, of_terraform)

    @property
    def meter(self) -> terraform.Meter:
        """What tells Terraform's work from ours."""
        return terraform.Meter(self.folder)

    def quick_cloud(self) -> str:
        """A scenario in which machines come at once: what is measured is the work, not the waiting."""
        file = self.folder / "quick.yaml"
        file.write_text(QUICK_CLOUD)
        return str(file)

    def many(self, count: int) -> str:
        """A document with so many pools. They have no nodes yet: what nodes do all day is the twin's own work."""
        file = self.folder / f"many-{count}.yaml"
        file.write_text(MANY.format(pools=", ".join(f"p{index}: {{autoscaling: {{min: 0, max: 3}}}}" for index in range(count))))
        return str(file)


def run(sizes: Sizes) -> list[Measure]:
    """Measure everything, one after the other."""
    found = measures()
    with tempfile.TemporaryDirectory(prefix="sliceworks-bench-") as folder:
        home = Home(Path(folder))
        for _ in range(sizes.checks):
            found["check"].real.append(1.0)
            found["check"].twin.append(home.timed("env", "check", "-f", str(EXAMPLE), "--skip", "quotas"))
        _training(home, found["training"])
        _pools(home, sizes, found)
    return list(found.values())


def _training(home: Home, measure: Measure) -> None:
    """From nothing, the twin itself included, to a cluster with queues, pools and controllers."""
    progress.say("the training example, from nothing")
    measure.real.append(60.0)
    started = home.timed("twin", "start", "--memory", "--speed", "120")
    try:
        measure.twin.append(started + home.timed("env", "apply", "--twin", "-f", str(EXAMPLE)))
    finally:
        home.timed("twin", "stop")


def _pools(home: Home, sizes: Sizes, found: dict[str, Measure]) -> None:
    """The same environment with more and more pools, each time on a fresh twin; and as many things of Terraform's own."""
    ours: dict[str, list[Work]] = {"apply": [], "plan": []}
    alone: dict[str, list[float]] = {"apply": [], "plan": []}
    for count in sizes.pools:
        progress.say(f"{count} pools")
        home.timed("twin", "start", "--memory", "--speed", _PACE)
        try:
            home.timed("twin", "inject", "-f", home.quick_cloud())
            ours["apply"].append(home.worked("env", "apply", "--twin", "-f", home.many(count)))
            planned = [home.worked("env", "plan", "--twin", "-f", home.many(count)) for _ in range(_PLANS)]
            ours["plan"].append(Work(min(each.ours for each in planned), min(each.terraform for each in planned)))
        finally:
            home.timed("twin", "stop")
        for name, worked in zip(alone, terraform.alone(home.folder / f"alone-{count}", count, _PLANS), strict=True):
            alone[name].append(worked)
    for name, spent in ours.items():
        few, many = further(sizes, [each.ours for each in spent])
        found[name].real.append(few)
        found[name].twin.append(many)
        grown = found[f"terraform-{name}"]
        for side, seconds in ((grown.real, alone[name]), (grown.twin, [each.terraform for each in spent])):
            few, many = further(sizes, seconds)
            side.append(many / few)


def further(sizes: Sizes, spent: list[float]) -> tuple[float, float]:
    """What a further pool costs up to the middle number of pools, and from there on."""
    few, some, many = sizes.pools
    return max((spent[1] - spent[0]) / (some - few), 1e-3), max((spent[2] - spent[1]) / (many - some), 1e-3)


def main() -> None:
    """Measure, and print."""
    given = program.arguments("How long environments take.")
    program.tell(run(program.chosen(given, Sizes(), QUICK, TINY)), given, ("bound", "ours"))


if __name__ == "__main__":
    main()
