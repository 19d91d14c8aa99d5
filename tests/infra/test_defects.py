"""What the reference environments got wrong, and ours must not: each has a test here, or beside what it is about."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.support.environments import BARE

from sliceworks.base.yamls import load_all, load_path
from sliceworks.infra import cloudbuild
from sliceworks.infra.names import Names
from sliceworks.infra.stages import stages
from sliceworks.infra.targets import TwinTarget
from sliceworks.infra.workspaces import Workspace
from sliceworks.specs import documents
from sliceworks.specs.environment import Environment

ROOT = Path(__file__).parents[2]
HCL = {file.relative_to(ROOT): file.read_text() for file in sorted((ROOT / "terraform").rglob("*.tf"))}


def pools(text: str) -> dict[str, Any]:
    [document] = load_all(BARE + text, "environment.yaml")
    found = documents.read(document)
    assert isinstance(found, Environment)
    given: dict[str, Any] = next(each for each in stages(found) if each.name == "2-cluster").variables["pools"]
    return given


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
def test_machines_and_topologies_are_those_of_the_type(kind: str, machine: str, topology: str, hosts: int) -> None:
    pool = pools(f"  pools: {{tpu: {{slice: {{type: {kind}}}}}}}\n")["slice-0"]
    assert (pool["machine_type"], pool["tpu"]["topology"], pool["tpu"]["hosts"]) == (machine, topology, hosts)


@pytest.mark.parametrize(("kind", "hosts"), [("v5litepod-8", 1), ("v5litepod-16", 4)])
def test_one_host_and_several_scale_each_as_they_must(kind: str, hosts: int) -> None:
    pool = pools(f"  pools: {{tpu: {{slice: {{type: {kind}, autoscaling: true}}}}}}\n")["slice-0"]
    assert pool["autoscaling"] == {"min": 0, "max": hosts, "initial_per_zone": 0}


def test_taints_reach_slices_too() -> None:
    pool = pools("  pools: {tpu: {slice: {type: v4-8, taints: [{key: team, value: a}]}}}\n")["slice-0"]
    assert pool["taints"] == [{"key": "team", "value": "a", "effect": "NO_SCHEDULE"}]
    assert 'dynamic "taint"' in HCL[Path("terraform/modules/node-pools/main.tf")]


PASSED_ON = ("guest_accelerator", "gvnic", "spot", "reservation_affinity", "ephemeral_storage_local_ssd_config")


@pytest.mark.parametrize("word", PASSED_ON)
def test_what_a_pool_is_given_the_module_passes_on(word: str) -> None:
    assert re.search(rf'\b(dynamic "{word}"|{word} +=)', HCL[Path("terraform/modules/node-pools/main.tf")])


def test_providers_and_terraform_itself_are_pinned() -> None:
    versions = {file: re.findall(r'\bversion += "([^"]+)"', text) for file, text in HCL.items() if "required_providers" in text}
    assert versions
    assert all(found and all(re.search(r"(~>|<|^\d)", each) for each in found) for found in versions.values()), versions


def test_modules_come_from_here_and_nowhere_else() -> None:
    sources = [source for text in HCL.values() for source in re.findall(r'(?m)^  source += "([^"]+)"', text)]
    assert sources
    assert all(source.startswith("../") for source in sources), sources


def test_nobody_is_an_owner_and_nothing_is_public() -> None:
    assert "roles/owner" in HCL[Path("terraform/modules/bootstrap/variables.tf")]  # where it is refused
    for file, text in ((file, text) for file, text in HCL.items() if file.name != "variables.tf"):
        assert not re.search(r"roles/(owner|editor)|allUsers|allAuthenticatedUsers", text), file
        buckets = text.count('resource "google_storage_bucket" ')
        assert text.count('public_access_prevention    = "enforced"') == buckets, file


def test_terraform_holds_nothing_of_the_inside_of_a_cluster() -> None:
    """A namespace in a state is one that destroy waits for, until somebody takes it out by hand."""
    assert not [file for file, text in HCL.items() if re.search(r'(resource|provider) "(kubernetes|helm|kubectl)', text)]


@pytest.mark.parametrize("name", ["saxml", "self-service", "training", "triton"])
def test_builds_use_a_pinned_image_and_no_owner(name: str) -> None:
    [document] = load_path(ROOT / "examples/environments" / name / "environment.yaml")
    found = documents.read(document)
    assert isinstance(found, Environment)
    text = "".join(cloudbuild.builds(found).values())
    assert "roles/owner" not in text
    assert re.search(r"hashicorp/terraform:\d+\.\d+\.\d+", text)
    assert ":latest" not in text


def test_the_token_of_a_twin_is_never_written(tmp_path: Path) -> None:
    target = TwinTarget(address="http://127.0.0.1:1", token="tell-nobody")
    workspace = Workspace(tmp_path / "small")
    workspace.lay_out()
    assert target.environment(workspace.folder)["GOOGLE_OAUTH_ACCESS_TOKEN"] == "tell-nobody"
    assert "tell-nobody" not in repr(target)
    assert not [file for file in tmp_path.rglob("*") if file.is_file() and b"tell-nobody" in file.read_bytes()]
    assert workspace.folder.stat().st_mode & 0o077 == 0


def test_credentials_of_model_registries_reach_no_stage(tmp_path: Path) -> None:
    (tmp_path / "kaggle.json").write_text('{"username": "ann", "key": "tell-nobody"}')
    text = (ROOT / "examples/environments/self-service/environment.yaml").read_text()
    file = tmp_path / "environment.yaml"
    file.write_text(text)
    [document] = load_path(file)
    found = documents.read(document)
    assert isinstance(found, Environment)
    given = orjson.dumps([(stage.variables, stage.expected) for stage in stages(found)])
    assert b"tell-nobody" not in given
    assert b"kaggle" not in given


def test_inputs_that_no_pool_takes_are_refused_and_not_dropped() -> None:
    [document] = load_all(BARE + "  pools: {gpu: {t4: {accelerator: nvidia-tesla-t4, imageKind: COS}}}\n", "environment.yaml")
    assert ["unknown field spec.pools.gpu.t4.imageKind" in str(each) for each in documents.check(document)[1]] == [True]


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
        r"type: LoadBalancer|\"type\": \"LoadBalancer\"",
        r"releases/latest",
    ],
    ids=["old versions", "privileged", "public", "unpinned releases"],
)
def test_nothing_that_is_shipped_is_privileged_public_or_unpinned(wrong: str) -> None:
    assert len(SHIPPED) > 50
    assert not [str(file) for file, text in SHIPPED.items() if re.search(wrong, text)]


def test_the_names_of_accounts_are_the_same_in_terraform_and_in_the_cluster() -> None:
    text = "  identities: {workloads: {trainer: {namespace: training, serviceAccount: runner}}}\n"
    [document] = load_all(BARE + text, "environment.yaml")
    found = documents.read(document)
    assert isinstance(found, Environment)
    given = next(each for each in stages(found) if each.name == "2-cluster").variables["identities"]["trainer"]
    assert (given["namespace"], given["kubernetes_service_account"]) == ("training", "runner")
    names = Names(found)
    assert names.account("trainer") == "trainer@my-project.iam.gserviceaccount.com"
