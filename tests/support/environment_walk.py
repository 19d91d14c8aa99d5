"""The walk of each environment with Terraform on a twin, from `env init` to a second apply after `env destroy`."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.terraform_twin import changes

from sliceworks.infra.target import PROVIDER

if TYPE_CHECKING:
    from tests.support.terraform_twin import Commands

EXAMPLES = ("saxml", "self-service", "training", "triton")
GOLDENS = Path(__file__).parents[1] / "infra" / "goldens"
LABELS = "  labels: {team: ml}\n"
TPU_POOLS = {"saxml": "saxml-tpu", "training": "tpu-node-pool"}


def must(run: Commands, *arguments: str) -> str:
    done = run("env", *arguments, "-q")
    assert done.returncode == 0, done.stderr
    return done.stdout


def expected_plan(golden: Path) -> str:
    """A recorded plan; Google's provider acts as no other account on a twin, so no role is granted for it."""
    lines = golden.read_text().splitlines(keepends=True)
    return "".join(line for line in lines if not (os.environ.get(PROVIDER) and " roles/iam.serviceAccountTokenCreator on " in line))


def walk_example(sliceworks: Commands, tmp_path: Path, name: str) -> None:
    """Walk through an example; the plan of its creation is a golden."""
    file = tmp_path / "environment.yaml"
    at = ("--twin", "-f", str(file))
    # 1. init and check: an environment of its own, protected by default
    must(sliceworks, "init", "--from", name, "--project", "my-project", "-o", str(file))
    must(sliceworks, "check", "-f", str(file))
    # 2. plan: as recorded
    planned = "".join(f"{change['stage']} {change['action']} {change['address']}\n" for change in changes(sliceworks, str(file)))
    golden = GOLDENS / f"{name}.plan.txt"
    if os.environ.get("SLICEWORKS_RECORD") == "1":
        golden.write_text(planned)
        pytest.fail(f"{golden.name} was written: read it")
    assert planned == expected_plan(golden)
    # 3. apply; a second plan is empty
    must(sliceworks, "apply", *at)
    assert changes(sliceworks, str(file)) == []
    # 4. change: labels and limits of autoscaling are updated in place; the network, whose ranges cannot change, is kept
    text = file.read_text().replace("max: 3}", "max: 6}")
    file.write_text(text.replace("  automation:\n", f"{LABELS}  automation:\n", 1))
    changed = changes(sliceworks, str(file))
    assert {item["action"] for item in changed} == {"update"}, changed
    must(sliceworks, "apply", *at)
    # 5. resize; a plan after both changes is empty
    if pool := TPU_POOLS.get(name):
        must(sliceworks, "resize", pool, "0", *at)
        must(sliceworks, "resize", pool, "1", *at)
    assert changes(sliceworks, str(file)) == []
    # 6. destroy: refused while protected, then complete
    listed = sliceworks("env", "show", *at, "-o", "json").stdout
    refused = sliceworks("env", "destroy", "-y", *at)
    assert refused.returncode == 1
    assert "-cluster: spec.deletionProtection is true" in refused.stderr
    assert sliceworks("env", "show", *at, "-o", "json").stdout == listed
    file.write_text(file.read_text().replace("spec:\n", "spec:\n  deletionProtection: false\n", 1))
    must(sliceworks, "destroy", "-y", *at)
    assert sliceworks("env", "show", *at, "-o", "name").stdout == ""
    # 7. apply again: nothing of the first environment is in the way
    must(sliceworks, "apply", *at)


