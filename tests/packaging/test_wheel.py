"""The wheel has everything in it that the program needs: it runs from nothing else, far from the sources."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.support.litter import littered_checkout

from sliceworks import __version__

ROOT = Path(__file__).parents[2]
_NOT_SHIPPED = ("tests/", "bench/", "docs/", "examples/")
# Folders that are shipped beside the package, and where they are in the wheel.
BESIDE = {
    "terraform": "sliceworks/infra/hcl",
    "deploy/graphs/base": "sliceworks/infra/deploy/graphs/base",
    "deploy/slices/base": "sliceworks/infra/deploy/slices/base",
    "examples/environments": "sliceworks/infra/examples/environments",
}


def built(sources: Path, folder: Path) -> Path:
    """The wheel, built without a network by the builder that is installed."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=sources, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (made,) = folder.glob("*.whl")
    return made


def names_in(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what an installation puts into place; what the project depends on is where it is."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def run(installed: Path, folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(installed), "SLICEWORKS_HOME": str(folder / "home"), "NO_COLOR": "1"}
    command = [sys.executable, "-W", "error", "-m", "sliceworks", *arguments]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_wheel_has_the_program_and_nothing_of_the_workshop(wheel: Path) -> None:
    names = names_in(wheel)
    assert wheel.name == f"sliceworks-{__version__}-py3-none-any.whl"
    assert "sliceworks/py.typed" in names
    assert f"sliceworks-{__version__}.dist-info/licenses/LICENSE" in names
    assert not [name for name in names if name.startswith(_NOT_SHIPPED) or "__pycache__" in name]


@pytest.mark.parametrize(("folder", "place"), [("src/sliceworks", "sliceworks"), *BESIDE.items()])
def test_every_file_that_is_shipped_is_in_the_wheel(wheel: Path, folder: str, place: str) -> None:
    tracked = subprocess.run(["git", "ls-files", folder], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    names = set(names_in(wheel))
    assert tracked
    assert not [name for name in tracked if (ROOT / name).exists() and name.replace(folder, place, 1) not in names]


def test_what_lies_about_is_left_out(wheel: Path, tmp_path: Path) -> None:
    checkout = littered_checkout(tmp_path / "checkout")
    assert names_in(built(checkout, tmp_path / "dist")) == names_in(wheel)


def test_it_is_the_installed_program_that_runs(installed: Path, tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-c", "import sliceworks; print(sliceworks.__file__)"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert Path(found.strip()).is_relative_to(installed)
    assert run(installed, tmp_path, "--version").strip().endswith(__version__)


def test_a_folder_is_rehearsed(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "map.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: default}\n")
    assert "settings" in run(installed, tmp_path, "rehearse", ".")


@pytest.mark.parametrize("example", ["training", "saxml", "triton", "self-service"])
def test_an_environment_is_drafted_and_checked(installed: Path, tmp_path: Path, example: str) -> None:
    asked = ("--from", example, "--project", "my-project")
    run(installed, tmp_path, "env", "init", *asked)
    run(installed, tmp_path, "env", "check")


def test_an_accelerator_is_drawn(installed: Path, tmp_path: Path) -> None:
    assert "2x2x4" in run(installed, tmp_path, "accelerators", "show", "v4-32")
