"""Time of environment commands, and how their cost grows with the number of node pools.

    python bench/environments.py [--quick | --large] [--json-only]

Real Terraform runs against a twin, with the stand-in provider. There is no peer: `check` and `apply_example` have limits in
seconds. The cost of one more pool is measured as CPU time. Our own part (command, provider, twin) must not cost more per pool with
many pools than with few. Terraform's part grows faster than linearly; it is compared with Terraform alone, with as many of its
built-in resources. Progress goes to stderr. The last line on stdout is JSON: `{"check": {"ratio": 3.1, "goal": 1.0}, …}`.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.harness import terraform
from bench.harness.command import Profiles, Script
from bench.harness.metric import Metric, limit
from bench.harness.servers import installed_environment
from tests.real.processes import cpu_seconds

from sliceworks.base import progress

if TYPE_CHECKING:
    from argparse import Namespace

EXAMPLE = Path(__file__).parents[1] / "examples" / "environments" / "training" / "environment.yaml"
ENVIRONMENT = """apiVersion: sliceworks.dev/v1alpha1
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
FAST_CLOUD = """apiVersion: sliceworks.dev/v1alpha1
kind: Scenario
metadata: {name: fast}
spec:
  duration: 1h
  events:
  - {at: 0s, setCloud: {seconds: {createCluster: 1, createNodePool: 1, boot: 1, deleteNodePool: 1}}}
"""
_SPEED = "10"
"""The twin's clock speed. Its controllers do periodic work, which counts too and grows with the speed."""
LINEAR = 0.67
"""One more pool may cost 1.5 times as much with many pools as with few, because the measured times are small and noisy."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Three numbers of pools: the first gives the fixed cost, the others the cost per pool; repetitions of `check` and plans.

    Plans change nothing, so the minimum of several is the best estimate of their cost. One more pool costs about 5 ms of ours, and
    a command varies by 100 ms: fewer pools would measure that noise.
    """

    pools: tuple[int, int, int] = (2, 50, 200)
    checks: int = 5
    plans: int = 4


FULL = Sizes()
QUICK = Sizes((2, 40, 120), 3, 3)
TINY = Sizes((1, 2, 3), 1, 1)
LARGE = Sizes((2, 200, 2_000), 1)


def new_metrics() -> dict[str, Metric]:
    """The metrics with their goals."""
    metrics = (
        limit("check", "s, env check of one document", 1.0),
        limit("apply_example", "s, twin start and env apply of the training example", 60.0),
        Metric("apply_growth", "CPU s of ours per pool to apply, few and many pools", LINEAR, lower_is_better=True, amount=1),
        Metric("plan_growth", "CPU s of ours per pool to plan, few and many pools", LINEAR, lower_is_better=True, amount=1),
        Metric("terraform_apply_growth", "times the CPU per pool to apply, Terraform alone and in ours", 1, lower_is_better=True),
        Metric("terraform_plan_growth", "times the CPU per pool to plan, Terraform alone and in ours", 1, lower_is_better=True),
    )
    return {metric.name: metric for metric in metrics}


class CpuTime(NamedTuple):
    """CPU seconds of our programs and of Terraform."""

    ours: float
    terraform: float

    def __sub__(self, other: CpuTime) -> CpuTime:
        return CpuTime(self.ours - other.ours, self.terraform - other.terraform)


