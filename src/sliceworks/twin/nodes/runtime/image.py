"""Images as programs of this machine: which pods run as processes, and what their containers execute."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.kube.pod_requests import all_containers

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

Obj = dict[str, Any]
_DEFAULT_REGISTRY = "docker.io"
_DEFAULT_REPOSITORY = "library"
_DEFAULT_TAG = "latest"


@dataclass(frozen=True, slots=True)
class Image:
    """What a container executes by default, and the files of this machine that it sees besides the machine's own."""

    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    working_dir: str = ""
    files: dict[str, Path] = field(default_factory=dict)
    missing: bool = False
    """It cannot be pulled."""

    def words(self, container: Obj) -> list[str]:
        """The command line of a container: as in Kubernetes, `command` replaces entrypoint and cmd, and `args` replaces cmd."""
        command, arguments = container.get("command") or (), container.get("args") or ()
        if command:
            return [*command, *arguments]
        return [*self.entrypoint, *(arguments or self.cmd)]


MACHINE = Image()
"""This machine as an image: containers need a command."""


class ImageMap:
    """The images that run as programs, by pattern; the first one that matches applies.

    In a pattern, `*` matches any characters. A pattern without tag matches all tags and digests.
    """

    def __init__(self, images: Iterable[tuple[str, Image]]) -> None:
        self._images = [(*_parse_pattern(pattern), image) for pattern, image in images]

    def find(self, reference: str) -> Image | None:
        """The image that a container's image refers to, or None."""
        name, tag, digest = _parse(reference)
        versions = {tag, digest, f"{tag}@{digest}"} - {""}
        for pattern, version, image in self._images:
            if _matches(pattern, name) and (version is None or any(_matches(version, item) for item in versions)):
                return image
        return None

    def runs(self, container: Obj) -> bool:
        """Whether a container runs as a process, or waits for an image that is missing: its image is mapped and gives a command."""
        image = self.find(container.get("image") or "")
        return image is not None and (image.missing or bool(image.words(container)))


def find_image(images: ImageMap | None, container: Obj) -> Image:
    """The image of a container; this machine without a map, or if its image is not mapped."""
    return (images and images.find(container.get("image") or "")) or MACHINE


def run_as_processes(images: ImageMap | None, spec: Obj) -> bool:
    """Whether all containers of a pod run as processes: without a map those with a command."""
    if images is None:
        return all(container.get("command") for container in all_containers(spec))
    return all(images.runs(container) for container in all_containers(spec))


def _parse(reference: str) -> tuple[str, str, str]:
    """Name with registry, tag and digest of an image."""
    name, _, digest = reference.partition("@")
    repository, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        repository, tag = name, ""
    host, separator, rest = repository.partition("/")
    if not separator and not host.startswith("*"):
        repository = f"{_DEFAULT_REGISTRY}/{_DEFAULT_REPOSITORY}/{repository}"
    elif host == _DEFAULT_REGISTRY and "/" not in rest:
        repository = f"{host}/{_DEFAULT_REPOSITORY}/{rest}"
    elif not (set(host) & {".", ":", "*"} or host == "localhost"):
        repository = f"{_DEFAULT_REGISTRY}/{repository}"
    return repository, tag or ("" if digest else _DEFAULT_TAG), digest


def _parse_pattern(pattern: str) -> tuple[str, str | None]:
    """The patterns of the name and of the tag or digest; None for all."""
    name, tag, digest = _parse(pattern)
    if digest:
        return name, f"{tag}@{digest}" if tag else digest
    has_tag = ":" in pattern.rpartition("/")[2]
    return name, tag if has_tag else None


def _matches(pattern: str, text: str) -> bool:
    """Whether a pattern with `*` matches, in linear time: clients choose the names of images."""
    first, *middle = pattern.split("*")
    if not middle:
        return text == pattern
    last, at = middle.pop(), len(first)
    end = len(text) - len(last)
    if at > end or not (text.startswith(first) and text.endswith(last)):
        return False
    for part in middle:
        start = text.find(part, at, end)
        if start < 0:
            return False
        at = start + len(part)
    return True
