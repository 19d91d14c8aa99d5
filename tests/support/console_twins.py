"""A twin for tests of the console: running slices, a self-service graph, a model server, load tests and an Environment."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import copyfile
from typing import TYPE_CHECKING, Any

from tests.support.browsers import ROOT, run_in_thread
from tests.support.load_tests import record, spec, written

from sliceworks.base import clock, yaml_documents
from sliceworks.base.errors import SliceworksError
from sliceworks.kube import open_client
from sliceworks.loadtest import load_plan, results
from sliceworks.loadtest.load_plan import Plan
from sliceworks.loadtest.prompts import Prompt, Prompts
from sliceworks.loadtest.runner import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.kube.client import Client

Object = dict[str, Any]
_GKE = "cloud.google.com/gke-"
_PATIENCE = 90.0  # seconds
SLICES = {
    "flat": ("tpu-v5-lite-podslice", "4x4", 4),
    "torus": ("tpu-v5p-slice", "4x4x4", 16),
    "small": ("tpu-v5p-slice", "2x2x2", 2),
    "spare": ("tpu-v6e-slice", "2x4", 2),
}
_GRAPH = ROOT / "examples" / "graphs" / "gemma-on-tpu"


@dataclass(frozen=True, slots=True)
class LiveTwin:
    """The home of the twin and the folder with the user's documents."""

    home: Path
    work: Path

    @property
    def kubeconfig(self) -> Path:
        return self.home / "twins" / "default" / "kubeconfig"

    @property
    def variables(self) -> dict[str, str]:
        return {"SLICEWORKS_HOME": str(self.home)}

    def run(self, *command: str) -> None:
        """Run a `sliceworks` command that must succeed."""
        _, reported = (started := self.begin(*command)).communicate()
        assert started.returncode == 0, reported

    def begin(self, *command: str) -> subprocess.Popen[str]:
        """Start a `sliceworks` command without waiting for its end."""
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        return subprocess.Popen(
            [sys.executable, "-m", "sliceworks", *command],
            env={**os.environ, **self.variables, "PATH": path},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def do(self, work: Any) -> Any:
        """Run a coroutine with a client of the cluster, on its own event loop."""

        async def main() -> Any:
            async with open_client(self.kubeconfig) as client:
                return await work(client)

        return run_in_thread(main)


@contextmanager
def live_twin(folder: Path) -> Iterator[LiveTwin]:
    """Start a twin with all of these; its clock runs only slightly faster, because the model's probes time out in real time."""
    twin = LiveTwin(folder / "home", folder / "work")
    twin.work.mkdir()
    twin.run("twin", "start", "--memory", "--speed", "4", "--processes", "--config-connector", "-q")
    ports = ("--metrics-bind-address", "0", "--health-probe-bind-address", "0")
    started = [twin.begin("controller", "run", "graphs", "--twin", *ports)]
    try:
        twin.do(_fill)
        # The load test takes a while; pages show its progress.
        model = str(ROOT / "examples" / "models-here" / "parrot.yaml")
        started.append(twin.begin("models", "deploy", "--twin", "-q", "-y", "-f", model))
        _documents(twin.work)
        yield twin
    finally:
        for item in started:
            item.send_signal(signal.SIGTERM)
            item.communicate(timeout=90)
        twin.run("twin", "stop", "-q")


@contextmanager
def create_environment(folder: Path, work: Path) -> Iterator[LiveTwin]:
    """Start a twin with the environment of a folder's document."""
    twin = LiveTwin(folder / "home", work)
    twin.run("twin", "start", "--memory", "--speed", "60", "-q")
    try:
        twin.run("env", "apply", "--twin", "-y", "-q", "-f", str(work / "environment.yaml"))
        yield twin
    finally:
        twin.run("twin", "stop", "-q")


async def _fill(client: Client) -> None:
    for name in ("team-vision", "team-language"):
        await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    for pool, (tpu, topology, hosts) in SLICES.items():
        for number in range(hosts):
            await client.create(_node(f"{pool}-{number}", pool, tpu, topology))
    for document in yaml_documents.load_path(ROOT / "examples" / "models-here" / "machine.yaml"):
        await client.create(document.data)
    await client.create(_jobset("bert", "team-language", "torus", 16))
    await client.create(_jobset("vit", "team-vision", "flat", 4))
    for file in ("definition.yaml", "day/10-administrator.yaml", "instance.yaml"):
        await _applied(client, _GRAPH / file)


async def _applied(client: Client, file: Path) -> None:
    """Apply a file; retries because an instance's kind is served only after its definition is established."""
    end = clock.loop_time() + _PATIENCE
    for document in yaml_documents.load_path(file):
        while True:
            try:
                await client.apply(document.data, force=True)
                break
            except SliceworksError:
                if clock.loop_time() > end:
                    raise
                client.discovery.invalidate()
                await clock.sleep(0.2)


def _node(name: str, pool: str, tpu: str, topology: str) -> Object:
    labels = {f"{_GKE}nodepool": pool, f"{_GKE}tpu-accelerator": tpu, f"{_GKE}tpu-topology": topology}
    zone = {"topology.kubernetes.io/zone": "us-central1-a", "sliceworks.dev/node": "simulated"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**labels, **zone}},
        "spec": {"taints": [{"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "100", "memory": "200Gi", "pods": "110", "google.com/tpu": "4"}},
    }


def _jobset(name: str, namespace: str, pool: str, hosts: int) -> Object:
    """A JobSet that runs for a day of the twin's time."""
    container = {"name": "worker", "image": "example/train:1", "resources": {"limits": {"google.com/tpu": "4"}}}
    pod = {
        "metadata": {"annotations": {"sliceworks.dev/run-seconds": "86400"}},
        "spec": {
            "restartPolicy": "Never",
            "nodeSelector": {f"{_GKE}nodepool": pool},
            "tolerations": [{"key": "google.com/tpu", "operator": "Exists"}],
            "containers": [container],
        },
    }
    job = {"parallelism": hosts, "completions": hosts, "completionMode": "Indexed", "backoffLimit": 0, "template": pod}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"failurePolicy": {"maxRestarts": 5}, "replicatedJobs": [{"name": "workers", "template": {"spec": job}}]},
    }


def _documents(work: Path) -> None:
    """Write an Environment, a Scenario and two finished load tests."""
    copyfile(ROOT / "examples" / "environments" / "training" / "environment.yaml", work / "environment.yaml")
    (work / "bad-day.yaml").write_text(
        "apiVersion: sliceworks.dev/v1alpha1\nkind: Scenario\nmetadata: {name: bad-day}\nspec:\n  duration: 10m\n  events:\n"
        "  - {at: 0s, failNodes: {nodes: {names: [spare-1]}, reason: Maintenance, for: 5m}}\n"
    )
    for name, slower in (("monday", 1.0), ("tuesday", 1.6)):
        _run(work / "load-tests" / name, slower)


def _run(folder: Path, slower: float) -> None:
    load_test = spec(stages=[{"constant": 40, "for": "10s"}], slo=["ttft p99 < 100ms"])
    schedule = load_plan.schedule_arrivals(load_test.stages, 0)
    folder.mkdir(parents=True)
    rows = [
        record(number, at / 1e9, first=slower * (0.05 + number % 7 / 1000), ends=slower * (0.3 + number % 11 / 100))
        for number, at in enumerate(schedule.due_times.tolist())
    ]
    plan = Plan(load_test, schedule, Prompts((Prompt("x"),)), load_test.target.url)
    results.write_results("parrot", plan, Outcome(1.79e9 + slower * 86400, "", ()), written(folder, rows), {"build": f"{slower:g}"})