@dataclass(frozen=True, slots=True)
class Home:
    """A Sliceworks home with its own twin."""

    folder: Path

    def run(self, *arguments: str) -> float:
        """Run a command; returns its wall time in seconds. A failure ends the benchmark."""
        command = [sys.executable, "-m", "sliceworks", *arguments]
        environment = {**installed_environment(self.folder), **self.meter.install()}
        started = time.perf_counter()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(arguments)} failed: {done.stderr.strip()}")
        return time.perf_counter() - started

    def cpu_time(self, *arguments: str) -> CpuTime:
        """Run a command; returns the CPU time of the command, its children and the twin."""
        before = self._cpu_time()
        self.run(*arguments)
        return self._cpu_time() - before

    def _cpu_time(self) -> CpuTime:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        pid = (self.folder / "twins" / "default" / "twin.pid").read_text().split()[0]
        total = children.ru_utime + children.ru_stime + cpu_seconds(int(pid))
        of_terraform = self.meter.seconds()
        return CpuTime(total - of_terraform, of_terraform)

    @property
    def meter(self) -> terraform.Meter:
        """Measures Terraform's part."""
        return terraform.Meter(self.folder)

    def fast_cloud(self) -> str:
        """A scenario with short cloud operations, so that commands do not wait."""
        file = self.folder / "fast.yaml"
        file.write_text(FAST_CLOUD)
        return str(file)

    def environment(self, count: int) -> str:
        """An environment with `count` pools without nodes, because nodes cause periodic work of the twin."""
        file = self.folder / f"many-{count}.yaml"
        pools = ", ".join(f"p{index}: {{autoscaling: {{min: 0, max: 3}}}}" for index in range(count))
        file.write_text(ENVIRONMENT.format(pools=pools))
        return str(file)


def measure(sizes: Sizes, options: Namespace) -> list[Metric]:
    """Run all benchmarks at this size."""
    metrics = new_metrics()
    with tempfile.TemporaryDirectory(prefix="sliceworks-bench-") as folder:
        home = Home(Path(folder))
        for _ in range(sizes.checks):
            metrics["check"].values.append(home.run("env", "check", "-f", str(EXAMPLE), "--skip", "quotas"))
        _apply_example(home, metrics["apply_example"])
        _grow(home, sizes, metrics)
    return list(metrics.values())


def _apply_example(home: Home, metric: Metric) -> None:
    """From the start of the twin to a cluster with queues, pools and controllers."""
    progress.say("training example")
    started = home.run("twin", "start", "--memory", "--speed", "120")
    try:
        metric.values.append(started + home.run("env", "apply", "--twin", "-f", str(EXAMPLE)))
    finally:
        home.run("twin", "stop")


def _grow(home: Home, sizes: Sizes, metrics: dict[str, Metric]) -> None:
    """The same environment with more and more pools, each on a fresh twin; and as many built-in resources of Terraform."""
    ours: dict[str, list[CpuTime]] = {"apply": [], "plan": []}
    alone: dict[str, list[float]] = {"apply": [], "plan": []}
    for count in sizes.pools:
        progress.say(f"{count} pools")
        home.run("twin", "start", "--memory", "--speed", _SPEED)
        try:
            home.run("twin", "inject", "-f", home.fast_cloud())
            ours["apply"].append(home.cpu_time("env", "apply", "--twin", "-f", home.environment(count)))
            plans = [home.cpu_time("env", "plan", "--twin", "-f", home.environment(count)) for _ in range(sizes.plans)]
            ours["plan"].append(CpuTime(min(plan.ours for plan in plans), min(plan.terraform for plan in plans)))
        finally:
            home.run("twin", "stop")
        with tempfile.TemporaryDirectory(prefix="sliceworks-bench-") as folder:
            for name, seconds in zip(alone, terraform.alone(Path(folder), count, sizes.plans), strict=True):
                alone[name].append(seconds)
    for name, times in ours.items():
        few, many = cost_per_pool(sizes, [cpu.ours for cpu in times])
        metrics[f"{name}_growth"].baseline.append(few)
        metrics[f"{name}_growth"].values.append(many)
        metric = metrics[f"terraform_{name}_growth"]
        for side, costs in ((metric.baseline, alone[name]), (metric.values, [cpu.terraform for cpu in times])):
            few, many = cost_per_pool(sizes, costs)
            side.append(many / few)


def cost_per_pool(sizes: Sizes, costs: list[float]) -> tuple[float, float]:
    """The cost of one more pool between the first two numbers of pools, and between the last two."""
    few, some, many = sizes.pools
    return max((costs[1] - costs[0]) / (some - few), 1e-3), max((costs[2] - costs[1]) / (many - some), 1e-3)


SCRIPT = Script(
    "environments",
    "Time of environment commands, and how their cost grows with the number of node pools.",
    Profiles(FULL, QUICK, TINY, LARGE),
    measure,
    ("limit, few or alone", "ours"),
)

if __name__ == "__main__":
    SCRIPT.main()
