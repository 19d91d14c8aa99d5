"""Artifact Registry: repositories and their Docker images."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.base import clock
from sliceworks.twin.cloud.core.collection import Collection, ResourceType, name_from_query, paginate, with_name_and_times
from sliceworks.twin.cloud.core.document_store import Document, Table
from sliceworks.twin.cloud.core.exceptions import not_found
from sliceworks.twin.cloud.core.operations import LongRunningOperations
from sliceworks.twin.cloud.core.routes import Call, Route
from sliceworks.twin.cloud.core.service import RestService

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.twin.cloud.core.service import ServiceContext
    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_LOCATION = "projects/{project}/locations/{location}"
_REPOSITORY = f"{_LOCATION}/repositories/{{repositories}}"
_NAME = re.compile(
    r"(?P<location>[a-z0-9-]+)-docker\.pkg\.dev/(?P<project>[^/]+)/(?P<repository>[^/]+)/(?P<image>[^:@]+)(?::(?P<tag>[\w.-]+))?"
)


def create(context: ServiceContext) -> list[RestService]:
    """Create the service."""
    store = context.store
    images = DockerImages(store)
    operations = LongRunningOperations(store, "artifactregistry", "google.devtools.artifactregistry.v1.Repository")
    resource = ResourceType(
        "repositories",
        _LOCATION,
        "Repository",
        "artifactregistry.repositories",
        get_name=name_from_query("repositoryId", "repository_id"),
        fill=with_name_and_times(_repository),
        on_delete=images.delete_repository,
        has_update_mask=True,
        update_is_direct=True,
        has_policy=True,
    )
    repositories = Collection(store, "artifactregistry", resource, operations)
    return [RestService("artifactregistry", "v1", [*repositories.routes(), *operations.routes(), *images.routes()])]


def _repository(call: Call, path: str) -> Obj:
    _, project, _, location, _, name = path.split("/")
    return {
        "mode": "STANDARD_REPOSITORY",
        "sizeBytes": "0",
        "registryUri": f"{location}-docker.pkg.dev/{project}/{name}",
    }


class ImageReference(NamedTuple):
    """The parts of an image name such as `us-central1-docker.pkg.dev/my-project/images/gateway:1`."""

    location: str
    project: str
    repository: str
    image: str
    tag: str

    @property
    def path(self) -> str:
        """The resource name of the repository."""
        return f"projects/{self.project}/locations/{self.location}/repositories/{self.repository}"

    @property
    def digest(self) -> str:
        """A digest of the name, because images of the twin have no content."""
        return f"sha256:{hashlib.sha256('/'.join(self).encode()).hexdigest()}"


def parse_reference(name: str) -> ImageReference | None:
    """Parse an image name; None if it does not belong to Artifact Registry."""
    match = _NAME.fullmatch(name)
    return ImageReference(**{**match.groupdict(), "tag": match["tag"] or "latest"}) if match else None


class DockerImages:
    """The tags of all images. The tag of a running build becomes visible when the build ends."""

    def __init__(self, store: Store) -> None:
        self._tags = Table(store, "artifactregistry/tags", "Tag")
        self._repositories = Table(store, "artifactregistry/repositories", "Repository")

    def has_repository(self, path: str) -> bool:
        """Whether a repository exists."""
        parent, _, name = path.partition("/repositories/")
        return self._repositories.get(parent, name) is not None

    def push(self, image: ImageReference, build: str, since: str) -> None:
        """Add a tag that becomes visible at the time `since`; an existing tag stays visible until then."""
        parent = f"{image.path}/packages/{image.image.replace('/', '%2F')}"
        before = self._tags.get(parent, image.tag)
        body = {"name": f"{parent}/tags/{image.tag}", "version": f"{parent}/versions/{image.digest}"}
        since = before.inner["since"] if before is not None and _is_visible(before) else since
        self._tags.put(Document(parent, image.tag, body, {"since": since, "build": build, "repository": image.path}))

    def cancel_push(self, build: str) -> None:
        """Delete the tags of a build that are not visible yet."""
        for tag in [tag for tag in self._tags.all() if tag.inner["build"] == build and not _is_visible(tag)]:
            self._tags.delete(tag)

    def delete_repository(self, repository: str) -> None:
        """Delete the images of a deleted repository."""
        for tag in [tag for tag in self._tags.all() if tag.inner["repository"] == repository]:
            self._tags.delete(tag)

    def routes(self) -> Iterator[Route]:
        """Methods that read tags and images."""
        tags = f"{_REPOSITORY}/packages/{{package}}/tags"
        yield Route("GET", tags, "packages.tags.list", self.find_all, "artifactregistry.tags.list")
        yield Route("GET", f"{tags}/{{tag}}", "packages.tags.get", self.get, "artifactregistry.tags.get")
        yield Route(
            "GET", f"{_REPOSITORY}/dockerImages", "dockerImages.list", self.list_images, "artifactregistry.dockerimages.list"
        )

    def get(self, call: Call) -> Obj:
        """Return a tag of an image."""
        tag = self._tags.get(_package(call), call.params["tag"])
        if tag is None or not _is_visible(tag):
            raise not_found(f"{_package(call)}/tags/{call.params['tag']}")
        return tag.body

    def find_all(self, call: Call) -> Obj:
        """List the tags of an image."""
        page, token = paginate(call, filter(_is_visible, self._tags.all(_package(call))))
        return {**({"tags": [tag.body for tag in page]} if page else {}), **token}

    def list_images(self, call: Call) -> Obj:
        """List the images of a repository."""
        repository = _REPOSITORY.format_map(call.params)
        tags = (tag for tag in self._tags.all() if tag.inner["repository"] == repository and _is_visible(tag))
        page, token = paginate(call, tags)
        return {**({"dockerImages": [_image(tag) for tag in page]} if page else {}), **token}


def _is_visible(tag: Document) -> bool:
    return clock.seconds_until(tag.inner["since"]) <= 0


def _package(call: Call) -> str:
    return f"{_REPOSITORY.format_map(call.params)}/packages/{call.params['package'].replace('/', '%2F')}"


def _image(tag: Document) -> Obj:
    repository, digest = tag.inner["repository"], tag.body["version"].rpartition("/")[2]
    _, project, _, location, _, name = repository.split("/")
    image = tag.parent.rpartition("/")[2].replace("%2F", "/")
    return {
        "name": f"{repository}/dockerImages/{image}@{digest}",
        "uri": f"{location}-docker.pkg.dev/{project}/{name}/{image}@{digest}",
        "tags": [tag.name],
        "uploadTime": tag.inner["since"],
    }
