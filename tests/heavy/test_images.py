"""The content of our images, built by Buildah; each starts for any user with a read-only root."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.heavy import images
from tests.heavy.containers import started
from tests.heavy.images import OURS, ROOT

from sliceworks import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(900)
Object = dict[str, Any]
PACKAGES = "usr/local/lib/python3.13/site-packages"
INSTALLED = tuple(f"usr/local/{folder}" for folder in ("bin", "include", "lib", "share"))
MOST_BYTES = 320 * 1024**2


@pytest.fixture(scope="module")
def base() -> Iterator[Path]:
    with images.unpacked(images.base()) as root:
        yield root


@pytest.fixture(scope="module", params=OURS)
def built(request: pytest.FixtureRequest) -> str:
    """Each image in turn."""
    return images.build(request.param)


@pytest.fixture(scope="module")
def root(built: str) -> Iterator[Path]:
    with images.unpacked(built) as result:
        yield result


def entries(root: Path) -> dict[str, os.stat_result]:
    """Everything below a folder except bytecode, by path."""
    result = {}
    for folder, folders, files in os.walk(root):
        result.update({str(path.relative_to(root)): path.lstat() for path in (Path(folder, name) for name in (*folders, *files))})
    return {path: about for path, about in result.items() if "__pycache__" not in path}


@pytest.fixture(scope="module")
def added(base: Path, root: Path) -> dict[str, os.stat_result]:
    """Files that an image adds to its base or changes."""
    before = entries(base)
    return {
        path: about
        for path, about in entries(root).items()
        if path not in before
        or (not stat.S_ISDIR(about.st_mode) and (about.st_size, about.st_mtime) != (before[path].st_size, before[path].st_mtime))
    }


def pod(*command: str, **context: Any) -> Object:
    """A pod's spec that runs a command with a read-only root and a scratch folder."""
    container: Object = {"command": list(command), "volumeMounts": [{"name": "scratch", "mountPath": "/tmp"}]}
    container["securityContext"] = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True}
    return {"securityContext": context, "containers": [container], "volumes": [{"name": "scratch", "emptyDir": {}}]}


def test_image_has_labels_and_runs_unprivileged(built: str) -> None:
    config = images.described(built)["config"]
    assert config["User"] == "65532:65532"
    assert config["Labels"]["org.opencontainers.image.version"] == __version__
    assert config["Labels"]["org.opencontainers.image.title"].startswith("Sliceworks")


def test_image_adds_only_installed_packages(added: dict[str, os.stat_result]) -> None:
    assert {path for path in added if not path.startswith(INSTALLED)} == set()
    assert sum(about.st_size for about in added.values()) < MOST_BYTES


def test_added_files_are_writable_by_root_only(added: dict[str, os.stat_result]) -> None:
    assert {path for path, about in added.items() if about.st_uid or about.st_gid} == set()
    writable = {path for path, about in added.items() if about.st_mode & 0o022 and not stat.S_ISLNK(about.st_mode)}
    assert writable == set()
    assert {path for path, about in added.items() if about.st_mode & (stat.S_ISUID | stat.S_ISGID)} == set()


def test_image_has_no_build_files(built: str, base: Path, root: Path) -> None:
    for left in ("build", "wheel", "requirements", "root/.cache", "tmp/.cache", "usr/bin/gcc", "usr/bin/cc", "usr/local/bin/gcc"):
        assert not (root / left).exists(), left
    assert (root / "etc/pip.conf").read_bytes() == b""
    assert (root / images.TRUSTED).read_bytes() == (base / images.TRUSTED).read_bytes()
    reported = images.described(built)
    assert "://" not in f"{reported['config']}{reported['history']}"


def test_image_has_every_file_of_the_program(root: Path) -> None:
    tracked = subprocess.run(["git", "ls-files", "src/sliceworks"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = [name.removeprefix("src/") for name in tracked.splitlines() if (ROOT / name).exists()]
    assert len(names) > 500
    assert [name for name in names if not (root / PACKAGES / name).exists()] == []
    for shipped in ("hcl/modules", "deploy/controllers/install.yaml", "examples/environments/saxml/environment.yaml"):
        assert (root / PACKAGES / "sliceworks/infra" / shipped).exists(), shipped


@pytest.mark.parametrize("user", [65532, 1000690000])
def test_image_starts_for_any_user_on_read_only_root(built: str, tmp_path: Path, user: int) -> None:
    tried = "sliceworks --version; sliceworks twin status; sliceworks accelerators show v4-32; touch /x /usr/local/x"
    with started(built, pod("sh", "-c", tried, runAsUser=user, runAsGroup=user), tmp_path) as container:
        assert container.ended(60) == 1
    output = container.tail(200)
    assert f"sliceworks, version {__version__}" in output
    assert "2x2x4" in output
    assert "unexpected" not in output
    assert output.count("Read-only file system") == 2


def test_image_runs_without_scratch_and_home(built: str, tmp_path: Path) -> None:
    bare = pod("env", "--unset=HOME", "sh", "-c", "sliceworks accelerators show v4-32 && sliceworks twin status")
    bare["containers"][0]["volumeMounts"], bare["volumes"] = [], []
    with started(built, bare, tmp_path) as container:
        assert container.ended(60) == 2, container.tail()
    assert "error: this user has no home folder" in container.tail()
