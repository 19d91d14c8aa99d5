"""Infrastructure Manager's files: a deployment for each stage that stands alone, the account it runs as, and the commands."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from tests.support.environments import example

from sliceworks.infra import manager, needs
from sliceworks.infra.workspaces import write_deployments

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", ["saxml", "self-service", "training", "triton"])
def test_each_deployment_stands_alone(name: str, tmp_path: Path) -> None:
    environment = example(name)
    write_deployments(tmp_path, environment)
    folders = sorted(each.name for each in tmp_path.iterdir() if each.is_dir())
    assert folders == [stage.name for stage in manager.deployments(environment)]
    assert "0-bootstrap" not in folders
    for folder in folders:
        text = (tmp_path / folder / "main.tf").read_text()
        assert "../../" not in text
        for module in re.findall(r'source += "\./([^"]+)"', text):
            assert (tmp_path / folder / module / "main.tf").exists()
        assert "backend" not in "".join(file.read_text() for file in (tmp_path / folder).glob("*.tf*"))
        declared = set(re.findall(r'variable "(\w+)"', (tmp_path / folder / "variables.tf").read_text()))
        given = set(re.findall(r"(?m)^(\w+) = ", (tmp_path / folder / "inputs.tfvars").read_text()))
        assert given <= declared


def test_a_deployment_knows_what_earlier_ones_make_and_acts_as_itself() -> None:
    environment = example("training")
    stage = next(each for each in manager.deployments(environment) if each.name == "2-cluster")
    text = manager.inputs(environment, stage)
    assert '"network":"projects/my-project/global/networks/' in text
    assert 'bootstrap = {"service_account":null}' in text


def test_texts_with_terraforms_own_signs_stay_texts() -> None:
    environment = example("training")
    spec = environment.spec.model_copy(update={"labels": {"note": "${path} %{if}"}})
    environment = environment.model_copy(update={"spec": spec})
    assert '"note":"$${path} %%{if}"' in manager.inputs(environment, manager.deployments(environment)[0])


def test_the_account_is_an_agent_with_the_roles_that_are_needed_and_no_owner() -> None:
    environment = example("training")
    roles = manager.roles(environment)
    assert {"roles/config.agent", *needs.roles(environment.spec)} <= set(roles)
    assert not {"roles/owner", "roles/editor"} & set(roles)
    text = manager.scripts(environment)["account.sh"]
    assert "gcloud iam service-accounts create infrastructure-manager-sa --project=my-project" in text
    assert "config.googleapis.com" in text
    assert all(f"--role={role}\n" in text for role in roles)


def test_commands_make_first_to_last_and_remove_last_to_first(tmp_path: Path) -> None:
    environment = example("saxml")
    write_deployments(tmp_path, environment)
    made, removed = ((tmp_path / name).read_text() for name in ("apply.sh", "destroy.sh"))
    found = re.findall(r"deployments/saxml-(\S+)", made)
    assert found == ["1-base", "2-cluster", "4-load"]
    assert re.findall(r"deployments/saxml-(\S+)", removed) == found[::-1]
    assert made.count("--inputs-file=") == 3
    for name in ("account.sh", "apply.sh", "destroy.sh"):
        assert subprocess.run([shutil.which("sh") or "sh", "-n", str(tmp_path / name)], check=False).returncode == 0
