"""Terraform itself makes environments in a twin's cloud: planned, made, found unchanged, resized, and removed without a trace."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

APART = True  # each makes and removes an environment of its own
GOLDENS = Path(__file__).parent / "goldens"
EXAMPLES = Path(__file__).parents[2] / "examples" / "environments"
_long = pytest.mark.skipif(os.environ.get("SLICEWORKS_REAL") != "1", reason="takes minutes: make test-real does it")
SMALL = """apiVersion: sliceworks.dev/v1alpha1
kind: Environment
metadata: {name: small}
spec:
  project: my-project
  region: us-central2
  zones: [us-central2-b]
  deletionProtection: %s
  forceDestroy: true
  automation: {bucket: small-automation}
  pools:
    cpu: {cpu: {nodes: 1}}
    tpu: {slice: {type: v4-16, count: %d}}
  identities: {workloads: {trainer: {namespace: training}}}
  buckets: {small-data: {writers: [trainer]}}
"""


@pytest.fixture(scope="module")
def sliceworks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """The command line beside a twin of its own, whose time runs faster."""
    home = tmp_path_factory.mktemp("home")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "SLICEWORKS_HOME": str(home)}
        command = [sys.executable, "-m", "sliceworks", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=600)

    started = run("twin", "start", "--memory", "--speed", "120")
    assert started.returncode == 0, started.stderr
    yield run
    run("twin", "stop")


def write(folder: Path, *, slices: int = 1, protected: bool = False) -> str:
    file = folder / "environment.yaml"
    file.write_text(SMALL % ("true" if protected else "false", slices))
    return str(file)


def changes(run: Callable[..., subprocess.CompletedProcess[str]], file: str) -> list[dict[str, Any]]:
    planned = run("env", "plan", "--twin", "-f", file, "-o", "json", "-q")
    assert planned.returncode == 0, planned.stderr
    found: list[dict[str, Any]] = orjson.loads(planned.stdout)
    return found


@pytest.mark.real
@_long
@pytest.mark.long(200)
@pytest.mark.timeout(900)
def test_an_environment_is_made_found_unchanged_resized_and_removed(
    sliceworks: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    file = write(tmp_path)
    applied = sliceworks("env", "apply", "--twin", "-f", file, "-o", "json", "-q")
    assert applied.returncode == 0, applied.stderr
    made = orjson.loads(applied.stdout)
    assert made["2-cluster"]["slices"] == {"slice-0": {"topology": "2x2x2", "hosts": 2}}
    assert changes(sliceworks, file) == []

    none = write(tmp_path, slices=0)
    assert changes(sliceworks, none) == [
        {"stage": "2-cluster", "action": "delete", "address": 'module.node_pools.google_container_node_pool.this["slice-0"]'},
        {"stage": "cluster/queues", "action": "update", "address": "ClusterQueue slices"},
    ]
    removed = sliceworks("env", "destroy", "--twin", "-y", "-f", none, "-q")
    assert removed.returncode == 0, removed.stderr
    left = sliceworks("env", "show", "--twin", "-f", none, "-o", "name")
    assert left.stdout == ""


@pytest.mark.real
@_long
@pytest.mark.timeout(900)
def test_a_protected_environment_stays_and_says_why(
    sliceworks: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    file = write(tmp_path, slices=0, protected=True)
    assert sliceworks("env", "apply", "--twin", "-f", file, "-q").returncode == 0
    refused = sliceworks("env", "destroy", "--twin", "-y", "-f", file, "-q")
    assert refused.returncode == 1
    assert "deletion_protection" in refused.stderr
    assert "hint: set spec.deletionProtection to false, apply, then destroy" in refused.stderr
    freed = write(tmp_path, slices=0)
    assert sliceworks("env", "apply", "--twin", "-f", freed, "-q").returncode == 0
    assert sliceworks("env", "destroy", "--twin", "-y", "-f", freed, "-q").returncode == 0


@pytest.mark.real
@_long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["saxml", "self-service", "training", "triton"])
def test_the_examples_are_made_found_unchanged_and_removed(
    sliceworks: Callable[..., subprocess.CompletedProcess[str]], name: str
) -> None:
    file = str(EXAMPLES / name / "environment.yaml")
    planned = "".join(f"{each['stage']} {each['action']} {each['address']}\n" for each in changes(sliceworks, file))
    golden = GOLDENS / f"{name}.plan.txt"
    if os.environ.get("SLICEWORKS_RECORD") == "1":
        golden.write_text(planned)
        pytest.fail(f"{golden.name} was written: read it")
    assert planned == golden.read_text()
    applied = sliceworks("env", "apply", "--twin", "-f", file, "-q")
    assert applied.returncode == 0, applied.stderr
    assert changes(sliceworks, file) == []
    removed = sliceworks("env", "destroy", "--twin", "-y", "-f", file, "-q")
    assert removed.returncode == 0, removed.stderr


FAULT = """apiVersion: sliceworks.dev/v1alpha1
kind: Scenario
metadata: {name: trouble}
spec:
  duration: 1h
  events:
  - {at: 0s, cloudFault: {name: trouble, fault: %s, match: {method: nodePools.create}, count: 1}}
"""


@pytest.mark.real
@_long
@pytest.mark.timeout(900)
def test_after_a_fault_of_the_cloud_apply_goes_on_and_resize_and_drift_are_seen(
    sliceworks: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    fault = tmp_path / "fault.yaml"
    fault.write_text(FAULT % "QuotaExceeded")
    assert sliceworks("twin", "inject", "-f", str(fault)).returncode == 0
    file = write(tmp_path)
    refused = sliceworks("env", "apply", "--twin", "-f", file, "-q")
    assert refused.returncode == 1
    assert "Insufficient regional quota" in refused.stderr
    assert "hint: ask for more quota" in refused.stderr
    assert sliceworks("env", "apply", "--twin", "-f", file, "-q").returncode == 0
    assert sliceworks("env", "show", "--drift", "--twin", "-f", file, "-o", "name").returncode == 0

    gone = sliceworks("env", "resize", "slice", "0", "--twin", "-f", file, "-o", "name", "-q")
    assert gone.stdout == 'module.node_pools.google_container_node_pool.this["slice-0"]\n', gone.stderr
    assert "count: 0" in Path(file).read_text()
    fault.write_text(FAULT % "PermissionDenied")
    assert sliceworks("twin", "inject", "-f", str(fault)).returncode == 0
    denied = sliceworks("env", "resize", "slice", "1", "--twin", "-f", file, "-q")
    assert denied.returncode == 1
    assert "spec.automation.roles" in denied.stderr
    removed = sliceworks("env", "destroy", "--twin", "-y", "-f", file, "-q")
    assert removed.returncode == 0, removed.stderr
