"""The wheel contains everything that the program needs: it runs without the sources."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from tests.support.dirty_checkout import littered_checkout

from sliceworks import __version__

ROOT = Path(__file__).parents[2]
_NOT_SHIPPED = ("tests/", "bench/", "docs/", "examples/")
# Folders outside the package, and their location in the wheel.
BUNDLED = {
    "terraform": "sliceworks/infra/hcl",
    "deploy/controllers/install.yaml": "sliceworks/infra/deploy/controllers/install.yaml",
    "examples": "sliceworks/infra/examples",
}


def build_wheel(sources: Path, folder: Path) -> Path:
    """Build the wheel with the installed hatchling, without network access."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    result = subprocess.run(command, cwd=sources, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel


def names_in(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the unpacked wheel; dependencies come from the environment."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def run(installed: Path, folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(installed), "SLICEWORKS_HOME": str(folder / "home"), "NO_COLOR": "1"}
    command = [sys.executable, "-W", "error", "-m", "sliceworks", *arguments]
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=100)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_wheel_has_the_program_and_no_development_files(wheel: Path) -> None:
    names = names_in(wheel)
    assert wheel.name == f"sliceworks-{__version__}-py3-none-any.whl"
    assert "sliceworks/py.typed" in names
    assert f"sliceworks-{__version__}.dist-info/licenses/LICENSE" in names
    assert not [name for name in names if name.startswith(_NOT_SHIPPED) or "__pycache__" in name]


@pytest.mark.parametrize(("folder", "target"), [("src/sliceworks", "sliceworks"), *BUNDLED.items()])
def test_wheel_has_every_tracked_file(wheel: Path, folder: str, target: str) -> None:
    tracked = subprocess.run(["git", "ls-files", folder], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    names = set(names_in(wheel))
    assert tracked
    assert not [name for name in tracked if (ROOT / name).exists() and name.replace(folder, target, 1) not in names]


def test_source_distribution_has_only_tracked_files(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", "--depth=1", f"file://{ROOT}", checkout], check=True)
    for name in ("demo.yaml", "terraform/stages/1-base/terraform.tfstate", ".env"):
        (checkout / name).write_text("secret")
    settings = (f"BIN={Path(sys.executable).parent}", "READY=LICENSE")
    command = ["make", f"--makefile={ROOT / 'Makefile'}", "--assume-old=LICENSE", "sdist", *settings]
    subprocess.run(command, cwd=checkout, check=True)
    (archive,) = (checkout / "dist").iterdir()
    with tarfile.open(archive) as packed:
        names = {member.name.partition("/")[2] for member in packed.getmembers()}
    tracked = subprocess.run(["git", "ls-files"], cwd=checkout, capture_output=True, text=True, check=True).stdout.split()
    assert names == {"PKG-INFO", *tracked}


def test_wheel_excludes_untracked_files(wheel: Path, tmp_path: Path) -> None:
    checkout = littered_checkout(tmp_path / "checkout")
    assert names_in(build_wheel(checkout, tmp_path / "dist")) == names_in(wheel)


def test_installed_program_runs(installed: Path, tmp_path: Path) -> None:
    module_file = subprocess.run(
        [sys.executable, "-c", "import sliceworks; print(sliceworks.__file__)"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert Path(module_file.strip()).is_relative_to(installed)
    assert run(installed, tmp_path, "--version").strip().endswith(__version__)


def test_rehearse_runs(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "map.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: default}\n")
    assert "settings" in run(installed, tmp_path, "rehearse", ".")


def test_example_runs_without_a_checkout(installed: Path, tmp_path: Path) -> None:
    assert "platform" in run(installed, tmp_path, "examples", "list", "-o", "name").split()
    assert "hello" in run(installed, tmp_path, "rehearse", "--example", "services")


@pytest.mark.parametrize("example", ["training", "saxml", "triton", "self-service"])
def test_env_init_and_check_run(installed: Path, tmp_path: Path, example: str) -> None:
    run(installed, tmp_path, "env", "init", "--from", example, "--project", "my-project")
    run(installed, tmp_path, "env", "check")


def test_accelerators_show_runs(installed: Path, tmp_path: Path) -> None:
    assert "2x2x4" in run(installed, tmp_path, "accelerators", "show", "v4-32")
