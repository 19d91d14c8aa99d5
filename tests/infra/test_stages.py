"""Terraform stages of an Environment: their variables are compared with reviewed golden files."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.support.environments import BARE

from sliceworks.base.errors import InvalidDocument, SliceworksError
from sliceworks.base.yaml_documents import load_all, load_path
from sliceworks.infra.pools import DeployedRanges
from sliceworks.infra.stages import compile_stages
from sliceworks.specs import documents
from sliceworks.specs.environment import Environment

EXAMPLES = Path(__file__).parents[2] / "examples" / "environments"
GOLDENS = Path(__file__).parent / "goldens"


def environment(text: str) -> Environment:
    [document] = load_all(text, "environment.yaml")
    result = documents.read(document)
    assert isinstance(result, Environment)
    return result


def variables(text: str, stage: str) -> dict[str, Any]:
    return next(item for item in compile_stages(environment(text)) if item.name == stage).variables


@pytest.mark.parametrize("name", ["saxml", "self-service", "training", "triton"])
def test_examples_match_goldens(name: str) -> None:
    [document] = load_path(EXAMPLES / name / "environment.yaml")
    result = documents.read(document)
    assert isinstance(result, Environment)
    seen = {stage.name: {"variables": stage.variables, "takes": stage.takes} for stage in compile_stages(result)}
    path = GOLDENS / f"{name}.json"
    if os.environ.get("SLICEWORKS_RECORD") == "1":
        path.write_bytes(orjson.dumps(seen, option=orjson.OPT_INDENT_2) + b"\n")
        pytest.fail(f"{path.name} was written: read it")
    assert seen == orjson.loads(path.read_bytes())


@pytest.mark.parametrize(
    ("kind", "hosts", "placement"),
    [("v4-8", 1, "none"), ("v4-32", 4, "compact"), ("v5litepod-8", 1, "none"), ("v5litepod-16", 4, "compact")],
)
def test_only_multi_host_slices_have_compact_placement(kind: str, hosts: int, placement: str) -> None:
    pool = variables(BARE + f"  pools: {{tpu: {{slice: {{type: {kind}}}}}}}\n", "2-cluster")["pools"]["slice-0"]
    assert (pool["tpu"]["hosts"], pool["tpu"]["placement"], pool["nodes_per_zone"]) == (hosts, placement, hosts)


def test_no_slices_have_no_pools() -> None:
    assert variables(BARE + "  pools: {tpu: {slice: {type: v4-32, count: 0}}}\n", "2-cluster")["pools"] == {}


def test_autoscaled_slice_has_all_hosts_or_none() -> None:
    pool = variables(BARE + "  pools: {tpu: {slice: {type: v4-32, autoscaling: true}}}\n", "2-cluster")["pools"]["slice-0"]
    assert pool["autoscaling"] == {"min": 0, "max": 4, "initial_per_zone": 0}
    assert "nodes_per_zone" not in pool


def test_gpu_pool_fields() -> None:
    text = (
        BARE
        + "  pools: {gpu: {t4: {accelerator: nvidia-tesla-t4, acceleratorCount: 2, gvnic: true, spot: true, driver: latest}}}\n"
    )
    pool = variables(text, "2-cluster")["pools"]["t4"]
    assert pool["gpu"] == {"type": "nvidia-tesla-t4", "count": 2, "driver": "LATEST", "gvnic": True, "local_ssds": 0}
    assert pool["spot"] is True


def test_gpu_pool_whose_driver_you_install_has_no_secure_boot() -> None:
    text = BARE + "  pools: {gpu: {t4: {accelerator: nvidia-tesla-t4, acceleratorCount: 1, driver: none}}}\n"
    assert variables(text, "2-cluster")["pools"]["t4"]["gpu"]["driver"] == "INSTALLATION_DISABLED"
    module = (Path(__file__).parents[2] / "terraform/modules/node-pools/main.tf").read_text()
    assert re.search(r'enable_secure_boot += try\(each\.value\.gpu\.driver, ""\) != "INSTALLATION_DISABLED"\n', module)


def test_pool_taints() -> None:
    text = BARE + "  pools: {cpu: {admin: {nodes: 1, taints: [{key: admin, value: 'true', effect: NoExecute}]}}}\n"
    assert variables(text, "2-cluster")["pools"]["admin"]["taints"] == [{"key": "admin", "value": "true", "effect": "NO_EXECUTE"}]


def test_existing_network_is_not_created() -> None:
    text = BARE + "  network: {existing: {hostProject: shared-net, network: core, subnet: gke, podsRange: p, servicesRange: s}}\n"
    assert variables(text, "1-base")["network"] == {
        "existing": {"host_project": "shared-net", "network": "core", "subnet": "gke", "pods_range": "p", "services_range": "s"}
    }


def test_existing_account_needs_no_bootstrap() -> None:
    text = BARE.replace("{bucket: my-automation}", "{bucket: my-automation, create: false, serviceAccount: robot-one}")
    result = compile_stages(environment(text))
    assert [stage.name for stage in result] == ["1-base", "2-cluster"]
    assert result[0].variables["bootstrap"] == {"service_account": "robot-one@my-project.iam.gserviceaccount.com"}


def test_services_and_roles_follow_from_the_document() -> None:
    plain = variables(BARE, "0-bootstrap")["automation"]
    tested = variables(BARE + "  loadMetrics: {}\n", "0-bootstrap")["automation"]
    assert set(tested["services"]) - set(plain["services"]) == {"bigquery.googleapis.com", "pubsub.googleapis.com"}
    assert set(tested["roles"]) - set(plain["roles"]) == {"roles/bigquery.admin", "roles/pubsub.admin"}
    assert not {"roles/owner", "roles/editor"} & set(tested["roles"])


def test_uneven_node_counts_are_errors() -> None:
    text = BARE.replace("[us-central2-b]", "[us-central2-b, us-central2-c]") + "  pools: {cpu: {main: {nodes: 3}}}\n"
    with pytest.raises(InvalidDocument, match="3 nodes cannot be spread evenly over 2 zones"):
        compile_stages(environment(text))


def test_unknown_type_is_an_error_with_the_closest() -> None:
    with pytest.raises(SliceworksError) as caught:
        compile_stages(environment(BARE + "  pools: {tpu: {slice: {type: v4-33}}}\n"))
    assert "v4-32" in caught.value.hint


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("  zone: us-central2-b\n", "unknown field spec.zone; did you mean zones?"),
        ("  zones: [us-west4-a]\n", "environment.yaml:8: spec.zones[0]: must be in region us-central2, got us-west4-a"),
        ("  cluster: {mode: autopilot}\n  pools: {cpu: {a: {}}}\n", "an Autopilot cluster manages its own nodes"),
        ("  cluster: {maintenance: {exclusions: {a: {start: '2026-01-01T00:00:00Z', scope: NO_UPGRADES}}}}\n", "requires end"),
        ("  cluster: {security: {bootDiskKey: k}}\n", "must be a key such as projects/P/locations/L/keyRings/R/cryptoKeys/K"),
        ("  network: {subnet: {pods: 10.0.0.0/33}}\n", "must be an IPv4 range"),
        ("  pools: {cpu: {a: {nodes: 1, autoscaling: {max: 2}}}}\n", "nodes and autoscaling are mutually exclusive"),
        ("  pools: {tpu: {a: {type: v4-8, spot: true, reservation: {name: r}}}}\n", "spot and reservation are mutually exclusive"),
        (
            "  buckets: {my-bucket: {readers: [missing-sa]}}\n",
            "spec.buckets.my-bucket.readers[0]: not found in identities.workloads: missing-sa",
        ),
        ("  pools: {cpu: {same: {}}, gpu: {same: {}}}\n", "duplicate pool name: same"),
        (f"  cluster: {{name: {'c' * 41}}}\n", "must be no more than 40 characters"),
    ],
)
def test_invalid_environment_is_an_error(line: str, says: str) -> None:
    text = BARE.replace("  zones: [us-central2-b]\n", "") if line.startswith("  zones") else BARE
    [document] = load_all(text + line, "environment.yaml")
    result = [str(problem) for problem in documents.check(document)[1]]
    assert any(says in item for item in result), result


def test_every_unknown_identity_is_reported_at_its_field() -> None:
    more = "  buckets: {my-bucket: {readers: [first-sa]}}\n  teams: {a: {identity: second-sa}}\n"
    [document] = load_all(BARE + more, "environment.yaml")
    assert [str(problem) for problem in documents.check(document)[1]] == [
        "environment.yaml:9: spec.buckets.my-bucket.readers[0]: not found in identities.workloads: first-sa",
        "environment.yaml:10: spec.teams.a.identity: not found in identities.workloads: second-sa",
    ]


def test_pods_of_all_pools_fit_their_range() -> None:
    """40 slices of 64 hosts do not fit a /20; the range has room for pools of twice the size."""

    def pods(more: str) -> str:
        return str(variables(BARE + more, "1-base")["network"]["subnet"]["pods"])

    assert pods("  pools: {cpu: {cpu: {nodes: 3}}}\n") == "192.168.64.0/20"
    assert pods("  pools: {cpu: {cpu: {nodes: 3}}, tpu: {t: {type: v4-512, count: 40}}}\n") == "10.192.0.0/13"
    assert pods("  pools: {cpu: {cpu: {nodes: 3}}, tpu: {t: {type: v4-512, count: 1000}}}\n") == "10.0.0.0/9"
    assert pods("  pools: {cpu: {cpu: {nodes: 12}}}\n") == "10.192.0.0/19"
    assert pods("  pools: {cpu: {cpu: {nodes: 30, maxPods: 16}}}\n") == "192.168.64.0/20"


SUBNETWORK = {
    "ip_cidr_range": "10.129.0.0/20",
    "secondary_ip_range": [
        {"range_name": "pods", "ip_cidr_range": "192.168.64.0/20"},
        {"range_name": "services", "ip_cidr_range": "192.168.80.0/20"},
    ],
}


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("  pools: {cpu: {cpu: {nodes: 16}}}\n", ""),
        ("  pools: {cpu: {cpu: {nodes: 17}}}\n", "spec.pools: up to 17 nodes need a /19 for pods, the network has 192.168"),
        ("  pools: {cpu: {cpu: {nodes: 17, maxPods: 32}}}\n", ""),
        ("  network: {subnet: {pods: 192.168.64.0/20}}\n", ""),
        ("  network: {subnet: {pods: 10.64.0.0/16}}\n", "spec.network.subnet.pods: must stay 192.168.64.0/20, got 10.64.0.0/16"),
        ("  network: {subnet: {services: 10.64.0.0/20}}\n", "spec.network.subnet.services: must stay 192.168.80.0/20"),
        ("  network: {subnet: {nodes: 10.128.0.0/15}}\n", ""),
        ("  network: {subnet: {nodes: 10.129.0.0/21}}\n", "spec.network.subnet.nodes: must contain 10.129.0.0/20"),
        ("  network: {subnet: {nodes: 10.128.0.0/16}}\n", "spec.network.subnet.nodes: must contain 10.129.0.0/20"),
        ("  network: {subnet: {nodes: 10.129.0.0/16}}\n", ""),
    ],
)
def test_ranges_of_a_deployed_network_do_not_change(more: str, problem: str) -> None:
    ranges = DeployedRanges.find([("google_storage_bucket", {}), ("google_compute_subnetwork", SUBNETWORK)])
    assert ranges is not None
    spec = environment(BARE + more).spec
    if not problem:
        ranges.require_fit(spec)
        return
    with pytest.raises(InvalidDocument) as refused:
        ranges.require_fit(spec)
    assert refused.value.message.startswith(problem)


def test_automation_account_grants_only_roles_of_environment() -> None:
    given = variables(BARE + "  identities: {workloads: {trainer: {namespace: a}}}\n  addons: {slices: true}\n", "0-bootstrap")
    assert given["automation"]["grants"] == [
        "projects/my-project/roles/small_slices",
        "roles/artifactregistry.reader",
        "roles/container.defaultNodeServiceAccount",
        "roles/logging.logWriter",
    ]
    assert not {"roles/iam.securityAdmin", "roles/storage.objectAdmin"} & set(given["automation"]["roles"])


def test_nodes_are_private_and_control_plane_is_restricted_unless_document_opts_out() -> None:
    cluster = variables(BARE, "2-cluster")["cluster"]
    assert cluster["private"] == {
        "nodes": True,
        "endpoint": False,
        "control_plane_range": None,
        "authorized_networks": {},
        "dns_endpoint": True,
    }
    assert variables(BARE + "  cluster: {private: null}\n", "2-cluster")["cluster"]["private"] is None
