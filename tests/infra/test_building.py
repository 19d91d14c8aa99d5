"""Images are built by a cloud from our sources: once, found under way by whoever comes later, and with a clear word on failure."""

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
from sliceworks.infra import images, sources
from sliceworks.infra.building import Builder, BuildFailed
from sliceworks.infra.names import Names
from sliceworks.infra.targets import TwinTarget

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.cloud_http import Served

    from sliceworks.specs.environment import Environment

ROOT = Path(__file__).parents[2]
PROJECT = "my-project"


class Place:
    """A cloud that has what the first stages make, and who builds there."""

    def __init__(self, served: Served, folder: Path) -> None:
        self.served, self.folder = served, folder
        self.target = TwinTarget(address=served.url, token=served.token)

    def builder(self, environment: Environment, folder: Path | None = None) -> Builder:
        return Builder(environment, self.target, folder or self.folder)

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        async def main() -> dict[str, Any]:
            async with Session(self.served.url, Token(self.served.token)) as session:
                return await session.call(method, path, body)

        return asyncio.run(main())

    def prepare(self, environment: Environment, *, registry: bool = True) -> None:
        spec, names = environment.spec, Names(environment)
        self.ask("POST", f"/storage/v1/b?project={PROJECT}", {"name": spec.automation.bucket, "location": spec.region})
        self.ask("POST", f"/iam/v1/projects/{PROJECT}/serviceAccounts", {"accountId": spec.automation.service_account})
        if registry:
            at = f"/artifactregistry/v1/projects/{PROJECT}/locations/{spec.region}/repositories"
            self.ask("POST", f"{at}?repositoryId={names.registry}", {"format": "DOCKER"})

    def seconds(self, seconds: float) -> None:
        self.served.run(lambda cloud: cloud.services["cloudbuild"].configure({"seconds": seconds}))


@pytest.fixture(scope="module")
def small_sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with little in it."""
    folder = tmp_path_factory.mktemp("sources")
    for name in ("pyproject.toml", "README.md", "LICENSE", "deploy/Dockerfile", "src/sliceworks/a.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / "src" / "sliceworks" / "__pycache__").mkdir()
    (folder / "src" / "sliceworks" / "__pycache__" / "a.pyc").write_text("compiled")
    return folder


@pytest.fixture(scope="module")
def place(small_sources: Path) -> Iterator[Place]:
    with served_cloud() as served:
        yield Place(served, small_sources)


def test_what_is_missing_is_built_once(place: Place) -> None:
    saxml = example("saxml")
    place.prepare(saxml)
    builder = place.builder(saxml)
    assert builder.missing() == ["gateway", "converter", "load-worker"]
    place.seconds(1)
    begun = builder.begin()
    assert begun is not None
    assert discovery.problems("cloudbuild", "v1", "Build", begun.build) == []
    source = begun.build["source"]["storageSource"]
    kept = f"/storage/v1/b/{source['bucket']}/o/{source['object'].replace('/', '%2F')}"
    assert place.ask("GET", kept)["contentType"] == "application/gzip"
    assert builder.finish(begun, lambda _said: None) == [
        images.image(saxml, name) for name in ("gateway", "converter", "load-worker")
    ]
    assert (builder.missing(), builder.begin()) == ([], None)
    with pytest.raises(CloudNotFound):
        place.ask("GET", kept)


def test_whoever_comes_later_waits_for_the_build_that_goes_on(place: Place) -> None:
    service = example("self-service")
    place.prepare(service)
    place.seconds(86_400)
    builder = place.builder(service)
    begun, again = builder.begin(), builder.begin()
    assert begun is not None
    assert again is not None
    assert (again.build["id"], again.images) == (begun.build["id"], begun.images)
    place.ask("POST", f"/cloudbuild/v1/{begun.build['name']}:cancel", {})
    with pytest.raises(BuildFailed, match="ended with CANCELLED"):
        builder.finish(again, lambda _said: None)
    other = builder.begin()
    assert other is not None
    assert other.build["id"] != begun.build["id"]


def test_a_build_that_fails_says_why_and_the_next_one_goes_on(place: Place) -> None:
    triton = example("triton")
    place.prepare(triton, registry=False)
    place.seconds(1)
    builder = place.builder(triton)
    begun = builder.begin()
    assert begun is not None
    with pytest.raises(BuildFailed, match='ended with FAILURE: Repository "triton-images" not found') as caught:
        builder.finish(begun, lambda _said: None)
    assert f"its log: https://console.cloud.google.com/cloud-build/builds/{begun.build['id']}" in caught.value.hint
    at = f"/artifactregistry/v1/projects/{PROJECT}/locations/us-central1/repositories"
    place.ask("POST", f"{at}?repositoryId=triton-images", {"format": "DOCKER"})
    again = builder.begin()
    assert again is not None
    assert builder.finish(again, lambda _said: None) == [images.image(triton, "gateway")]


def test_without_sources_or_wishes_nothing_is_built(place: Place) -> None:
    assert Builder(example("training"), place.target, place.folder).begin() is None
    assert Builder(example("saxml"), place.target, None).begin() is None
    assert Builder(example("saxml"), place.target, None).names() == []


def test_the_same_sources_make_the_same_file(small_sources: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        sources.pack(small_sources, tmp_path / name)
        (small_sources / "src" / "sliceworks" / "a.py").touch()
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    with tarfile.open(tmp_path / "one") as packed:
        assert packed.getnames() == ["LICENSE", "README.md", "deploy/Dockerfile", "pyproject.toml", "src/sliceworks/a.py"]


def test_all_that_the_dockerfile_copies_is_packed(tmp_path: Path) -> None:
    assert sources.own() == ROOT
    sources.pack(ROOT, tmp_path / "all.tgz")
    with tarfile.open(tmp_path / "all.tgz") as packed:
        names = packed.getnames()
    for line in re.findall(r"(?m)^COPY (?!--from)(.+)$", (ROOT / images.DOCKERFILE).read_text()):
        for source in line.split()[:-1]:
            assert [name for name in names if name == source or name.startswith(f"{source.rstrip('/')}/")], source


def test_a_folder_without_our_sources_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no sources of Sliceworks"):
        sources.given(tmp_path)
