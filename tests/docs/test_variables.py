"""Every variable of the reference guides has a row in the page that maps them to fields."""

from __future__ import annotations

from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "environment-variables.md").read_text()
TRAINING = """project_id region artifact_repository_bucket_name zone network_name subnet_name subnet_ip_range pods_ip_range
services_ip_range cluster_name gke_version cluster_description cpu_pool_node_count cpu_pool_machine_type cpu_pool_disk_type
cpu_pool_disk_size tpu_sa_name tpu_sa_roles gke_sa_name gke_sa_roles tpu_namespace tpu_machine_type tpu_topology tpu_num_nodes
num_tpu_pools enable_tpu_autoscaling tpu_node_pool_name_prefix multislice_group_name tpu_type force_destroy TF_STATE_BUCKET
TF_STATE_PREFIX NUM_OF_CHIPS JOBSET_API_VERSION KUEUE_API_VERSION IM_SERVICE_ACCOUNT_NAME"""
SAXML = """project_id region prefix automation_bucket location automation_sa_name services roles tpu_node_pools
create_artifact_registry artifact_registry_name create_perf_testing_infrastructure deletion_protection
schema_name subscription_name max_pods_per_node"""
TRITON = """PROJECT_ID REGION ZONE NETWORK_NAME SUBNET_NAME GCS_BUCKET_NAME GKE_CLUSTER_NAME TRITON_SA_NAME TRITON_NAMESPACE
MACHINE_TYPE ACCELERATOR_TYPE ACCELERATOR_COUNT TF_STATE_BUCKET TF_STATE_PREFIX
asm_release_channel"""
SELF_SERVICE = "PROJECT_ID REGION CLUSTER_NAME CHANNEL NAMESPACE GCP_PROJECT_PARENT_TYPE GCP_PROJECT_PARENT_ID"


@pytest.mark.parametrize(
    ("section", "names"), [("TPU training", TRAINING), ("Saxml", SAXML), ("Triton", TRITON), ("Self-service", SELF_SERVICE)]
)
def test_every_variable_has_a_row(section: str, names: str) -> None:
    table = PAGE.partition(f"## {section}\n")[2].partition("\n## ")[0]
    rows = "".join(line.split("|")[1] for line in table.splitlines() if line.startswith("| "))
    assert [name for name in names.split() if f"`{name}`" not in rows] == []
