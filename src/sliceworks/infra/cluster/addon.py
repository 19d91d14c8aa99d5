"""Pinned releases of JobSet, Kueue and Config Connector, where their files come from, and the steps of JobSet and Kueue."""

from __future__ import annotations

import copy
import hashlib
import io
import tarfile
import urllib.error
import urllib.request
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from sliceworks.base import yaml_documents
from sliceworks.base.errors import SliceworksError
from sliceworks.catalog import data
from sliceworks.infra.cluster.inventory import SYSTEM, KindsServed, Step, WebhookReady, availability_waits, build_namespace
from sliceworks.schemas import config_connector
from sliceworks.specs.environment.teams import Versions

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from sliceworks.specs.environment import EnvironmentSpec

Object = dict[str, Any]
_GITHUB = "https://github.com/kubernetes-sigs/{name}/releases/download/{version}/manifests.yaml"
_CONFIG_CONNECTOR = "https://storage.googleapis.com/configconnector-operator/{version}/release-bundle.tar.gz"
_OPERATOR = {"standard": "configconnector-operator.yaml", "autopilot": "autopilot-configconnector-operator.yaml"}


@dataclass(frozen=True, slots=True)
class Release:
    """A published release: its URL, its SHA-256 if known, and a kind that shows whether it is installed."""

    name: str
    version: str
    url: str
    checksum: str
    sign: tuple[str, str]
    member: str = ""
    """The file inside the archive, if the release is an archive."""

    @property
    def title(self) -> str:
        return f"{self.name} {self.version}"

    @property
    def file(self) -> str:
        """The file name in the cache."""
        return f"{self.name}-{self.version}{'.tar.gz' if self.member else '.yaml'}"

    def objects(self, content: bytes) -> list[Object]:
        """The objects of the file, after its checksum is verified."""
        self.verify(content)
        text = _member(content, self.member) if self.member and content[:2] == b"\x1f\x8b" else content
        documents = [document.data for document in yaml_documents.load_all(text.decode(), self.file)]
        return [obj for item in documents for obj in (item["items"] if item.get("kind") == "List" else [item])]

    def verify(self, content: bytes) -> None:
        """Raise if the checksum does not match."""
        digest = sha256(content)
        if self.checksum and digest != self.checksum:
            raise SliceworksError(
                f"{self.title}: SHA-256 is {digest}, expected {self.checksum}",
                hint=f"compare with {self.url}; if the new file is correct, set its checksum in spec.addons.checksums",
            )


def required_releases(spec: EnvironmentSpec) -> tuple[Release, ...]:
    """The releases that an environment installs, in order."""
    versions, checksums, releases = spec.addons.versions, spec.addons.checksums, list[Release]()
    if spec.addons.jobset:
        releases.append(_sig("jobset", versions.jobset, checksums.jobset, ("jobset.x-k8s.io/v1alpha2", "JobSet")))
    if spec.addons.kueue:
        releases.append(_sig("kueue", versions.kueue, checksums.kueue, ("kueue.x-k8s.io/v1beta2", "ClusterQueue")))
    if spec.self_service:
        version = versions.config_connector
        releases.append(
            Release(
                "config-connector",
                version,
                _CONFIG_CONNECTOR.format(version=version),
                checksums.config_connector,
                ("core.cnrm.cloud.google.com/v1beta1", "ConfigConnector"),
                _OPERATOR[spec.cluster.mode],
            )
        )
    return tuple(releases)


def release_url(name: str, kubernetes: str) -> str:
    """The file of the tested release of JobSet or Kueue, or of the last one that a minor version of Kubernetes accepts."""
    last = data.load("addon_releases")[name].get("lastOnKubernetes", {}).get(kubernetes)
    version = f"v{last}" if last else Versions.model_fields[name].default
    return _GITHUB.format(name=name, version=version)


def sha256(content: bytes) -> str:
    """The SHA-256 of a file as hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def _sig(name: str, version: str, checksum: str, sign: tuple[str, str]) -> Release:
    return Release(name, version, _GITHUB.format(name=name, version=version), checksum, sign)


def _member(content: bytes, name: str) -> bytes:
    """The file with this name in any folder of an archive."""
    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
            for entry in archive:
                if entry.isfile() and entry.name.rpartition("/")[2] == name:
                    stream = archive.extractfile(entry)
                    return stream.read() if stream else b""
    except (tarfile.TarError, EOFError, OSError) as error:
        raise SliceworksError(f"cannot read {name} from the archive: {error}") from error
    raise SliceworksError(f"{name} not found in the archive")


_SECONDS = 60.0


class ReleaseSource(Protocol):
    """Provides the objects of releases."""

    def objects(self, release: Release, checksums: Mapping[str, str]) -> tuple[list[Object], str]:
        """The objects and the SHA-256 of their file; `checksums` are those of earlier fetches, by title."""
        ...


@dataclass(frozen=True, slots=True)
class ReleaseFiles:
    """Release files from a folder, from the cache, or from the internet."""

    kept: Path
    given: Path | None = None

    def objects(self, release: Release, checksums: Mapping[str, str]) -> tuple[list[Object], str]:
        """From the given folder, else from the cache, else fetched."""
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
        raise SliceworksError(f"{release.file} not found in {self.given}", hint=f"download it from {release.url}")

    def _kept(self, release: Release) -> bytes | None:
        file = self.kept / release.file
        if not file.is_file():
            return None
        content = file.read_bytes()
        return content if not release.checksum or sha256(content) == release.checksum else None


@dataclass(frozen=True, slots=True)
class TwinReleases:
    """Releases on a twin: only Config Connector's CRDs, since the twin has JobSet and Kueue built in."""

    def objects(self, release: Release, checksums: Mapping[str, str]) -> tuple[list[Object], str]:
        """CustomResourceDefinitions of Config Connector."""
        if release.name != "config-connector":
            raise SliceworksError(f"this twin has no {release.name}", hint="it was started with --no-workloads: restart it without")
        return [*config_connector.operator_definitions(), *config_connector.definitions()], ""


