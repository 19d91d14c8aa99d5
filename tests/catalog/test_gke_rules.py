"""The catalog of Google's rules, and the conditions that need no cloud."""

from __future__ import annotations

import ipaddress
import string
from datetime import date

import pytest

from sliceworks import catalog
from sliceworks.catalog import gke_rules, lookup
from sliceworks.catalog.gke_rules import PoolSize, Violation
from sliceworks.catalog.tpus import Slice


def _rule(violation: Violation | None) -> str:
    return violation.rule.id if violation else ""


def _slice(name: str) -> Slice:
    result = catalog.find(name)
    assert isinstance(result, Slice)
    return result


def test_every_rule_has_a_condition_a_source_and_a_date() -> None:
    for rule in gke_rules.rules().values():
        assert rule.condition.endswith("."), rule.id
        assert rule.source, rule.id
        assert date.fromisoformat(rule.collected) <= date(2026, 11, 30), rule.id
        assert rule.enforced in ("twin", "env check", "both"), rule.id
        assert list(string.Formatter().parse(rule.message)), rule.id


@pytest.mark.parametrize(("pods", "prefix"), [(110, 24), (15, 27), (8, 28), (16, 27), (32, 26), (64, 25), (128, 24), (256, 23)])
def test_block_of_pod_addresses_of_a_node(pods: int, prefix: int) -> None:
    assert gke_rules.pod_block_prefix(pods) == prefix


def test_pod_range_holds_a_block_for_every_node() -> None:
    assert gke_rules.check_pod_range("192.168.64.0/20", [PoolSize(16)]) is None
    assert _rule(gke_rules.check_pod_range("192.168.64.0/20", [PoolSize(16), PoolSize(1, 15)])) == "pod-range-exhausted"
    assert gke_rules.check_pod_range("192.168.64.0/20", [PoolSize(128, 15)]) is None
    assert gke_rules.pod_range_prefix([PoolSize(3), PoolSize(64 * 400, 15)]) == 12


def test_node_range_has_an_address_for_every_node() -> None:
    assert gke_rules.check_node_range("10.0.0.0/29", 4) is None
    assert _rule(gke_rules.check_node_range("10.0.0.0/29", 5)) == "node-range-exhausted"


@pytest.mark.parametrize("version", ["", "latest", "-", "1.35", "1.34", "1.35.4-gke.1080000"])
def test_offered_version(version: str) -> None:
    assert gke_rules.check_control_plane_version(version) is None
    assert gke_rules.check_minor_version(version) is None


@pytest.mark.parametrize(
    ("version", "rule"),
    [
        ("banana", "version-prefix"),
        ("1.2", "version-prefix"),
        ("1.27.3-gke.100", "control-plane-version"),
        ("1.3", "version-prefix"),
    ],
)
def test_version_that_gke_does_not_offer(version: str, rule: str) -> None:
    assert _rule(gke_rules.check_control_plane_version(version)) == rule
    assert _rule(gke_rules.check_minor_version(version)) == rule


def test_another_patch_version_is_left_to_the_project() -> None:
    assert gke_rules.check_minor_version("1.35.9-gke.1") is None
    assert _rule(gke_rules.check_control_plane_version("1.35.9-gke.1")) == "control-plane-version"


@pytest.mark.parametrize(
    ("node", "control_plane", "auto_upgrade", "rule"),
    [
        ("1.35.4-gke.1080000", "1.35.4-gke.1080000", True, ""),
        ("1.34.6-gke.1310000", "1.35.4-gke.1080000", True, ""),
        ("1.33.9-gke.1160000", "1.35.4-gke.1080000", True, "node-version-skew"),
        ("1.33.9-gke.1160000", "1.35.4-gke.1080000", False, ""),
        ("1.35.4-gke.1080000", "1.34.6-gke.1310000", True, "node-version-newer"),
        ("1.29.0-gke.1", "1.35.4-gke.1080000", False, "node-version"),
    ],
)
def test_node_version_against_the_control_plane(node: str, control_plane: str, auto_upgrade: bool, rule: str) -> None:
    assert _rule(gke_rules.check_node_version(node, control_plane, auto_upgrade=auto_upgrade)) == rule


@pytest.mark.parametrize(
    ("machine", "zone", "offered"),
    [
        ("ct5p-hightpu-4t", "us-central2-b", False),
        ("ct5p-hightpu-4t", "us-east5-a", True),
        ("ct4p-hightpu-4t", "us-central2-b", True),
        ("e2-medium", "us-central2-b", False),
        ("n1-standard-4", "us-central2-b", True),
        ("a3-highgpu-8g", "us-west3-a", False),
    ],
)
def test_zone_offers_the_machine_type(machine: str, zone: str, offered: bool) -> None:
    violation = gke_rules.check_machine_zone(machine, zone, lookup.find_by_machine(machine))
    assert (violation is None) is offered
    assert violation is None or violation.message == f'Invalid machine type "{machine}" in zone "{zone}": GCE_NOT_FOUND'


def test_gke_has_smaller_largest_slices_than_cloud_tpu() -> None:
    assert gke_rules.check_slice(_slice("v5p-12288")) is None
    assert _rule(gke_rules.check_slice(_slice("v5p-17920"))) == "tpu-largest-slice"
    assert _rule(gke_rules.check_slice(_slice("v4-8192"))) == "tpu-largest-slice"


def test_autoscaled_slice_has_all_hosts_as_its_maximum_per_zone() -> None:
    v4 = _slice("v4-16")
    assert gke_rules.check_slice_autoscaling(v4, v4.hosts) is None
    violation = gke_rules.check_slice_autoscaling(v4, 0)
    assert violation is not None
    assert violation.message == "Maximum node count 0 is not a valid size of TPU pod slice with topology 2x2x2."


@pytest.mark.parametrize(
    ("label", "rule"),
    [
        ("team", ""),
        ("sliceworks.dev/purpose", ""),
        ("node.kubernetes.io/gpu", ""),
        ("node-role.kubernetes.io/x", "node-label-kubernetes"),
        ("kubernetes.io/role", "node-label-kubernetes"),
        ("cloud.google.com/compute-class", "node-label-managed"),
    ],
)
def test_labels_of_nodes(label: str, rule: str) -> None:
    assert _rule(gke_rules.check_node_labels([label])) == rule


def test_private_control_plane_authorizes_private_ranges_only() -> None:
    assert gke_rules.check_authorized_network("10.0.0.0/8", private_endpoint=True) is None
    assert gke_rules.check_authorized_network("1.2.3.4/32", private_endpoint=False) is None
    assert _rule(gke_rules.check_authorized_network("1.2.3.4/32", private_endpoint=True)) == "authorized-network"


def test_overlapping_ranges_name_both_fields() -> None:
    ranges = {"nodes": ipaddress.IPv4Network("10.0.0.0/20"), "pods": ipaddress.IPv4Network("10.0.8.0/21")}
    (violation,) = gke_rules.check_overlaps(ranges)
    assert violation.message == "Invalid value for field 'pods': '10.0.8.0/21'. It overlaps with nodes '10.0.0.0/20'."


def test_tpu7x_needs_a_workload_policy() -> None:
    tpu7x, v4 = _slice("tpu7x-128"), _slice("v4-16")
    assert gke_rules.check_placement(v4, "") is None
    assert gke_rules.check_placement(tpu7x, "slice") is None
    assert _rule(gke_rules.check_placement(tpu7x, "")) == "tpu7x-workload-policy"
