"""Terraform itself makes an environment in a twin's cloud: after a refusal, protected, resized, and removed without a trace."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pytest
from tests.support.sites import changes, running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.sites import Commands

pytestmark = [
    pytest.mark.real,
    pytest.mark.long(100),
    pytest.mark.skipif(os.environ.get("SLICEWORKS_REAL") != "1", reason="takes minutes: make test-real does it"),
    pytest.mark.timeout(600),
]
SMALL = """apiVersion: sliceworks.dev/v1alpha1
kind: Environment
metadata: {name: small}
spec:
  project: my-project
  region: us-central2
  zones: [us-central2-b]
  deletionProtection: true
  forceDestroy: true
  automation: {bucket: small-automation}
  pools:
    cpu: {cpu: {nodes: 1}}
    tpu: {slice: {type: v4-16, count: 1}}
  identities: {workloads: {trainer: {namespace: training}}}
  buckets: {small-data: {writers: [trainer]}}
"""
FAULT = """apiVersion: sliceworks.dev/v1alpha1
kind: Scenario
metadata: {name: trouble}
spec:
  duration: 1h
  events:
  - {at: 0s, cloudFault: {name: trouble, fault: %s, match: {method: nodePools.create}, count: 1}}
"""
SLICE = 'module.node_pools.google_container_node_pool.this["slice-0"]'


@pytest.fixture(scope="module")
def sliceworks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    yield from running(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def file(sliceworks: Commands, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The document of an environment that was made at the second try, and that leaves nothing behind."""
    file = tmp_path_factory.mktemp("small") / "environment.yaml"
    file.write_text(SMALL)
    trouble(sliceworks, file, "QuotaExceeded")
    refused = sliceworks("env", "apply", "--twin", "-f", str(file), "-q")
    assert refused.returncode == 1
    assert "Insufficient regional quota" in refused.stderr
    assert "hint: ask for more quota" in refused.stderr
    applied = sliceworks("env", "apply", "--twin", "-f", str(file), "-o", "json", "-q")
    assert applied.returncode == 0, applied.stderr
    assert orjson.loads(applied.stdout)["2-cluster"]["slices"] == {"slice-0": {"topology": "2x2x2", "hosts": 2}}
    yield str(file)
    file.write_text(SMALL.replace("deletionProtection: true", "deletionProtection: false"))
    assert sliceworks("env", "apply", "--twin", "-f", str(file), "-q").returncode == 0
    removed = sliceworks("env", "destroy", "--twin", "-y", "-f", str(file), "-q")
    assert removed.returncode == 0, removed.stderr
    assert sliceworks("env", "show", "--twin", "-f", str(file), "-o", "name").stdout == ""


def trouble(sliceworks: Commands, file: Path, fault: str) -> None:
    """The next pool of nodes cannot be made."""
    scenario = file.with_name("fault.yaml")
    scenario.write_text(FAULT % fault)
    assert sliceworks("twin", "inject", "-f", str(scenario)).returncode == 0


def test_what_was_made_after_a_refusal_is_as_the_document_says(sliceworks: Commands, file: str) -> None:
    drift = sliceworks("env", "show", "--drift", "--twin", "-f", file, "-o", "json")
    assert drift.returncode == 0, drift.stderr
    listed = {each["stage"]: each["resources"] for each in orjson.loads(drift.stdout)}
    assert SLICE in listed["2-cluster"]
    assert "ClusterQueue slices" in listed["cluster"]


def test_slices_go_and_come_back_alone(sliceworks: Commands, file: str) -> None:
    without = Path(file).with_name("without.yaml")
    without.write_text(SMALL.replace("count: 1", "count: 0"))
    assert changes(sliceworks, str(without)) == [
        {"stage": "2-cluster", "action": "delete", "address": SLICE},
        {"stage": "cluster/queues", "action": "update", "address": "ClusterQueue slices"},
    ]
    gone = sliceworks("env", "resize", "slice", "0", "--twin", "-f", file, "-o", "name", "-q")
    assert gone.stdout == f"{SLICE}\n", gone.stderr
    assert "count: 0" in Path(file).read_text()
    trouble(sliceworks, Path(file), "PermissionDenied")
    denied = sliceworks("env", "resize", "slice", "1", "--twin", "-f", file, "-q")
    assert denied.returncode == 1
    assert "spec.automation.roles" in denied.stderr
    back = sliceworks("env", "resize", "slice", "1", "--twin", "-f", file, "-o", "name", "-q")
    assert back.stdout == f"{SLICE}\n", back.stderr
    assert "count: 1" in Path(file).read_text()


def test_a_protected_environment_stays_and_says_why(sliceworks: Commands, file: str) -> None:
    refused = sliceworks("env", "destroy", "--twin", "-y", "-f", file, "-q")
    assert refused.returncode == 1
    assert "deletion_protection" in refused.stderr
    assert "hint: set spec.deletionProtection to false, apply, then destroy" in refused.stderr
