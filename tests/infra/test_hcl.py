"""The Terraform files themselves: formatted, and described variable by variable. Terraform's own program says so."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from sliceworks.infra import programs

ROOT = Path(__file__).parents[2] / "terraform"
MODULES = sorted(path.parent for path in ROOT.rglob("versions.tf"))


def test_files_are_formatted(tmp_path: Path) -> None:
    command = [*programs.find().command, "fmt", "-check", "-recursive", "-no-color", str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_variable_and_output_is_described(module: Path) -> None:
    for name in ("variables.tf", "outputs.tf"):
        text = (module / name).read_text()
        blocks = re.findall(r'(?ms)^(?:variable|output) "(\w+)" \{(.*?)^\}', text)
        assert blocks
        assert not [block for block, body in blocks if not re.search(r'^  description = ".{4,}"$', body, re.MULTILINE)], name


def test_new_clusters_obey_network_policies_and_old_ones_stay() -> None:
    """It is chosen when a cluster is made: a plan that changed it would make another cluster."""
    text = (ROOT / "modules" / "cluster" / "main.tf").read_text()
    assert re.search(r'^  datapath_provider = local.autopilot \? null : "ADVANCED_DATAPATH"$', text, re.MULTILINE)
    assert re.search(r"^    ignore_changes = \[datapath_provider\]$", text, re.MULTILINE)


def test_stages_take_what_earlier_ones_give() -> None:
    """Each output that a stage passes on is one that a later stage declares, with the same name."""
    given = {name: path.name for path in MODULES if path.parent.name == "stages" for name in _names(path / "outputs.tf", "output")}
    for stage, takes in (("1-base", {"bootstrap"}), ("2-cluster", {"bootstrap", "base"}), ("3-serving", {"bootstrap", "cluster"})):
        declared = set(_names(ROOT / "stages" / stage / "variables.tf", "variable"))
        assert takes <= declared
        assert all(given[each] < stage for each in takes)


def _names(file: Path, kind: str) -> list[str]:
    return re.findall(rf'(?m)^{kind} "(\w+)"', file.read_text())
