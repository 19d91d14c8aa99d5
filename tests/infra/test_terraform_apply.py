"""Terraform creates an environment in a twin's cloud: after a rejection, protected, resized, and destroyed without remains."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pytest
from tests.support.terraform_twin import changes, running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.terraform_twin import Commands

pytestmark = [
    pytest.mark.real,
    pytest.mark.long(100),
    pytest.mark.skipif(os.environ.get("SLICEWORKS_REAL") != "1", reason="takes minutes: run by make test-real"),
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
    """The document of an environment that was created at the second attempt and is destroyed completely."""
    file = tmp_path_factory.mktemp("small") / "environment.yaml"
    file.write_text(SMALL)
    inject_fault(sliceworks, file, "QuotaExceeded")
    refused = sliceworks("env", "apply", "--twin", "-f", str(file), "-q")
    assert refused.returncode == 1
    assert "Insufficient regional quota" in refused.stderr
    assert "hint: request more quota" in refused.stderr
    applied = sliceworks("env", "apply", "--twin", "-f", str(file), "-o", "json", "-q")
    assert applied.returncode == 0, applied.stderr
    assert orjson.loads(applied.stdout)["2-cluster"]["slices"] == {"slice-0": {"topology": "2x2x2", "hosts": 2}}
    yield str(file)
    file.write_text(SMALL.replace("deletionProtection: true", "deletionProtection: false"))  # not applied
    removed = sliceworks("env", "destroy", "--twin", "-y", "-f", str(file), "-q")
    assert removed.returncode == 0, removed.stderr
    assert sliceworks("env", "show", "--twin", "-f", str(file), "-o", "name").stdout == ""


def inject_fault(sliceworks: Commands, file: Path, fault: str) -> None:
    """The creation of the next node pool fails."""
    scenario = file.with_name("fault.yaml")
    scenario.write_text(FAULT % fault)
    assert sliceworks("twin", "inject", "-f", str(scenario)).returncode == 0


def test_environment_after_a_rejection_matches_the_document(sliceworks: Commands, file: str) -> None:
    drift = sliceworks("env", "show", "--drift", "--twin", "-f", file, "-o", "json")
    assert drift.returncode == 0, drift.stderr
    listed = {item["stage"]: item["resources"] for item in orjson.loads(drift.stdout)}
    assert SLICE in listed["2-cluster"]
    assert "ClusterQueue slices" in listed["cluster"]


def test_resize_changes_only_slices(sliceworks: Commands, file: str) -> None:
    without = Path(file).with_name("without.yaml")
    without.write_text(SMALL.replace("count: 1", "count: 0"))
    assert changes(sliceworks, str(without)) == [
        {"stage": "2-cluster", "action": "delete", "address": SLICE},
        {"stage": "cluster/queues", "action": "update", "address": "ClusterQueue slices"},
    ]
    deleted = sliceworks("env", "resize", "slice", "0", "--twin", "-f", file, "-o", "name", "-q")
    assert deleted.stdout == f"{SLICE}\n", deleted.stderr
    assert "count: 0" in Path(file).read_text()
    inject_fault(sliceworks, Path(file), "PermissionDenied")
    denied = sliceworks("env", "resize", "slice", "1", "--twin", "-f", file, "-q")
    assert denied.returncode == 1
    assert "spec.automation.roles" in denied.stderr
    back = sliceworks("env", "resize", "slice", "1", "--twin", "-f", file, "-o", "name", "-q")
    assert back.stdout == f"{SLICE}\n", back.stderr
    assert "count: 1" in Path(file).read_text()


def test_refused_destroy_changes_nothing_and_names_what_blocks(sliceworks: Commands, file: str) -> None:
    """F3: jobs, queues, nodes and buckets stay if the cluster is protected."""
    before = sliceworks("env", "show", "--drift", "--twin", "-f", file, "-o", "json").stdout
    refused = sliceworks("env", "destroy", "--twin", "-y", "-f", file, "-q")
    assert refused.returncode == 1
    assert "small is protected, nothing was deleted: cluster small-cluster: spec.deletionProtection is true" in refused.stderr
    assert "hint: set spec.deletionProtection to false; then destroy again" in refused.stderr
    assert sliceworks("env", "show", "--drift", "--twin", "-f", file, "-o", "json").stdout == before
