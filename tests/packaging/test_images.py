"""The images of `deploy/Dockerfile`: nothing in them runs as root, and all that is installed is locked."""

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
    """Versions by name, of those that have a hash."""
    text = file.read_text()
    assert len(re.findall(r"^[a-z]", text, re.MULTILINE)) == len(
        re.findall(r"^[^\s#].*==.* \\\n +--hash=sha256:", text, re.MULTILINE)
    )
    return dict(re.findall(r"^([a-z0-9._-]+)(?:\[[a-z,]+\])?==(\S+)", text, re.MULTILINE))


@pytest.mark.parametrize("image", [*OURS, "converter"])
def test_an_image_does_not_run_as_root(image: str) -> None:
    assert re.findall(r"^USER (.*)$", STAGES[image], re.MULTILINE) == ["65532:65532"]


@pytest.mark.parametrize(("image", "extras"), OURS.items())
def test_an_image_installs_what_is_locked_for_it_and_our_wheel(image: str, extras: tuple[str, ...]) -> None:
    assert f"\nCOPY deploy/requirements/{image}.txt {LOCKED}\n" in STAGES[image]
    assert f"\nRUN pip install --no-cache-dir --require-hashes --requirement {LOCKED}\n" in STAGES[image]
    assert "\nCOPY --from=wheel /installed /\n" in STAGES[image]
    wanted = [*PROJECT["dependencies"], *(each for extra in extras for each in PROJECT["optional-dependencies"][extra])]
    assert {re.split(r"[>=<;\[]", each)[0] for each in wanted} <= pinned(DEPLOY / "requirements" / f"{image}.txt").keys()


def test_the_converter_installs_what_is_locked_with_the_library_of_its_jax() -> None:
    installed = re.findall(r"pip install --no-cache-dir (.*)$", STAGES["converter"], re.MULTILINE)
    locked = pinned(DEPLOY / "requirements" / "converter.txt")
    assert f"\nCOPY deploy/requirements/converter.txt {LOCKED}\n" in STAGES["converter"]
    assert installed[0].endswith(f"--require-hashes --requirement {LOCKED}")
    assert locked["jaxlib"] == locked["jax"]
    wanted = re.findall(r"^([a-z0-9-]+)", (DEPLOY / "requirements" / "converter.in").read_text(), re.MULTILINE)
    assert set(wanted) <= locked.keys()
    assert re.search(r'^ARG TORCH="torch @ https://\S+\.whl#sha256=[0-9a-f]{64}"$', STAGES["converter"], re.MULTILINE)
    assert installed[1:] == ['--no-deps "${TORCH}"']


@pytest.mark.parametrize("image", [*OURS, "converter"])
def test_an_image_says_which_version_of_what_it_is(image: str) -> None:
    stage = STAGES[image] if image == "converter" else STAGES["base"] + STAGES[image]
    labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="?([\w. ]+?)"?(?=\s)', stage))
    assert labels["version"] == __version__
    assert labels["title"].startswith("Sliceworks")


@pytest.mark.parametrize("image", [*OURS, "build"])
def test_an_image_has_the_versions_that_are_tested(image: str) -> None:
    tested = pinned(ROOT / "requirements" / "dev.txt")
    locked = pinned(DEPLOY / "requirements" / f"{image}.txt")
    assert {name: tested.get(name) for name in locked} == locked


def test_all_that_is_copied_into_a_build_is_in_its_context() -> None:
    copied = {
        name.split("/")[0]
        for line in re.findall(r"^COPY (?!--from)(.*) \S+$", STAGES["wheel"], re.MULTILINE)
        for name in line.split()
    }
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert "*" in ignored
    assert copied == {line[1:] for line in ignored if line.startswith("!")}


@pytest.mark.parametrize("name", ["terraform.tfstate", "terraform.tfvars", "environment.auto.tfvars.json", "plan.tfplan", ".env"])
def test_docker_is_given_nothing_that_has_secrets(name: str) -> None:
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert any(fnmatch(name, line.removeprefix("**/")) for line in ignored if line.startswith("**/"))


def test_any_builder_knows_all_that_is_in_the_file() -> None:
    """Docker with and without BuildKit, and Buildah: Buildah 1.28 mounts nothing of a stage that it has from its cache."""
    text = (DEPLOY / "Dockerfile").read_text()
    assert "--mount" not in text
    assert "# syntax" not in text
    assert not re.search(r"^ADD ", text, re.MULTILINE)


def test_overlays_name_the_image_of_this_version() -> None:
    files = [path for path in DEPLOY.rglob("kustomization.yaml") if "newTag" in path.read_text()]
    assert len(files) == 3
    assert {tag for path in files for tag in re.findall(r"newTag: (\S+)", path.read_text())} == {__version__}