def _fetch(release: Release) -> bytes:
    try:
        with urllib.request.urlopen(release.url, timeout=_SECONDS) as answer:
            content: bytes = answer.read()
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise SliceworksError(
            f"cannot fetch {release.title} from {release.url}: {reason}",
            hint=f"save the file as {release.file} in a folder, and pass the folder with --manifests",
        ) from error
    return content


KUEUE_CONFIG = ("kueue-system", "kueue-manager-config")
"""Namespace and name of the ConfigMap with Kueue's configuration."""

_FILE = "controller_manager_config.yaml"
_AMOUNTS = ("nominalQuota", "borrowingLimit", "lendingLimit")
_MARK = "sliceworks.dev/configuration"
_JOBSET = ("jobset.x-k8s.io/v1alpha2", "JobSet")
_KUEUE = tuple(("kueue.x-k8s.io/v1beta2", kind) for kind in ("ClusterQueue", "LocalQueue", "ResourceFlavor", "Workload"))
_KUEUE += (("kueue.x-k8s.io/v1beta2", "WorkloadPriorityClass"),)


def jobset_step(release: Sequence[Object]) -> Step:
    """JobSet; `release` is empty if the cluster already has it."""
    return Step(
        "jobset", tuple(release), (*availability_waits(release), KindsServed((_JOBSET,)), WebhookReady("JobSet", _job())), "Warn"
    )


def kueue_step(spec: EnvironmentSpec, release: Sequence[Object], *, configures: bool = True) -> Step:
    """Kueue with `waitForPodsReady`. A Kueue that others installed keeps its configuration."""
    waiting = _pods_ready_config(spec)
    objects = [_configured(item, waiting) for item in release] if release else kueue_configuration(spec) if configures else []
    mark = next((_text(obj) for obj in objects if _is_configuration(obj)), "")
    marked = tuple(_marked(obj, mark) for obj in objects)
    flavor = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {"name": "sliceworks-probe"},
        "spec": {},
    }
    return Step("kueue", marked, (*availability_waits(release), KindsServed(_KUEUE), WebhookReady("Kueue", flavor)), "Warn")


def queues_step(objects: Iterable[Object]) -> Step:
    """Queues of the teams, with quantities as strings: Kueue would convert numbers, which would show as a change."""
    return Step("queues", tuple(_with_string_quantities(item) if item["kind"] == "ClusterQueue" else item for item in objects))


def _with_string_quantities(queue: Object) -> Object:
    result = copy.deepcopy(queue)
    for group in result["spec"].get("resourceGroups") or ():
        for quota in (resource for flavor in group["flavors"] for resource in flavor["resources"]):
            quota.update({key: str(quota[key]) for key in _AMOUNTS if key in quota})
    return result


def _pods_ready_config(spec: EnvironmentSpec) -> Object:
    """Kueue's configuration for `readyWithin`. Evicted workloads go to the end of their queue."""
    within = spec.queues.ready_within
    if not within:
        return {}
    return {"waitForPodsReady": {"timeout": within, "blockAdmission": False, "requeuingStrategy": {"timestamp": "Eviction"}}}


def kueue_configuration(spec: EnvironmentSpec) -> list[Object]:
    """A configuration for an installed Kueue that has none; empty if Kueue's defaults apply."""
    waiting = _pods_ready_config(spec)
    if not waiting:
        return []
    place, name = KUEUE_CONFIG
    whole = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration", **waiting}
    metadata = {"name": name, "namespace": place}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {_FILE: yaml_documents.dump(whole)}}
    return [build_namespace(place), config]


def _configured(obj: Object, waiting: Object) -> Object:
    """The release's configuration merged with ours."""
    if not waiting or not _is_configuration(obj):
        return obj
    result = copy.deepcopy(obj)
    [document] = yaml_documents.load_all(_text(obj), _FILE)
    result["data"][_FILE] = yaml_documents.dump({**document.data, **waiting})
    return result


def _marked(obj: Object, mark: str) -> Object:
    """Annotate a Deployment with a hash of the configuration, so that a change restarts it: Kueue reads it once."""
    if obj["kind"] != "Deployment" or not mark:
        return obj
    result = copy.deepcopy(obj)
    metadata = result["spec"]["template"].setdefault("metadata", {})
    metadata["annotations"] = {**(metadata.get("annotations") or {}), _MARK: sha256(mark.encode())[:16]}
    return result


def _is_configuration(obj: Mapping[str, Any]) -> bool:
    metadata = obj["metadata"]
    return obj["kind"] == "ConfigMap" and (metadata.get("namespace"), metadata["name"]) == KUEUE_CONFIG


def _text(config_map: Mapping[str, Any]) -> str:
    return str((config_map.get("data") or {}).get(_FILE, ""))


def _job() -> Object:
    """A JobSet for dry-run creation only."""
    container = {"name": "probe", "image": "registry.k8s.io/pause:3.10"}
    pod = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    jobs = [{"name": "probe", "template": {"spec": {"template": pod}}}]
    metadata = {"name": "sliceworks-probe", "namespace": SYSTEM}
    return {"apiVersion": _JOBSET[0], "kind": _JOBSET[1], "metadata": metadata, "spec": {"replicatedJobs": jobs, "suspend": True}}
