"""The Terraform files: formatted, with a description for every variable, checked by Terraform."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from sliceworks.infra import stack

ROOT = Path(__file__).parents[2] / "terraform"
MODULES = sorted(path.parent for path in ROOT.rglob("versions.tf"))


def test_files_are_formatted(tmp_path: Path) -> None:
    command = [*stack.find_terraform().command, "fmt", "-check", "-recursive", "-no-color", str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_variable_and_output_is_described(module: Path) -> None:
    for name in ("variables.tf", "outputs.tf"):
        text = (module / name).read_text()
        blocks = re.findall(r'(?ms)^(?:variable|output) "(\w+)" \{(.*?)^\}', text)
        assert blocks
        assert not [block for block, body in blocks if not re.search(r'^  description = ".{4,}"$', body, re.MULTILINE)], name


def test_network_policies_for_new_clusters_only() -> None:
    """It is fixed at the creation of a cluster: a plan that changed it would recreate the cluster."""
    text = (ROOT / "modules" / "cluster" / "main.tf").read_text()
    assert re.search(r'^  datapath_provider = local.autopilot \? null : "ADVANCED_DATAPATH"$', text, re.MULTILINE)
    assert re.search(r"^    ignore_changes = \[datapath_provider, node_config\]$", text, re.MULTILINE)


def test_api_of_projects_is_enabled_before_other_services() -> None:
    """The google provider reads the project after it has enabled a service."""
    text = (ROOT / "modules" / "bootstrap" / "main.tf").read_text()
    [enabled] = re.findall(r'(?ms)^resource "google_project_service" "enabled" \{\n(.*?)^\}', text)
    assert "depends_on = [google_project_service.resource_manager]" in enabled


def test_stage_outputs_match_later_variables() -> None:
    """Each output that a stage passes on is a declared variable of a later stage."""
    given = {name: path.name for path in MODULES if path.parent.name == "stages" for name in _names(path / "outputs.tf", "output")}
    for stage, takes in (("1-base", {"bootstrap"}), ("2-cluster", {"bootstrap", "base"}), ("3-serving", {"bootstrap", "cluster"})):
        declared = set(_names(ROOT / "stages" / stage / "variables.tf", "variable"))
        assert takes <= declared
        assert all(given[item] < stage for item in takes)


def _names(file: Path, kind: str) -> list[str]:
    return re.findall(rf'(?m)^{kind} "(\w+)"', file.read_text())


@pytest.mark.parametrize("module", [path for path in MODULES if path.parent.name == "modules"], ids=lambda path: path.name)
def test_example_of_module_sets_its_required_inputs_and_no_unknown_ones(module: Path) -> None:
    declared = dict(re.findall(r'(?ms)^variable "(\w+)" \{\n(.*?)^\}', (module / "variables.tf").read_text()))
    required = {name for name, body in declared.items() if not re.search(r"(?m)^  default +=", body)}
    given = set(re.findall(r"(?m)^  (\w+) +=", (module / "example" / "main.tf").read_text())) - {"source"}
    assert required <= given <= set(declared)
    assert (module / "README.md").read_text().startswith(f"# {module.name}\n")


def test_conditions_on_granted_roles_have_at_most_ten_roles_in_a_list() -> None:
    conditions = [line for path in ROOT.rglob("*.tf") for line in path.read_text().splitlines() if "modifiedGrantsByRole" in line]
    assert len(conditions) == 2
    assert all(re.search(r"for roles in chunklist\(.*, 10\) :.*hasOnly\(\[\$\{.*, roles\)\)\}\]\)", line) for line in conditions)
