"""What others publish and an environment installs: JobSet, Kueue and Config Connector's operator, each at a pinned version. Pure.

None of it is part of this project: its files are fetched when they are first needed, or given in a folder. They are kept beside
the environment, and a file that is not the one that was fetched first, or that the document names by its SHA-256, is refused.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base import yamls
from sliceworks.base.errors import SliceworksError

if TYPE_CHECKING:
    from sliceworks.specs.environment import EnvironmentSpec

Object = dict[str, Any]
_GITHUB = "https://github.com/kubernetes-sigs/{name}/releases/download/{version}/manifests.yaml"
_CONFIG_CONNECTOR = "https://storage.googleapis.com/configconnector-operator/{version}/release-bundle.tar.gz"
_OPERATOR = {"standard": "configconnector-operator.yaml", "autopilot": "autopilot-configconnector-operator.yaml"}


@dataclass(frozen=True, slots=True)
class Release:
    """One of them: where it is published, the file's SHA-256 where it is known, and a kind by which it is known to be there."""

    name: str
    version: str
    url: str
    checksum: str
    sign: tuple[str, str]
    member: str = ""
    """The file that is meant, where what is published is an archive."""

    @property
    def title(self) -> str:
        return f"{self.name} {self.version}"

    @property
    def file(self) -> str:
        """What the file is called where it is kept."""
        return f"{self.name}-{self.version}{'.tar.gz' if self.member else '.yaml'}"

    def objects(self, content: bytes) -> list[Object]:
        """The objects in the file, once it is known to be the right one."""
        self.verify(content)
        text = _member(content, self.member) if self.member and content[:2] == b"\x1f\x8b" else content
        found = [document.data for document in yamls.load_all(text.decode(), self.file)]
        return [each for one in found for each in (one["items"] if one.get("kind") == "List" else [one])]

    def verify(self, content: bytes) -> None:
        """Refuse a file that is not the one that was meant."""
        seen = sha256(content)
        if self.checksum and seen != self.checksum:
            raise SliceworksError(
                f"{self.title}: the file's SHA-256 is {seen}, and should be {self.checksum}",
                hint=f"compare with {self.url}; when the new file is right, say so in spec.addons.checksums",
            )


def releases(spec: EnvironmentSpec) -> tuple[Release, ...]:
    """What an environment installs, first to last."""
    versions, checksums, found = spec.addons.versions, spec.addons.checksums, list[Release]()
    if spec.addons.jobset:
        found.append(_sig("jobset", versions.jobset, checksums.jobset, ("jobset.x-k8s.io/v1alpha2", "JobSet")))
    if spec.addons.kueue:
        found.append(_sig("kueue", versions.kueue, checksums.kueue, ("kueue.x-k8s.io/v1beta2", "ClusterQueue")))
    if spec.self_service:
        version = versions.config_connector
        found.append(
            Release(
                "config-connector",
                version,
                _CONFIG_CONNECTOR.format(version=version),
                checksums.config_connector,
                ("core.cnrm.cloud.google.com/v1beta1", "ConfigConnector"),
                _OPERATOR[spec.cluster.mode],
            )
        )
    return tuple(found)


def sha256(content: bytes) -> str:
    """A file's SHA-256, as it is written down."""
    return hashlib.sha256(content).hexdigest()


def _sig(name: str, version: str, checksum: str, sign: tuple[str, str]) -> Release:
    return Release(name, version, _GITHUB.format(name=name, version=version), checksum, sign)


def _member(content: bytes, name: str) -> bytes:
    """A file of an archive, wherever in it."""
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
            for entry in archive:
                if entry.isfile() and entry.name.rpartition("/")[2] == name:
                    stream = archive.extractfile(entry)
                    return stream.read() if stream else b""
    except (tarfile.TarError, EOFError, OSError) as error:
        raise SliceworksError(f"the archive that has {name} cannot be read: {error}") from error
    raise SliceworksError(f"the archive has no {name}")
