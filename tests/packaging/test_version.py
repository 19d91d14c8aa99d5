"""One version in the whole tree, written by `make version`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sliceworks import __version__

ROOT = Path(__file__).parents[2]


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "docs" / "set_version.py"), f"--root={root}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_package_labels_and_image_tags_have_this_version() -> None:
    places = run(ROOT).stdout.splitlines()
    assert [place for place in places if not place.endswith(__version__)] == []
    files = {place.partition(": ")[0] for place in places}
    overlays = {f"examples/deploy/example-project/{name}/kustomization.yaml" for name in ("example-cluster", "example-gateway")}
    assert {"src/sliceworks/__init__.py", "deploy/Dockerfile", "examples/models/gemma-jetstream.yaml", *overlays} <= files


def test_version_is_written_everywhere(tmp_path: Path) -> None:
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "a.yaml").write_text("image: a/gateway:1.2.3\nother: a/server:1.2.3\nnewTag: 1.2.3\n")
    subprocess.run(["git", "init", "-q", "."], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "--all"], cwd=tmp_path, check=True)
    assert run(tmp_path, "98.7.6").returncode == 0
    assert (tmp_path / "examples" / "a.yaml").read_text() == "image: a/gateway:98.7.6\nother: a/server:1.2.3\nnewTag: 98.7.6\n"


@pytest.mark.parametrize("version", ["v1.2.3", "1.2", "1.2.3rc1"])
def test_invalid_version_is_refused(tmp_path: Path, version: str) -> None:
    assert "must have three numbers" in run(tmp_path, version).stderr
