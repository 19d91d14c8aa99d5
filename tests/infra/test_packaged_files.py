"""Packaged folders: all files of the project, and no untracked ones."""

from __future__ import annotations

import subprocess
import tarfile
from typing import TYPE_CHECKING

import pytest
from tests.support.dirty_checkout import ROOT, littered_checkout
from tests.support.environments import example

from sliceworks.infra import images, stack
from sliceworks.infra.images import IMAGE_FILES, TERRAFORM_FILES, select_files

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def dirty_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    checkout = littered_checkout(tmp_path / "checkout")
    monkeypatch.setattr(stack, "modules_folder", lambda: checkout / "terraform")
    return checkout


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def tracked(*folders: str) -> set[str]:
    command = ["git", "ls-files", *folders]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return {name for name in names if (ROOT / name).exists()}


def test_packaged_files_are_tracked() -> None:
    result = {path.relative_to(ROOT).as_posix() for path in select_files(ROOT / "terraform", TERRAFORM_FILES)}
    assert result == tracked("terraform")


def test_workspace_has_only_modules_and_stages(dirty_checkout: Path, tmp_path: Path) -> None:
    stack.Workspace(tmp_path / "work").copy_modules()
    names = {f"terraform/{name}" for name in files(tmp_path / "work")}
    assert names == tracked("terraform")


def test_deployments_have_no_untracked_files(dirty_checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stack.write_deployments(tmp_path / "dirty", example("training"))
    monkeypatch.undo()
    stack.write_deployments(tmp_path / "clean", example("training"))
    result = files(tmp_path / "dirty")
    assert result == files(tmp_path / "clean")
    assert b"secret" not in result.values()


def test_image_sources_have_no_untracked_files(dirty_checkout: Path, tmp_path: Path) -> None:
    images.pack_sources(dirty_checkout, tmp_path / "sources.tgz")
    with tarfile.open(tmp_path / "sources.tgz") as packed:
        names = packed.getnames()
    assert names == [path.relative_to(ROOT).as_posix() for path in select_files(ROOT, IMAGE_FILES)]
    assert tracked("src", "terraform", "deploy/requirements/*.txt", "deploy/converter") <= set(names)
