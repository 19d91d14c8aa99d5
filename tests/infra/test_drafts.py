"""First documents: sound as they come, with the names that were asked for, and never over a file that is there."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from sliceworks.base.yamls import load_all
from sliceworks.cli import main
from sliceworks.cli.env_init import TEMPLATES
from sliceworks.infra import checks, drafts
from sliceworks.specs import documents
from sliceworks.specs.environment import Environment

if TYPE_CHECKING:
    from pathlib import Path


def drafted(template: str, **answers: str) -> Environment:
    given = {"name": template, "project": "acme-ml", "region": drafts.region_of(template), **answers}
    [document] = load_all(drafts.Draft(template, **given).files()[drafts.FILE], "environment.yaml")
    found = documents.read(document)
    assert isinstance(found, Environment)
    return found


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_draft_has_nothing_wrong_and_is_protected(template: str) -> None:
    found = drafted(template, name="demo")
    assert checks.check(found) == []
    assert (found.metadata.name, found.spec.project) == ("demo", "acme-ml")
    assert found.spec.deletion_protection
    assert not found.spec.force_destroy


@pytest.mark.parametrize("template", TEMPLATES)
def test_buckets_are_named_after_the_project_that_owns_them(template: str) -> None:
    spec = drafted(template).spec
    assert all(name.startswith("acme-ml-") for name in [spec.automation.bucket, *spec.buckets])


def test_names_begin_with_the_environments_own() -> None:
    spec = drafted("triton", name="vision").spec
    named = (spec.network.name, spec.cluster.name, spec.identities.nodes.name)
    assert named == ("vision-network", "vision-cluster", "vision-nodes")
    assert spec.identities.workloads["triton-sa"].namespace == "triton"


def test_another_region_gets_a_zone_that_has_the_accelerators() -> None:
    found = drafted("saxml", region="us-central1")
    assert found.spec.zones == drafts.zones_for("saxml", "us-central1")[:1]
    assert checks.check(found) == []


def test_a_region_without_them_is_refused_with_zones_that_have_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--project", "acme-ml", "--region", "europe-west6", "-o", str(tmp_path / "environment.yaml")]
    assert main.run(["env", "init", *arguments]) == 2
    said = capsys.readouterr().err
    assert "no zone of europe-west6 is known to have what training needs" in said
    assert "hint: zones that do: us-central2-b" in said
    assert list(tmp_path.iterdir()) == []


def test_init_writes_what_check_accepts_and_what_the_document_names(tmp_path: Path) -> None:
    file = tmp_path / "environment.yaml"
    assert main.run(["env", "init", "--from", "self-service", "--project", "acme-ml", "-o", str(file)]) == 0
    assert main.run(["env", "check", "-f", str(file)]) == 0
    [document] = load_all(file.read_text(), "environment.yaml")
    found = documents.read(document)
    assert isinstance(found, Environment)
    assert found.spec.self_service is not None
    assert all((tmp_path / graph).exists() for graph in found.spec.self_service.graphs)


def test_a_file_that_is_there_stays_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "environment.yaml"
    file.write_text("mine\n")
    assert main.run(["env", "init", "--project", "acme-ml", "-o", str(file)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert file.read_text() == "mine\n"


def test_without_a_person_the_project_must_be_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["env", "init", "-o", str(tmp_path / "environment.yaml")]) == 2
    assert capsys.readouterr().err == "error: there is nobody to ask\nhint: give --project\n"


def test_a_project_that_google_would_not_take_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["env", "init", "--project", "Acme", "-o", str(tmp_path / "environment.yaml")]) == 1
    assert "must be a project id" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_document_that_cannot_be_written_whole_leaves_nothing_behind(tmp_path: Path) -> None:
    command = f"ulimit -f 1; exec {sys.executable} -m sliceworks env init --project acme-ml"
    done = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, "error: environment.yaml: File too large\n")
    assert list(tmp_path.iterdir()) == []
