"""Builds that make and remove an environment: the right stages in the right order, as the right account."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import yaml
from tests.support.environments import example

from sliceworks.infra.cloudbuild import builds
from sliceworks.infra.stages import stages
from sliceworks.infra.workspaces import Workspace

if TYPE_CHECKING:
    from pathlib import Path


def build(name: str, verb: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(builds(example(name))[f"cloudbuild.{verb}.yaml"])
    return found


def test_stages_are_made_first_to_last_and_removed_last_to_first() -> None:
    made = [step["dir"] for step in build("saxml", "provision")["steps"]]
    removed = [step["dir"] for step in build("saxml", "destroy")["steps"]]
    assert made == ["stages/1-base", "stages/2-cluster", "stages/4-load", "stages/4-load"]
    assert removed == ["stages/4-load", "stages/2-cluster", "stages/1-base"]


def test_a_build_runs_as_the_automation_account_and_is_found_by_its_tag() -> None:
    found = build("saxml", "provision")
    assert found["serviceAccount"] == "projects/my-project/serviceAccounts/${_SERVICE_ACCOUNT}"
    assert found["substitutions"]["_SERVICE_ACCOUNT"] == "saxml-automation@my-project.iam.gserviceaccount.com"
    assert found["tags"] == ["saxml-infra-deployment", "provision"]


def test_what_one_stage_gives_reaches_the_next() -> None:
    script = build("training", "provision")["steps"][1]["args"][1]
    assert 'terraform output -json base)") > base.auto.tfvars.json' in script


def test_the_last_step_names_everything() -> None:
    step = build("training", "provision")["steps"][-1]
    assert step["id"] == "tell what was made"
    assert "cd ../2-cluster && terraform state list" in step["args"][1]


def test_a_build_acts_as_nobody_but_itself(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "build")
    workspace.lay_out()
    for stage in stages(example("training")):
        workspace.write_for_builds(stage)
    written = orjson.loads((tmp_path / "build/stages/2-cluster/environment.auto.tfvars.json").read_bytes())
    assert written["bootstrap"] == {"service_account": None}
    assert written["cluster"]["name"] == "training-cluster"
    assert (tmp_path / "build/modules/network/main.tf").exists()
