"""Images are built by Cloud Build from our sources: once, joined by concurrent callers, and with a clear error on failure."""

from __future__ import annotations

import asyncio
import re
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import discovery
from tests.support.cloud_http import served_cloud
from tests.support.environments import example

from sliceworks.base.errors import CloudNotFound, UsageError
from sliceworks.cloud import Session, Token
from sliceworks.infra import images
from sliceworks.infra import images as sources
from sliceworks.infra.images import BuildFailed, ImageBuilder
from sliceworks.infra.stages import Names
from sliceworks.infra.target import TwinTarget

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.cloud_http import HttpCloud

    from sliceworks.specs.environment import Environment

ROOT = Path(__file__).parents[2]
PROJECT = "my-project"


class BuildCloud:
    """A cloud with the resources of the first stages, and a builder for it."""

    def __init__(self, served: HttpCloud, folder: Path) -> None:
        self.served, self.folder = served, folder
        self.target = TwinTarget(address=served.url, token=served.token)

    def builder(self, environment: Environment, folder: Path | None = None) -> ImageBuilder:
        return ImageBuilder(environment, self.target, folder or self.folder)

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        async def main() -> dict[str, Any]:
            async with Session(self.served.url, Token(self.served.token)) as session:
                return await session.call(method, path, body)

        return asyncio.run(main())

    def prepare(self, environment: Environment, *, registry: bool = True) -> None:
        spec, names = environment.spec, Names(environment)
        self.ask("POST", f"/storage/v1/b?project={PROJECT}", {"name": spec.automation.bucket, "location": spec.region})
        for account in (spec.automation.service_account, names.build_account):
            self.ask("POST", f"/iam/v1/projects/{PROJECT}/serviceAccounts", {"accountId": account})
        if registry:
            at = f"/artifactregistry/v1/projects/{PROJECT}/locations/{spec.region}/repositories"
            self.ask("POST", f"{at}?repositoryId={names.registry}", {"format": "DOCKER"})

    def seconds(self, seconds: float) -> None:
        self.served.run(lambda cloud: cloud.services["cloudbuild"].configure({"seconds": seconds}))


@pytest.fixture(scope="module")
def small_sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A minimal checkout."""
    folder = tmp_path_factory.mktemp("sources")
    for name in ("pyproject.toml", "README.md", "LICENSE", "deploy/Dockerfile", "src/sliceworks/a.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / "src" / "sliceworks" / "__pycache__").mkdir()
    (folder / "src" / "sliceworks" / "__pycache__" / "a.pyc").write_text("compiled")
    return folder


@pytest.fixture(scope="module")
def cloud(small_sources: Path) -> Iterator[BuildCloud]:
    with served_cloud() as served:
        yield BuildCloud(served, small_sources)


def test_missing_image_is_built_once(cloud: BuildCloud) -> None:
    saxml = example("saxml")
    cloud.prepare(saxml)
    builder = cloud.builder(saxml)
    assert builder.missing() == ["gateway", "converter", "load-worker"]
    cloud.seconds(1)
    started = builder.begin()
    assert started is not None
    assert discovery.problems("cloudbuild", "v1", "Build", started.build) == []
    source = started.build["source"]["storageSource"]
    kept = f"/storage/v1/b/{source['bucket']}/o/{source['object'].replace('/', '%2F')}"
    assert cloud.ask("GET", kept)["contentType"] == "application/gzip"
    assert builder.finish(started, lambda _line: None) == [
        images.image(saxml, name) for name in ("gateway", "converter", "load-worker")
    ]
    assert (builder.missing(), builder.begin()) == ([], None)
    with pytest.raises(CloudNotFound):
        cloud.ask("GET", kept)


def test_concurrent_caller_joins_the_build(cloud: BuildCloud) -> None:
    service = example("self-service")
    cloud.prepare(service)
    cloud.seconds(86_400)
    builder = cloud.builder(service)
    started, again = builder.begin(), builder.begin()
    assert started is not None
    assert again is not None
    assert (again.build["id"], again.images) == (started.build["id"], started.images)
    cloud.ask("POST", f"/cloudbuild/v1/{started.build['name']}:cancel", {})
    with pytest.raises(BuildFailed, match="ended with status CANCELLED"):
        builder.finish(again, lambda _line: None)
    other = builder.begin()
    assert other is not None
    assert other.build["id"] != started.build["id"]


def test_failed_build_is_reported_and_retried(cloud: BuildCloud) -> None:
    triton = example("triton")
    cloud.prepare(triton, registry=False)
    cloud.seconds(1)
    builder = cloud.builder(triton)
    started = builder.begin()
    assert started is not None
    with pytest.raises(BuildFailed, match='ended with status FAILURE: Repository "triton-images" not found') as caught:
        builder.finish(started, lambda _line: None)
    assert f"build log: https://console.cloud.google.com/cloud-build/builds/{started.build['id']}" in caught.value.hint
    at = f"/artifactregistry/v1/projects/{PROJECT}/locations/us-central1/repositories"
    cloud.ask("POST", f"{at}?repositoryId=triton-images", {"format": "DOCKER"})
    again = builder.begin()
    assert again is not None
    assert builder.finish(again, lambda _line: None) == [images.image(triton, "gateway")]


def test_nothing_is_built_without_sources_or_images(cloud: BuildCloud) -> None:
    assert ImageBuilder(example("training"), cloud.target, cloud.folder).begin() is None
    assert ImageBuilder(example("saxml"), cloud.target, None).begin() is None
    assert ImageBuilder(example("saxml"), cloud.target, None).names() == []


def test_archive_is_reproducible(small_sources: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        sources.pack_sources(small_sources, tmp_path / name)
        (small_sources / "src" / "sliceworks" / "a.py").touch()
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    with tarfile.open(tmp_path / "one") as packed:
        assert packed.getnames() == ["LICENSE", "README.md", "deploy/Dockerfile", "pyproject.toml", "src/sliceworks/a.py"]


def test_archive_has_all_files_of_the_dockerfile(tmp_path: Path) -> None:
    assert sources.own_checkout() == ROOT
    sources.pack_sources(ROOT, tmp_path / "all.tgz")
    with tarfile.open(tmp_path / "all.tgz") as packed:
        names = packed.getnames()
    for line in re.findall(r"(?m)^COPY (?!--from)(.+)$", (ROOT / images.DOCKERFILE).read_text()):
        for source in line.split()[:-1]:
            assert [name for name in names if name == source or name.startswith(f"{source.rstrip('/')}/")], source


def test_folder_without_sources_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a Sliceworks checkout"):
        sources.checkout_in(tmp_path)
