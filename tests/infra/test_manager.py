"""Infrastructure Manager's files: one self-contained deployment per stage, its account, and the commands."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from tests.support.environments import example

from sliceworks.infra import infrastructure_manager, stages
from sliceworks.infra.stack import write_deployments

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("name", ["saxml", "self-service", "training", "triton"])
def test_deployments_are_self_contained(name: str, tmp_path: Path) -> None:
    environment = example(name)
    write_deployments(tmp_path, environment)
    folders = sorted(path.name for path in tmp_path.iterdir() if path.is_dir())
    assert folders == [stage.name for stage in infrastructure_manager.deployments(environment)]
    assert "0-bootstrap" not in folders
    for folder in folders:
        text = (tmp_path / folder / "main.tf").read_text()
        assert "../../" not in text
        for module in re.findall(r'source += "\./([^"]+)"', text):
            assert (tmp_path / folder / module / "main.tf").exists()
        assert "backend" not in "".join(file.read_text() for file in (tmp_path / folder).glob("*.tf*"))
        declared = set(re.findall(r'variable "(\w+)"', (tmp_path / folder / "variables.tf").read_text()))
        variables = set(re.findall(r"(?m)^(\w+) = ", (tmp_path / folder / "inputs.tfvars").read_text()))
        assert variables <= declared


def test_deployment_inputs_and_account() -> None:
    environment = example("training")
    stage = next(deployment for deployment in infrastructure_manager.deployments(environment) if deployment.name == "2-cluster")
    text = infrastructure_manager.inputs(environment, stage)
    assert '"network":"projects/my-project/global/networks/' in text
    assert 'bootstrap = {"service_account":null}' in text


def test_template_markers_are_escaped() -> None:
    environment = example("training")
    spec = environment.spec.model_copy(update={"labels": {"note": "${path} %{if}"}})
    environment = environment.model_copy(update={"spec": spec})
    assert '"note":"$${path} %%{if}"' in infrastructure_manager.inputs(
        environment, infrastructure_manager.deployments(environment)[0]
    )


def test_account_has_required_roles_and_no_owner() -> None:
    environment = example("training")
    roles = infrastructure_manager.roles(environment)
    assert {"roles/config.agent", *stages.required_roles(environment.spec)} <= set(roles)
    assert not {"roles/owner", "roles/editor"} & set(roles)
    text = infrastructure_manager.scripts(environment)["account.sh"]
    assert "gcloud iam service-accounts create infrastructure-manager-sa --project=my-project" in text
    assert "config.googleapis.com" in text
    assert all(f"--role={role}\n" in text for role in roles)


def test_commands_create_in_order_and_destroy_in_reverse(tmp_path: Path) -> None:
    environment = example("saxml")
    write_deployments(tmp_path, environment)
    created, removed = ((tmp_path / name).read_text() for name in ("apply.sh", "destroy.sh"))
    result = re.findall(r"deployments/saxml-(\S+)", created)
    assert result == ["1-base", "2-cluster", "4-load"]
    assert re.findall(r"deployments/saxml-(\S+)", removed) == result[::-1]
    assert created.count("--inputs-file=") == 3
    for name in ("account.sh", "apply.sh", "destroy.sh"):
        assert subprocess.run([shutil.which("sh") or "sh", "-n", str(tmp_path / name)], check=False).returncode == 0
