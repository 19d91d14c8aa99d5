"""Where release files come from: a folder that was given, what was fetched before, the place where they are published; or, beside
a twin, nowhere: it has JobSet and Kueue in it, and Config Connector's kinds come along."""

from __future__ import annotations

import urllib.error
import urllib.request
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from sliceworks.base.errors import SliceworksError
from sliceworks.infra.cluster.releases import sha256
from sliceworks.schemas import config_connector

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sliceworks.infra.cluster.releases import Release

Object = dict[str, Any]
_SECONDS = 60.0


class Shelf(Protocol):
    """Gives the objects of releases."""

    def objects(self, release: Release, checksums: Mapping[str, str]) -> tuple[list[Object], str]:
        """The objects, and the SHA-256 of the file that they are from; `checksums` are those of files fetched before, by title."""
        ...


@dataclass(frozen=True, slots=True)
class Files:
    """Files on this machine and on the internet. What is fetched is kept in `kept`."""

    kept: Path
    given: Path | None = None

    def objects(self, release: Release, checksums: Mapping[str, str]) -> tuple[list[Object], str]:
        """From the given folder, else as fetched before, else fetched now."""
        known = replace(release, checksum=release.checksum or checksums.get(release.title, ""))
        content = self._given(release)
        if content is None:
            content = self._kept(known)
        if content is None:
            content = _fetch(release)
            known.verify(content)
            self.kept.mkdir(parents=True, exist_ok=True)
            (self.kept / release.file).write_bytes(content)
        return known.objects(content), sha256(content)

    def _given(self, release: Release) -> bytes | None:
        if self.given is None:
            return None
        for name in (release.file, f"{release.name}-{release.version}.yaml", f"{release.name}.yaml"):
            if (self.given / name).is_file():
                return (self.given / name).read_bytes()
        raise SliceworksError(f"{self.given} has no {release.file}", hint=f"it is published at {release.url}")

    def _kept(self, release: Release) -> bytes | None:
        file = self.kept / release.file
        if not file.is_file():
            return None
        content = file.read_bytes()
        return content if not release.checksum or sha256(content) == release.checksum else None


@dataclass(frozen=True, slots=True)
class OfTheTwin:
    """What a twin needs: only the kinds of Config Connector, which are not in it from the start."""

    def objects(self, release: Release, checksums: Mapping[str, str]) -> tuple[list[Object], str]:
        """Definitions as a cluster with Config Connector has them."""
        if release.name != "config-connector":
            raise SliceworksError(f"this twin has no {release.name}", hint="it was started with --no-workloads: start it without")
        return [*config_connector.installation(), *config_connector.definitions()], ""


def _fetch(release: Release) -> bytes:
    try:
        with urllib.request.urlopen(release.url, timeout=_SECONDS) as answer:
            content: bytes = answer.read()
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise SliceworksError(
            f"{release.title} cannot be fetched from {release.url}: {reason}",
            hint=f"put the file into a folder as {release.file}, and give it with --manifests",
        ) from error
    return content
