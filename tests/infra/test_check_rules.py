"""Every rule of the catalog that a document can break is a finding of `env check`, or a document cannot express it."""

from __future__ import annotations

import pytest
from tests.support.environments import BARE

from sliceworks.base.yaml_documents import load_all
from sliceworks.catalog import gke_rules
from sliceworks.infra import preflight
from sliceworks.specs import documents
from sliceworks.specs.environment import Environment

CPU = "cpu: {cpu: {nodes: 1}}"
EXISTING = "existing: {network: net, subnet: sub, podsRange: pods, servicesRange: pods}"
DOCUMENTS: dict[str, tuple[str, str]] = {
    "authorized-network": (
        "  cluster: {private: {endpoint: true, authorizedNetworks: {office: 1.2.3.4/32}}}\n",
        "spec.cluster.private.authorizedNetworks.office",
    ),
    "autoscaling-limits": ("  pools: {cpu: {cpu: {autoscaling: {min: 3, max: 2}}}}\n", "spec.pools.cpu.cpu.autoscaling"),
    "cluster-name": ("  cluster: {name: Upper}\n", "spec.cluster.name"),
    "control-plane-version": ("  cluster: {version: 1.27.3-gke.100}\n", "spec.cluster.version"),
    "distinct-secondary-ranges": (f"  network: {{{EXISTING}}}\n", "spec.network.existing"),
    "gpu-attachment": ("  pools: {gpu: {g: {machineType: n2-standard-4, accelerator: nvidia-tesla-t4}}}\n", "spec.pools.gpu.g"),
    "machine-type": ("  pools: {cpu: {cpu: {machineType: n1-standard-3}}}\n", "spec.pools.cpu.cpu.machineType"),
    "machine-type-zone": ("  pools: {cpu: {cpu: {machineType: e2-standard-4}}}\n", "spec.pools.cpu.cpu"),
    "max-pods-per-node": ("  pools: {cpu: {cpu: {maxPods: 4}}}\n", "spec.pools.cpu.cpu.maxPods"),
    "node-count": ("  pools: {cpu: {cpu: {nodes: 2001}}}\n", "spec.pools.cpu.cpu"),
    "node-label-kubernetes": ("  pools: {cpu: {cpu: {labels: {node-role.kubernetes.io/x: y}}}}\n", "spec.pools.cpu.cpu.labels"),
    "node-label-managed": ("  pools: {cpu: {cpu: {labels: {cloud.google.com/gke-nodepool: x}}}}\n", "spec.pools.cpu.cpu.labels"),
    "node-pool-name": ("  pools: {cpu: {Upper: {}}}\n", "spec.pools.cpu"),
    "node-range-exhausted": (
        "  network: {subnet: {nodes: 10.0.0.0/29}}\n  pools: {cpu: {cpu: {nodes: 9}}}\n",
        "spec.network.subnet.nodes",
    ),
    "pod-range-exhausted": (
        "  network: {subnet: {pods: 10.8.0.0/24}}\n  pools: {cpu: {cpu: {nodes: 9}}}\n",
        "spec.network.subnet.pods",
    ),
    "policy-role": ("  identities: {nodes: {roles: [roles/logging.logWriters]}}\n", "spec.identities.nodes.roles.0"),
    "spot-reservation": ("  pools: {cpu: {cpu: {spot: true, reservation: {name: mine}}}}\n", "spec.pools.cpu.cpu"),
    "subnetwork-range": ("  network: {subnet: {nodes: 10.0.0.0/20, pods: 10.0.0.0/16}}\n", "spec.network.subnet.pods"),
    "system-pool": ("  pools: {tpu: {t: {type: v4-8}}}\n", "spec.pools"),
    "tpu-largest-slice": (f"  pools: {{{CPU}, tpu: {{t: {{type: v4-8192}}}}}}\n", "spec.pools.tpu.t"),
    "tpu-topology": (f"  pools: {{{CPU}, tpu: {{t: {{type: v4-48, topology: 2x3x4}}}}}}\n", "spec.pools.tpu.t"),
    "version-prefix": ("  cluster: {version: '1.2'}\n", "spec.cluster.version"),
    "zone-of-region": (f"  pools: {{{CPU}, tpu: {{t: {{type: v4-8, zones: [europe-west4-b]}}}}}}\n", "spec.pools.tpu.t"),
}
"""A document that breaks each rule, and the field that the finding names."""
NOT_EXPRESSIBLE = {
    "auto-upgrade-in-channel": "autoUpgrade: false is a maintenance exclusion in a release channel",
    "secondary-boot-disk-streaming": "an Environment has no secondary boot disks; the slices controller turns image streaming on",
    "tpu-slice-autoscaling": "autoscaling of a slice is true or false; its limits follow from the type",
    "tpu7x-workload-policy": "the node-pools module creates the policy",
}
WITH_PROJECT = {
    "machine-quota": "infra/test_quotas.py",
    "permission-compute": "infra/test_live_preflight.py",
    "permission-container": "infra/test_live_preflight.py",
    "permission-denied": "infra/test_live_preflight.py",
    "primary-range": "infra/test_stages.py",
    "regional-quota": "infra/test_quotas.py",
    "secondary-range-modified": "infra/test_stages.py",
    "service-account-user": "infra/test_live_preflight.py",
    "service-disabled": "infra/test_live_preflight.py",
}
"""Rules that need the project or its state, with their tests."""


def findings(more: str) -> list[str]:
    """Fields and problems: of the schema, else of the checks."""
    [document] = load_all(BARE + more, "environment.yaml")
    environment, errors = documents.check(document)
    if errors:
        return [error.message for error in errors]
    assert isinstance(environment, Environment)
    return [f"{'.'.join(map(str, item.path))}: {item.message}" for item in preflight.check(environment)]


def test_every_rule_that_check_enforces_has_a_case() -> None:
    enforced = {name for name, rule in gke_rules.rules().items() if rule.enforced != "twin"}
    assert enforced == {*DOCUMENTS, *NOT_EXPRESSIBLE, *WITH_PROJECT}


@pytest.mark.parametrize("rule", sorted(DOCUMENTS))
def test_document_that_breaks_a_rule_has_a_finding_with_its_field(rule: str) -> None:
    more, field = DOCUMENTS[rule]
    assert any(field in finding for finding in findings(more)), findings(more)


def test_every_list_of_roles_is_checked() -> None:
    wrong = "[roles/absent.admin]"
    text = f"""  identities: {{workloads: {{worker: {{namespace: ml, roles: {wrong}}}}}}}
  selfService: {{configConnector: {{roles: {wrong}, grants: {wrong}}}, project: {{folder: '1'}}}}
"""
    automation = f"automation: {{bucket: my-automation, roles: {wrong}}}"
    [document] = load_all(BARE.replace("automation: {bucket: my-automation}", automation) + text, "environment.yaml")
    environment, errors = documents.check(document)
    assert isinstance(environment, Environment), errors
    assert [".".join(map(str, item.path)) for item in preflight.check(environment)] == [
        "spec.automation.roles.0",
        "spec.identities.workloads.worker.roles.0",
        "spec.selfService.configConnector.roles.0",
        "spec.selfService.configConnector.grants.0",
    ]
