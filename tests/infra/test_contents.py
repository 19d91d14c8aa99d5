"""What is handed on of our folders: all that belongs to the project, and nothing that lies about in them."""

from __future__ import annotations

import subprocess
import tarfile
from typing import TYPE_CHECKING

import pytest
from tests.support.environments import example
from tests.support.litter import ROOT, littered_checkout

from sliceworks.infra import sources, workspaces
from sliceworks.infra.contents import IMAGES, TERRAFORM, belonging

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def littered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    checkout = littered_checkout(tmp_path / "checkout")
    monkeypatch.setattr(workspaces, "modules", lambda: checkout / "terraform")
    return checkout


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def tracked(*folders: str) -> set[str]:
    command = ["git", "ls-files", *folders]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return {name for name in names if (ROOT / name).exists()}


def test_every_file_of_modules_and_stages_belongs_to_them() -> None:
    found = {path.relative_to(ROOT).as_posix() for path in belonging(ROOT / "terraform", TERRAFORM)}
    assert found == tracked("terraform")


def test_a_workspace_has_the_modules_and_stages_alone(littered: Path, tmp_path: Path) -> None:
    workspaces.Workspace(tmp_path / "work").lay_out()
    names = {f"terraform/{name}" for name in files(tmp_path / "work")}
    assert names == tracked("terraform")


def test_deployments_have_nothing_that_lay_about(littered: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workspaces.write_deployments(tmp_path / "littered", example("training"))
    monkeypatch.undo()
    workspaces.write_deployments(tmp_path / "clean", example("training"))
    found = files(tmp_path / "littered")
    assert found == files(tmp_path / "clean")
    assert b"secret" not in found.values()


def test_images_are_built_from_nothing_that_lay_about(littered: Path, tmp_path: Path) -> None:
    sources.pack(littered, tmp_path / "littered.tgz")
    with tarfile.open(tmp_path / "littered.tgz") as packed:
        names = packed.getnames()
    assert names == [path.relative_to(ROOT).as_posix() for path in belonging(ROOT, IMAGES)]
    assert tracked("src", "terraform", "deploy/requirements/*.txt", "deploy/converter") <= set(names)
