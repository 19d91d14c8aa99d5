"""Defects of the reference environments that ours must not have; each has a test here or next to its subject."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.support.environments import BARE

from sliceworks.base.yaml_documents import load_all, load_path
from sliceworks.infra import cloudbuild
from sliceworks.infra.stack import Workspace
from sliceworks.infra.stages import Names, compile_stages
from sliceworks.infra.target import TwinTarget
from sliceworks.specs import documents
from sliceworks.specs.environment import Environment

ROOT = Path(__file__).parents[2]
HCL = {file.relative_to(ROOT): file.read_text() for file in sorted((ROOT / "terraform").rglob("*.tf"))}


def pools(text: str) -> dict[str, Any]:
    [document] = load_all(BARE + text, "environment.yaml")
    result = documents.read(document)
    assert isinstance(result, Environment)
    pools: dict[str, Any] = next(stage for stage in compile_stages(result) if stage.name == "2-cluster").variables["pools"]
    return pools


@pytest.mark.parametrize(
    ("kind", "machine", "topology", "hosts"),
    [
        ("v4-8", "ct4p-hightpu-4t", "2x2x1", 1),
        ("v5p-3072", "ct5p-hightpu-4t", "8x12x16", 384),
        ("v5litepod-1", "ct5lp-hightpu-1t", "1x1", 1),
        ("v5litepod-4", "ct5lp-hightpu-4t", "2x2", 1),
        ("v5litepod-8", "ct5lp-hightpu-8t", "2x4", 1),
        ("v5litepod-16", "ct5lp-hightpu-4t", "4x4", 4),
    ],
)
def test_machine_and_topology_match_the_type(kind: str, machine: str, topology: str, hosts: int) -> None:
    pool = pools(f"  pools: {{tpu: {{slice: {{type: {kind}}}}}}}\n")["slice-0"]
    assert (pool["machine_type"], pool["tpu"]["topology"], pool["tpu"]["hosts"]) == (machine, topology, hosts)


@pytest.mark.parametrize(("kind", "hosts"), [("v5litepod-8", 1), ("v5litepod-16", 4)])
def test_scaling_of_single_and_multi_host_pools(kind: str, hosts: int) -> None:
    pool = pools(f"  pools: {{tpu: {{slice: {{type: {kind}, autoscaling: true}}}}}}\n")["slice-0"]
    assert pool["autoscaling"] == {"min": 0, "max": hosts, "initial_per_zone": 0}


def test_taints_reach_slices() -> None:
    pool = pools("  pools: {tpu: {slice: {type: v4-8, taints: [{key: team, value: a}]}}}\n")["slice-0"]
    assert pool["taints"] == [{"key": "team", "value": "a", "effect": "NO_SCHEDULE"}]
    assert 'dynamic "taint"' in HCL[Path("terraform/modules/node-pools/main.tf")]


PASSED_ON = ("guest_accelerator", "gvnic", "spot", "reservation_affinity", "ephemeral_storage_local_ssd_config")


@pytest.mark.parametrize("word", PASSED_ON)
def test_module_passes_on_pool_fields(word: str) -> None:
    assert re.search(rf'\b(dynamic "{word}"|{word} +=)', HCL[Path("terraform/modules/node-pools/main.tf")])


def test_providers_and_terraform_are_pinned() -> None:
    versions = {file: re.findall(r'\bversion += "([^"]+)"', text) for file, text in HCL.items() if "required_providers" in text}
    assert versions
    assert all(result and all(re.search(r"(~>|<|^\d)", item) for item in result) for result in versions.values()), versions


def test_modules_are_local() -> None:
    sources = [source for text in HCL.values() for source in re.findall(r'(?m)^  source += "([^"]+)"', text)]
    assert sources
    assert all(source.startswith("../") for source in sources), sources


def test_no_owner_role_and_no_public_access() -> None:
    assert "roles/owner" in HCL[Path("terraform/modules/bootstrap/variables.tf")]  # where it is rejected
    for file, text in ((file, text) for file, text in HCL.items() if file.name != "variables.tf"):
        assert not re.search(r"roles/(owner|editor)|allUsers|allAuthenticatedUsers", text), file
        buckets = text.count('resource "google_storage_bucket" ')
        assert text.count('public_access_prevention    = "enforced"') == buckets, file


def test_terraform_has_no_kubernetes_resources() -> None:
    """A namespace in a Terraform state blocks destroy until a person removes it manually."""
    assert not [file for file, text in HCL.items() if re.search(r'(resource|provider) "(kubernetes|helm|kubectl)', text)]


@pytest.mark.parametrize("name", ["saxml", "self-service", "training", "triton"])
def test_builds_use_a_pinned_image_and_no_owner(name: str) -> None:
    [document] = load_path(ROOT / "examples/environments" / name / "environment.yaml")
    result = documents.read(document)
    assert isinstance(result, Environment)
    text = "".join(cloudbuild.builds(result).values())
    assert "roles/owner" not in text
    assert re.search(r"hashicorp/terraform:\d+\.\d+\.\d+", text)
    assert ":latest" not in text


def test_twin_token_is_never_written(tmp_path: Path) -> None:
    target = TwinTarget(address="http://127.0.0.1:1", token="registry-token")
    workspace = Workspace(tmp_path / "small")
    workspace.copy_modules()
    assert target.environment(workspace.folder)["GOOGLE_OAUTH_ACCESS_TOKEN"] == "registry-token"
    assert "registry-token" not in repr(target)
    assert not [file for file in tmp_path.rglob("*") if file.is_file() and b"registry-token" in file.read_bytes()]
    assert workspace.folder.stat().st_mode & 0o077 == 0


def test_registry_credentials_reach_no_stage(tmp_path: Path) -> None:
    (tmp_path / "kaggle.json").write_text('{"username": "ann", "key": "registry-token"}')
    text = (ROOT / "examples/environments/self-service/environment.yaml").read_text()
    file = tmp_path / "environment.yaml"
    file.write_text(text)
    [document] = load_path(file)
    result = documents.read(document)
    assert isinstance(result, Environment)
    stages = orjson.dumps([(stage.variables, stage.expected) for stage in compile_stages(result)])
    assert b"registry-token" not in stages
    assert b"kaggle" not in stages


def test_unused_inputs_are_errors() -> None:
    [document] = load_all(BARE + "  pools: {gpu: {t4: {accelerator: nvidia-tesla-t4, imageKind: COS}}}\n", "environment.yaml")
    assert ["unknown field spec.pools.gpu.t4.imageKind" in str(item) for item in documents.check(document)[1]] == [True]


SHIPPED = {
    file.relative_to(ROOT): file.read_text()
    for folder, pattern in (("deploy", "*.yaml"), ("examples", "*.yaml"), ("src/sliceworks/infra", "*.py"), ("terraform", "*.tf"))
    for file in sorted((ROOT / folder).rglob(pattern))
}


@pytest.mark.parametrize(
    "wrong",
    [
        r"autoscaling/v2beta",
        r"privileged: *true|\"privileged\": True",
        r"releases/latest",
    ],
    ids=["old versions", "privileged", "unpinned releases"],
)
def test_manifests_are_unprivileged_and_pinned(wrong: str) -> None:
    assert len(SHIPPED) > 50
    assert not [str(file) for file, text in SHIPPED.items() if re.search(wrong, text)]


def test_load_balancers_are_internal() -> None:
    balancer = re.compile(r"type\"?: \"?LoadBalancer")
    internal = re.compile(r"networking\.gke\.io/load-balancer-type\"?: \"?Internal")
    counts = {str(file): (len(balancer.findall(text)), len(internal.findall(text))) for file, text in SHIPPED.items()}
    assert {file: count for file, count in counts.items() if any(count)} == {"src/sliceworks/infra/cluster/mesh.py": (1, 1)}


def test_account_names_are_equal_in_terraform_and_cluster() -> None:
    text = "  identities: {workloads: {trainer: {namespace: training, serviceAccount: runner}}}\n"
    [document] = load_all(BARE + text, "environment.yaml")
    result = documents.read(document)
    assert isinstance(result, Environment)
    identity = next(stage for stage in compile_stages(result) if stage.name == "2-cluster").variables["identities"]["trainer"]
    assert (identity["namespace"], identity["kubernetes_service_account"]) == ("training", "runner")
    names = Names(result)
    assert names.account("trainer") == "trainer@my-project.iam.gserviceaccount.com"
