"""Every rule that was collected about Google Cloud is in the catalog, or has a test where it is about our own files.

A rule of the catalog has a case on the twin's cloud in `tests/twin/cloud/test_gke_rules.py`, which checks that none is missing.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sliceworks.catalog import gke_rules

TESTS = Path(__file__).parents[1]
RULES, WALK = "twin/cloud/test_gke_rules.py", "infra/test_walks.py::test_walk"
STAGES, PROVIDER = "infra/test_stages.py", "infra/test_provider_rules.py"
POOLS = "controllers/slices/test_node_pool.py"
COLLECTED: dict[str, tuple[str, ...]] = {
    # Clusters
    "node pools in a release channel have auto-upgrade": ("auto-upgrade-in-channel", f"{POOLS}::test_pool_follows_its_cluster"),
    "versions: prefix, control plane, nodes, skew": (
        *("version-prefix", "control-plane-version", "node-version", "node-version-newer", "node-version-skew"),
        "infra/test_live_preflight.py::test_missing_resource_is_reported",
    ),
    "node_config of a cluster is that of its first pool; its changes replace the cluster": (WALK,),
    "deletion_protection of a cluster": ("infra/test_protection.py::test_provider_refuses_to_delete_protected_resource",),
    "pod range: a block for every node": ("pod-range-exhausted", f"{STAGES}::test_pods_of_all_pools_fit_their_range"),
    "ranges of a network in use": (
        *("primary-range", "secondary-range-modified", "secondary-range-replaced", "secondary-range-in-use", "subnetwork-in-use"),
        f"{STAGES}::test_ranges_of_a_deployed_network_do_not_change",
    ),
    "node range and maximum of pods": ("node-range-exhausted", "max-pods-per-node"),
    "authorized networks of a private endpoint": (
        "authorized-network",
        f"{STAGES}::test_nodes_are_private_and_control_plane_is_restricted_unless_document_opts_out",
    ),
    "Calico with Dataplane V2": ("network-policy-dataplane", "infra/test_hcl.py::test_network_policies_for_new_clusters_only"),
    "additional node networks need multi-networking": (
        "multi-networking",
        f"{POOLS}::test_additional_networks_need_multi_networking",
    ),
    "a fleet feature exists once per project": (
        "fleet-feature-singleton",
        "infra/test_walks.py::test_walk_with_every_optional_field_in_a_fleet_that_has_a_mesh",
    ),
    "Shared VPC needs hostServiceAgent.use": ("shared-vpc-agent",),
    "networks, subnetworks and ranges exist": (
        *("network-missing", "subnetwork-missing", "pod-range-missing", "service-range-missing", "distinct-secondary-ranges"),
    ),
    # TPU pools
    "multi-host slices have a topology, single hosts none": (
        *("tpu-topology", "tpu-single-host-topology", "tpu-slice-nodes", "tpu-slice-zone"),
        f"{STAGES}::test_only_multi_host_slices_have_compact_placement",
    ),
    "TPU7x needs a workload policy; a stored policy has no type": (
        *("tpu7x-workload-policy", "workload-policy-missing"),
        f"{POOLS}::test_ironwood_uses_workload_policy",
        "infra/test_walks.py::test_walk_with_every_optional_field_in_a_fleet_that_has_a_mesh",
    ),
    "autoscaling of slices: the maximum per zone": (
        "tpu-slice-autoscaling",
        f"{RULES}::test_slice_that_autoscales_with_all_hosts_per_zone_is_accepted",
        f"{STAGES}::test_autoscaled_slice_has_all_hosts_or_none",
    ),
    "largest slices, immutable slices, a pool without TPUs": (
        *("tpu-largest-slice", "tpu-slice-resize", "system-pool"),
        f"{RULES}::test_largest_slice_of_every_generation_is_accepted",
        f"{PROVIDER}::test_replacement_of_a_node_pool",
    ),
    "flex-start and queued provisioning": (
        *("flex-start-autoscaling", "flex-start-size", "flex-start-reservation", "queued-provisioning-reservation"),
    ),
    "reservations": ("reservation-missing", "reservation-exhausted", f"{POOLS}::test_reservation"),
    "concurrent operations": (
        *("incompatible-operation", "cluster-upgrading", "operations-quota"),
        f"{RULES}::test_five_operations_run_at_a_time",
    ),
    "stockouts: 35 minutes, no deletion meanwhile": (
        "stockout",
        f"{RULES}::test_stockout_lasts_35_minutes_and_blocks_the_deletion_of_its_pool",
    ),
    "regional quotas of CPUs, addresses and disks; of TPUs when instances are created": (
        *("regional-quota", "machine-quota"),
        f"{RULES}::test_nodes_count_against_quotas_of_addresses_and_disks",
        f"{RULES}::test_private_nodes_use_no_public_addresses",
        "infra/test_quotas.py::test_nodes_with_public_addresses_use_their_quota",
    ),
    "labels of nodes": ("node-label-kubernetes", "node-label-managed"),
    "OAuth scope cloud-platform": (f"{POOLS}::test_multi_host_slice",),
    "secondary boot disks need image streaming": ("secondary-boot-disk-streaming", "secondary-boot-disk-image"),
    "spot nodes consume no reservation": ("spot-reservation",),
    # GPU pools
    "GPUs need another machine type than the default": ("gpu-machine-type",),
    "GPU, machine type, count and zone": ("gpu-attachment", "machine-type", "machine-type-zone", "zone-of-region"),
    "drivers and secure boot": (
        f"{STAGES}::test_gpu_pool_fields",
        f"{STAGES}::test_gpu_pool_whose_driver_you_install_has_no_secure_boot",
    ),
    # IAM
    "actAs on the account of the nodes": ("service-account-user", "node-account-missing", "node-account-deleted"),
    "permissions of the slices controller": (
        *("permission-container", "permission-compute", "permission-denied"),
        "infra/test_walks.py::test_walk_with_every_optional_field_in_a_fleet_that_has_a_mesh",
    ),
    "roles of the nodes": (f"{STAGES}::test_services_and_roles_follow_from_the_document",),
    "workload identity pool": (
        "identity-pool-missing",
        "twin/cloud/test_workload_metadata.py::test_label_follows_the_workload_pool",
    ),
    "impersonation needs its own role": ("access-token", "infra/test_impersonation.py::test_owner_gets_the_role_once"),
    "Cloud Build has an account of its own": ("infra/test_cloudbuild.py::test_build_has_automation_account_and_tag",),
    "service agents exist after the first use of their service": ("policy-account-missing",),
    "grants take time": (f"{RULES}::test_new_account_can_be_bound_at_once_unless_the_twin_is_told_otherwise",),
    "disabled services": (
        "service-disabled",
        "infra/test_live_preflight.py::test_disabled_service_is_reported_with_the_command_that_enables_it",
    ),
    "concurrent policy changes; etags are bytes": (
        *("policy-conflict", "policy-conflict-storage"),
        f"{RULES}::test_gcloud_reads_and_writes_policies_with_url_safe_etags",
    ),
    # Storage, BigQuery and Pub/Sub
    "buckets with objects, protected tables": (
        "bucket-not-empty",
        "infra/test_protection.py::test_every_protected_resource_is_named_with_its_remedy",
    ),
    "optional fields of a topic are optional in the table": ("bigquery-subscription-schema", WALK),
    "Pub/Sub's agent may write to the table": ("bigquery-subscription-access",),
    # Config Connector
    "operator, its pods, and causes in conditions": (
        "twin/controllers/config_connector/test_operator.py",
        "controllers/graphs/test_readiness_causes.py",
    ),
    # Baseline
    "optional hardening can be turned on and off": (
        "infra/test_walks.py::test_walk_with_every_optional_field_in_a_fleet_that_has_a_mesh",
        "infra/test_every_field.py::test_every_field_is_covered",
    ),
}


@pytest.mark.parametrize("collected", COLLECTED)
def test_collected_rule_has_a_rule_of_the_catalog_or_a_test(collected: str) -> None:
    for place in COLLECTED[collected]:
        file, _, name = place.partition("::")
        if not file.endswith(".py"):
            assert place in gke_rules.rules()
            continue
        text = (TESTS / file).read_text()
        assert re.search(rf"^def {name}\(" if name else r"^def test_", text, re.MULTILINE), place
