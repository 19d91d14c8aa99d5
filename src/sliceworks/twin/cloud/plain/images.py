"""Images of Artifact Registry's repositories: which there are, by their tags. There is nothing in them: nothing runs from them."""

from __future__ import annotations

import hashlib
import re
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.base import clock
from sliceworks.twin.cloud.errors import not_found
from sliceworks.twin.cloud.plain.pages import page
from sliceworks.twin.cloud.routes import Call, Route
from sliceworks.twin.cloud.state import Document, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_REPOSITORY = "projects/{project}/locations/{location}/repositories/{repositories}"
_NAME = re.compile(
    r"(?P<location>[a-z0-9-]+)-docker\.pkg\.dev/(?P<project>[^/]+)/(?P<repository>[^/]+)/(?P<image>[^:@]+)(?::(?P<tag>[\w.-]+))?"
)


class Reference(NamedTuple):
    """What a name such as `us-central1-docker.pkg.dev/my-project/images/gateway:1` says."""

    location: str
    project: str
    repository: str
    image: str
    tag: str

    @property
    def path(self) -> str:
        """The repository, as its API calls it."""
        return f"projects/{self.project}/locations/{self.location}/repositories/{self.repository}"

    @property
    def digest(self) -> str:
        """The same for the same name: there is no content to take it from."""
        return f"sha256:{hashlib.sha256('/'.join(self).encode()).hexdigest()}"


def reference(name: str) -> Reference | None:
    """The parts of an image's name; None where it is not one of Artifact Registry's."""
    found = _NAME.fullmatch(name)
    return Reference(**{**found.groupdict(), "tag": found["tag"] or "latest"}) if found else None


class Images:
    """All images. One that is being built is there from a moment to come."""

    def __init__(self, store: Store) -> None:
        self._tags = Table(store, "artifactregistry/tags", "Tag")

    def push(self, image: Reference, build: str, since: str) -> None:
        """Have an image from that moment on. One of that tag that was there before goes on being there until then."""
        parent = f"{image.path}/packages/{image.image.replace('/', '%2F')}"
        before = self._tags.get(parent, image.tag)
        body = {"name": f"{parent}/tags/{image.tag}", "version": f"{parent}/versions/{image.digest}"}
        since = before.inner["since"] if before is not None and _there(before) else since
        self._tags.put(Document(parent, image.tag, body, {"since": since, "build": build, "repository": image.path}))

    def withdraw(self, build: str) -> None:
        """A build came to nothing: what it would have made does not come."""
        for each in [each for each in self._tags.all() if each.inner["build"] == build and not _there(each)]:
            self._tags.remove(each)

    def forget(self, repository: str) -> None:
        """A repository is gone, with all that was in it."""
        for each in [each for each in self._tags.all() if each.inner["repository"] == repository]:
            self._tags.remove(each)

    def routes(self) -> Iterator[Route]:
        """What there is, to read."""
        tags = f"{_REPOSITORY}/packages/{{package}}/tags"
        yield Route("GET", tags, "packages.tags.list", self.find_all, "artifactregistry.tags.list")
        yield Route("GET", f"{tags}/{{tag}}", "packages.tags.get", self.get, "artifactregistry.tags.get")
        yield Route("GET", f"{_REPOSITORY}/dockerImages", "dockerImages.list", self.images, "artifactregistry.dockerimages.list")

    def get(self, call: Call) -> Obj:
        """A tag of an image."""
        found = self._tags.get(_package(call), call.params["tag"])
        if found is None or not _there(found):
            raise not_found(f"{_package(call)}/tags/{call.params['tag']}")
        return found.body

    def find_all(self, call: Call) -> Obj:
        """All tags of an image."""
        found, more = page(call, filter(_there, self._tags.all(_package(call))))
        return {**({"tags": [each.body for each in found]} if found else {}), **more}

    def images(self, call: Call) -> Obj:
        """All images of a repository."""
        repository = _REPOSITORY.format_map(call.params)
        every = (each for each in self._tags.all() if each.inner["repository"] == repository and _there(each))
        found, more = page(call, every)
        return {**({"dockerImages": [_image(each) for each in found]} if found else {}), **more}


def _there(tag: Document) -> bool:
    return datetime.fromisoformat(tag.inner["since"]) <= clock.now()


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
