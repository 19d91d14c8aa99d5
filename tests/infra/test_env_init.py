"""Documents of `env init`: valid, with the requested names, and never over an existing file."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from sliceworks.base.yaml_documents import load_all
from sliceworks.cli import main
from sliceworks.cli.env_init import TEMPLATES
from sliceworks.infra import environment_file, preflight
from sliceworks.specs import documents
from sliceworks.specs.environment import Environment

if TYPE_CHECKING:
    from pathlib import Path


def create_document(template: str, **answers: str) -> Environment:
    given = {"name": template, "project": "acme-ml", "region": environment_file.template_region(template), **answers}
    [document] = load_all(environment_file.Draft(template, **given).files()[environment_file.FILE], "environment.yaml")
    result = documents.read(document)
    assert isinstance(result, Environment)
    return result


@pytest.mark.parametrize("template", TEMPLATES)
def test_document_is_valid_and_protected(template: str) -> None:
    result = create_document(template, name="demo")
    assert preflight.check(result) == []
    assert (result.metadata.name, result.spec.project) == ("demo", "acme-ml")
    assert result.spec.deletion_protection
    assert not result.spec.force_destroy


@pytest.mark.parametrize("template", TEMPLATES)
def test_bucket_names_start_with_the_project(template: str) -> None:
    spec = create_document(template).spec
    assert all(name.startswith("acme-ml-") for name in [spec.automation.bucket, *spec.buckets])


def test_names_start_with_the_environment() -> None:
    spec = create_document("triton", name="vision").spec
    named = (spec.network.name, spec.cluster.name, spec.identities.nodes.name)
    assert named == ("vision-network", "vision-cluster", "vision-nodes")
    assert spec.identities.workloads["triton-sa"].namespace == "triton"


def test_region_gets_a_zone_with_the_accelerators() -> None:
    result = create_document("saxml", region="us-central1")
    assert result.spec.zones == environment_file.zones_for("saxml", "us-central1")[:1]
    assert preflight.check(result) == []


def test_region_without_accelerators_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--project", "acme-ml", "--region", "europe-west6", "-o", str(tmp_path / "environment.yaml")]
    assert main.run(["env", "init", *arguments]) == 2
    output = capsys.readouterr().err
    assert "no known zone of europe-west6 has the accelerators of training" in output
    assert "hint: zones that have them: us-central2-b" in output
    assert list(tmp_path.iterdir()) == []


def test_init_writes_a_valid_document_and_its_files(tmp_path: Path) -> None:
    file = tmp_path / "environment.yaml"
    assert main.run(["env", "init", "--from", "self-service", "--project", "acme-ml", "-o", str(file)]) == 0
    assert main.run(["env", "check", "-f", str(file)]) == 0
    [document] = load_all(file.read_text(), "environment.yaml")
    result = documents.read(document)
    assert isinstance(result, Environment)
    assert result.spec.self_service is not None
    assert all((tmp_path / graph).exists() for graph in result.spec.self_service.graphs)


def test_existing_file_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "environment.yaml"
    file.write_text("mine\n")
    assert main.run(["env", "init", "--project", "acme-ml", "-o", str(file)]) == 2
    assert "already exists" in capsys.readouterr().err
    assert file.read_text() == "mine\n"


def test_project_is_required_without_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["env", "init", "-o", str(tmp_path / "environment.yaml")]) == 2
    assert capsys.readouterr().err == "error: stdin is not a terminal; pass --project\n"


def test_invalid_project_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["env", "init", "--project", "Acme", "-o", str(tmp_path / "environment.yaml")]) == 1
    assert "must be a project id" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_failed_write_leaves_nothing_behind(tmp_path: Path) -> None:
    command = f"ulimit -f 1; exec {sys.executable} -m sliceworks env init --project acme-ml"
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, "error: environment.yaml: File too large\n")
    assert list(tmp_path.iterdir()) == []