WIDE = """apiVersion: sliceworks.dev/v1alpha1
kind: Environment
metadata: {name: wide}
spec:
  project: my-project
  region: us-central1
  zones: [us-central1-c]
  labels: {team: ml}
  deletionProtection: false
  forceDestroy: true
  automation: {bucket: wide-automation, serviceAccount: wide-automation, services: [], roles: []}
  network: {flowLogs: true, subnet: {nodes: 10.128.0.0/20}}
  cluster:
    version: "1.34"
    autoUpgrade: false
    private: {endpoint: true, authorizedNetworks: {office: 10.8.0.0/16}}
    maintenance:
      recurring: {start: "2026-01-10T00:00:00Z", end: "2026-01-10T06:00:00Z", recurrence: FREQ=WEEKLY;BYDAY=SA}
      exclusions: {launch: {start: "2026-02-01T00:00:00Z", end: "2026-05-01T00:00:00Z", scope: NO_UPGRADES}}
    security:
      secretsKey: projects/my-project/locations/us-central1/keyRings/ml/cryptoKeys/gke
      bootDiskKey: projects/my-project/locations/us-central1/keyRings/ml/cryptoKeys/disks
      binaryAuthorization: true
      posture: vulnerabilities
      intranodeVisibility: true
      controlPlaneLogs: [APISERVER]
      group: gke-security-groups@example.com
      kubeletReadOnlyPort: false
  pools:
    cpu:
      cpu: {nodes: 1, machineType: n2-standard-8, disk: {type: pd-balanced, gib: 100}, labels: {a: b}, tags: [one], taints: []}
      some: {machineType: n2-standard-4, autoscaling: {min: 0, max: 3}, zones: [us-central1-c]}
    gpu: {gpu: {nodes: 1, machineType: g2-standard-4}}
    tpu:
      scaled: {type: v6e-16, autoscaling: true, zones: [us-central1-b]}
      newest: {type: tpu7x-16}
  identities: {workloads: {trainer: {namespace: ml, roles: [roles/logging.logWriter]}}}
  buckets: {wide-data: {storageClass: STANDARD, versioning: false, deleteAfterDays: 9, readers: [trainer]}}
  tensorboard: {name: runs}
  loadMetrics: {}
  addons: {slices: true, image: example.com/controllers:1, mesh: true}
"""
CHANGES = {
    "labels: {team: ml}": "labels: {team: ops, cost: center}",
    "services: [], roles: []": "services: [dns.googleapis.com], roles: [roles/dns.admin]",
    "flowLogs: true": "flowLogs: false",
    "10.128.0.0/20": "10.128.0.0/19",
    'version: "1.34"': 'version: "1.35"',
    "binaryAuthorization: true": "binaryAuthorization: false",
    "posture: vulnerabilities": "posture: basic",
    "intranodeVisibility: true": "intranodeVisibility: false",
    "controlPlaneLogs: [APISERVER]": "controlPlaneLogs: []",
    "FREQ=WEEKLY;BYDAY=SA": "FREQ=WEEKLY;BYDAY=SU",
    "2026-05-01": "2026-06-01",
    "autoUpgrade: false": "autoUpgrade: true",
    "10.8.0.0/16": "10.9.0.0/16",
    "cryptoKeys/gke": "cryptoKeys/other",
    "kubeletReadOnlyPort: false": "kubeletReadOnlyPort: true",
    "nodes: 1, machineType: n2-standard-8": "nodes: 2, machineType: n2-standard-16",
    "disk: {type: pd-balanced, gib: 100}": "disk: {type: pd-ssd, gib: 200}",
    "labels: {a: b}, tags: [one], taints: []": "labels: {a: c}, tags: [two], taints: [{key: only}]",
    "{min: 0, max: 3}, zones: [us-central1-c]": "{min: 1, max: 4}, zones: [us-central1-c, us-central1-a]",
    "nodes: 1, machineType: g2-standard-4": "nodes: 2, machineType: g2-standard-4",
    "type: v6e-16": "type: v6e-32",
    "type: tpu7x-16": "type: tpu7x-32",
    "roles: [roles/logging.logWriter]": "roles: [roles/monitoring.metricWriter]",
    "storageClass: STANDARD, versioning: false, deleteAfterDays: 9": "storageClass: NEARLINE, versioning: true, deleteAfterDays: 8",
    "readers: [trainer]": "writers: [trainer]",
    "tensorboard: {name: runs}": "tensorboard: {name: trials}",
}
REPLACED = {
    'module.node_pools.google_compute_resource_policy.slice["newest-0"]',
    'module.node_pools.google_container_node_pool.this["newest-0"]',
    'module.node_pools.google_container_node_pool.this["scaled-0"]',
}
"""A slice is immutable: another type replaces its node pool. Everything else but members of policies is updated in place."""


def walk_every_field(sliceworks: Commands, tmp_path: Path) -> None:
    """Create, change and destroy an environment with every optional field: an autoscaled slice, a workload policy, the role of the
    slices controller, and the fleet feature of the project, which another environment adopts."""
    file = tmp_path / "wide.yaml"
    file.write_text(WIDE)
    at = ("--twin", "-f", str(file))
    must(sliceworks, "apply", *at)
    assert changes(sliceworks, str(file)) == []
    text = WIDE
    for before, after in CHANGES.items():
        assert before in text
        text = text.replace(before, after)
    file.write_text(text)
    changed = changes(sliceworks, str(file))
    resources = {item["address"]: item["action"] for item in changed if not item["stage"].startswith("cluster/")}
    members = {address for address in resources if re.search(r"\.google_\w+_iam_member\.", address)}
    assert {address for address, action in resources.items() if action == "replace"} - members == REPLACED, changed
    others = {address for address, action in resources.items() if action not in ("replace", "update")} - members
    assert others == {'module.bootstrap.google_project_service.enabled["dns.googleapis.com"]'}, changed
    must(sliceworks, "apply", *at)
    assert changes(sliceworks, str(file)) == []
    must(sliceworks, "destroy", "-y", *at)
    # The feature of the fleet outlives the environment; another one adopts it.
    must(sliceworks, "apply", *at)
    assert changes(sliceworks, str(file)) == []
