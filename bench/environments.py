"""How long environments take: to check, to rehearse from nothing, and by the number of their node pools.

    python bench/environments.py [--quick] [--json-only]

Real Terraform works on a twin, with the stand-in provider. There is no peer: `check` and `training` are held against bounds in
seconds. What each further pool costs with many pools is held against what it costs with few, in seconds of work: the processor
time of Terraform, the provider, our command and the twin together. Progress goes to stderr. The last line on stdout is JSON:
`{"check": {"ratio": 3.1, "goal": 1.0}, …}`.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.measure.results import Measure, as_json, report

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
  - {at: 0s, setCloud: {seconds: {createNodePool: 1, boot: 1, deleteNodePool: 1}}}
"""
_PLANS = 4
"""Plans change nothing, so the least of several tells their cost best."""
LINEAR = 0.67
"""A further pool costs at most half as much again with many pools as with few."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Numbers of pools: what all have in common is in the first; what each further one costs is compared for the others. How often
    `check` is run."""

    pools: tuple[int, int, int] = (2, 20, 200)
    checks: int = 5


QUICK = Sizes((2, 12, 42), 3)


def measures() -> dict[str, Measure]:
    """What is measured, with the goals."""
    listed = (
        Measure("check", "s to check a document", 1, less_is_better=True),
        Measure("training", "s to rehearse the training example", 1, less_is_better=True),
        Measure("apply", "s of work to apply one more pool, few and many", LINEAR, less_is_better=True),
        Measure("plan", "s of work to plan one more pool, few and many", LINEAR, less_is_better=True),
    )
    return {measure.name: measure for measure in listed}


@dataclass(frozen=True, slots=True)
class Home:
    """A home with a twin of its own."""

    folder: Path

    def timed(self, *arguments: str) -> float:
        """Seconds that a command takes; one that fails ends the benchmark."""
        command = [sys.executable, "-m", "sliceworks", *arguments]
        environment = {**os.environ, "SLICEWORKS_HOME": str(self.folder)}
        began = time.perf_counter()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(arguments)} failed: {done.stderr.strip()}")
        return time.perf_counter() - began

    def worked(self, *arguments: str) -> float:
        """Seconds of work that a command takes, the twin's among them."""
        before = self._work()
        self.timed(*arguments)
        return self._work() - before

    def _work(self) -> float:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        pid = (self.folder / "twins" / "default" / "twin.pid").read_text().split()[0]
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return used.ru_utime + used.ru_stime + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

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
    """The same environment with more and more pools, each time on a fresh twin."""
    applied, planned = [], []
    for count in sizes.pools:
        progress.say(f"{count} pools")
        home.timed("twin", "start", "--memory", "--speed", "120")
        try:
            home.timed("twin", "inject", "-f", home.quick_cloud())
            applied.append(home.worked("env", "apply", "--twin", "-f", home.many(count)))
            planned.append(min(home.worked("env", "plan", "--twin", "-f", home.many(count)) for _ in range(_PLANS)))
        finally:
            home.timed("twin", "stop")
    few, some, many = sizes.pools
    for name, spent in (("apply", applied), ("plan", planned)):
        found[name].real.append(max((spent[1] - spent[0]) / (some - few), 1e-3))
        found[name].twin.append(max((spent[2] - spent[0]) / (many - few), 1e-3))


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer pools: to see that it works")
    parser.add_argument("--json-only", action="store_true", help="no table")
    options = parser.parse_args()
    found = run(QUICK if options.quick else Sizes())
    if not options.json_only:
        print(report(found, ("bound", "ours")), end="")
    print(as_json(found))


if __name__ == "__main__":
    main()
