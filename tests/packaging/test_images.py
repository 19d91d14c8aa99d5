"""The images of `deploy/Dockerfile` do not run as root, and all their packages are locked."""

from __future__ import annotations

import re
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest

from sliceworks import __version__

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
STAGES = dict(re.findall(r"^FROM \S+ AS (\S+)\n(.*?)(?=^FROM |\Z)", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE | re.DOTALL))
LOCKED = "/usr/local/share/sliceworks/requirements.txt"
OURS = {"controllers": ("google",), "gateway": ("google", "grpc", "tracing"), "load-worker": ("google", "load")}


def pinned(file: Path) -> dict[str, str]:
    """Return the versions by package name; fails if a package has no hash."""
    text = file.read_text()
    assert len(re.findall(r"^[a-z]", text, re.MULTILINE)) == len(
        re.findall(r"^[^\s#].*==.* \\\n +--hash=sha256:", text, re.MULTILINE)
    )
    return dict(re.findall(r"^([a-z0-9._-]+)(?:\[[a-z,]+\])?==(\S+)", text, re.MULTILINE))


@pytest.mark.parametrize("image", [*OURS, "converter"])
def test_image_does_not_run_as_root(image: str) -> None:
    assert re.findall(r"^USER (.*)$", STAGES[image], re.MULTILINE) == ["65532:65532"]


@pytest.mark.parametrize(("image", "extras"), OURS.items())
def test_image_installs_its_locked_packages_and_the_wheel(image: str, extras: tuple[str, ...]) -> None:
    assert f"\nCOPY deploy/requirements/{image}.txt {LOCKED}\n" in STAGES[image]
    assert f"\nRUN pip install --no-cache-dir --require-hashes --requirement {LOCKED}\n" in STAGES[image]
    assert "\nCOPY --from=wheel /installed /\n" in STAGES[image]
    required = [*PROJECT["dependencies"], *(line for extra in extras for line in PROJECT["optional-dependencies"][extra])]
    assert {re.split(r"[>=<;\[]", line)[0] for line in required} <= pinned(DEPLOY / "requirements" / f"{image}.txt").keys()


def test_converter_installs_locked_packages_with_matching_jaxlib() -> None:
    installed = re.findall(r"pip install --no-cache-dir (.*)$", STAGES["converter"], re.MULTILINE)
    locked = pinned(DEPLOY / "requirements" / "converter.txt")
    assert f"\nCOPY deploy/requirements/converter.txt {LOCKED}\n" in STAGES["converter"]
    assert installed[0].endswith(f"--require-hashes --requirement {LOCKED}")
    assert locked["jaxlib"] == locked["jax"]
    required = re.findall(r"^([a-z0-9-]+)", (DEPLOY / "requirements" / "converter.in").read_text(), re.MULTILINE)
    assert set(required) <= locked.keys()
    assert re.search(r'^ARG TORCH="torch @ https://\S+\.whl#sha256=[0-9a-f]{64}"$', STAGES["converter"], re.MULTILINE)
    assert installed[1:] == ['--no-deps "${TORCH}"']


@pytest.mark.parametrize("image", [*OURS, "converter"])
def test_image_has_title_and_version_labels(image: str) -> None:
    stage = STAGES[image] if image == "converter" else STAGES["base"] + STAGES[image]
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="?([\w. ]+?)"?(?=\s)', stage))
    assert labels["version"] == __version__
    assert labels["title"].startswith("Sliceworks")


@pytest.mark.parametrize("image", [*OURS, "build"])
def test_image_has_the_tested_versions(image: str) -> None:
    tested = pinned(ROOT / "requirements" / "dev.txt")
    locked = pinned(DEPLOY / "requirements" / f"{image}.txt")
    assert {name: tested.get(name) for name in locked} == locked


def test_build_context_contains_all_copied_files() -> None:
    copied = {
        name.split("/")[0]
        for line in re.findall(r"^COPY (?!--from)(.*) \S+$", STAGES["wheel"], re.MULTILINE)
        for name in line.split()
    }
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert "*" in ignored
    assert copied == {line[1:] for line in ignored if line.startswith("!")}


@pytest.mark.parametrize("name", ["terraform.tfstate", "terraform.tfvars", "environment.auto.tfvars.json", "plan.tfplan", ".env"])
def test_build_context_excludes_secrets(name: str) -> None:
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert any(fnmatch(name, line.removeprefix("**/")) for line in ignored if line.startswith("**/"))


def test_dockerfile_uses_only_portable_features() -> None:
    """For Docker with and without BuildKit, and Buildah: Buildah 1.28 does not mount files of a cached stage."""
    text = (DEPLOY / "Dockerfile").read_text()
    assert "--mount" not in text
    assert "# syntax" not in text
    assert not re.search(r"^ADD ", text, re.MULTILINE)


def test_every_lock_that_is_installed_has_a_bill_of_materials() -> None:
    """`make sbom` reads all locks but those of build tools; its own tool is locked, too."""
    recipe = re.search(r"^sbom:.*?(?=^\S)", (ROOT / "Makefile").read_text(), re.MULTILINE | re.DOTALL)
    assert recipe is not None
    images = re.search(r"deploy/requirements/\{(.*?)\}\.txt", recipe[0])
    assert images is not None
    assert set(images[1].split(",")) == {file.stem for file in (DEPLOY / "requirements").glob("*.txt")} - {"build"}
    assert "requirements/runtime.txt" in recipe[0]
    assert "cyclonedx-bom" in pinned(ROOT / "requirements" / "sbom.txt")
