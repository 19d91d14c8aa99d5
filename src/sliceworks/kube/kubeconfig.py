"""kubeconfig files: read, merged as kubectl merges them, and turned into a Connection. The user's own are never written."""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import folders
from sliceworks.base.errors import InvalidDocument, SliceworksError, UsageError
from sliceworks.kube.connection import Connection
from sliceworks.kube.in_cluster import in_cluster, is_in_cluster
from sliceworks.kube.kubeconfig_entries import cluster_fields, credentials_of

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Entry:
    """One cluster, user or context, and the file it stands in: paths are relative to that."""

    name: str
    value: Mapping[str, Any]
    file: Path


@dataclass(slots=True)
class Kubeconfig:
    """What all files together say; where two name the same thing, the first wins."""

    clusters: dict[str, Entry] = field(default_factory=dict)
    users: dict[str, Entry] = field(default_factory=dict)
    contexts: dict[str, Entry] = field(default_factory=dict)
    current_context: str = ""
    files: tuple[Path, ...] = ()

    def connection(self, context: str | None = None) -> Connection:
        """The connection of a context: the current one unless named."""
        chosen = self._context(context)
        cluster = self._part(chosen, "cluster", self.clusters)
        if cluster is None:
            raise InvalidDocument(f'context "{chosen.name}" names no cluster', place=str(chosen.file))
        user = self._part(chosen, "user", self.users)
        namespace = chosen.value.get("namespace") or "default"
        return Connection(namespace=namespace, credentials=credentials_of(user, cluster), **cluster_fields(cluster))

    def _context(self, name: str | None) -> Entry:
        wanted = name or self.current_context
        if not wanted:
            raise UsageError(f"no current-context in {self._places()}", hint="name one with --context")
        entry = self.contexts.get(wanted)
        if entry is None:
            known = ", ".join(sorted(self.contexts)) or "none"
            raise UsageError(f'context "{wanted}" does not exist in {self._places()}', hint=f"known contexts: {known}")
        return entry

    def _part(self, context: Entry, what: str, entries: dict[str, Entry]) -> Entry | None:
        name = context.value.get(what)
        if not name:
            return None
        if name not in entries:
            raise InvalidDocument(
                f'context "{context.name}" names the {what} "{name}", which does not exist', place=str(context.file)
            )
        return entries[name]

    def _places(self) -> str:
        return ", ".join(map(str, self.files)) or "any kubeconfig"


def connect(path: str | Path | None = None, context: str | None = None) -> Connection:
    """The connection a person means: the file named, $KUBECONFIG, ~/.kube/config, or the pod this runs in."""
    config = load(path)
    if not config.files and path is None:
        if is_in_cluster():
            return in_cluster()
        raise SliceworksError(
            "no cluster is configured: neither $KUBECONFIG nor ~/.kube/config exists",
            hint="let KUBECONFIG name one, or start a cluster here: sliceworks twin start",
        )
    return config.connection(context)


def load(path: str | Path | None = None, environ: Mapping[str, str] = os.environ) -> Kubeconfig:
    """Read the file named, or those of $KUBECONFIG, or the one in the home folder. Only a named file must exist."""
    if path is not None:
        return merge([_read(Path(path).expanduser())])
    listed = [Path(part) for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    own = folders.home()
    files = listed or ([own / ".kube" / "config"] if own else [])
    return merge([_read(file) for file in files if file.exists()])


def merge(configs: list[Kubeconfig]) -> Kubeconfig:
    """All of them as one: the first that names a thing has it."""
    merged = Kubeconfig()
    for config in configs:
        merged.clusters = {**config.clusters, **merged.clusters}
        merged.users = {**config.users, **merged.users}
        merged.contexts = {**config.contexts, **merged.contexts}
        merged.current_context = merged.current_context or config.current_context
        merged.files += config.files
    return merged


def parse(text: str, file: Path) -> Kubeconfig:
    """Read one kubeconfig; `file` is where it stands."""
    import yaml

    try:
        document = yaml.load(text, yaml.CSafeLoader) or {}
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise InvalidDocument(str(error.problem), place=f"{file}:{line}") from error
    except yaml.YAMLError as error:
        raise InvalidDocument("this is no YAML", place=str(file)) from error
    if not isinstance(document, dict):
        raise InvalidDocument("a kubeconfig is a map with clusters, users and contexts", place=str(file))
    return Kubeconfig(
        clusters=_entries(document, "clusters", "cluster", file),
        users=_entries(document, "users", "user", file),
        contexts=_entries(document, "contexts", "context", file),
        current_context=str(document.get("current-context") or ""),
        files=(file,),
    )


def render(*, name: str, server: str, token: str, ca: bytes, namespace: str = "default") -> str:
    """A kubeconfig with one context, for a cluster of ours such as the twin."""
    # Written by hand, quoted as JSON quotes: a twin that starts has no time to load a YAML library.
    given = {"name": name, "server": server, "token": token, "ca": base64.b64encode(ca).decode(), "namespace": namespace}
    return _TEMPLATE.format(**{key: orjson.dumps(value).decode() for key, value in given.items()})


_TEMPLATE = """\
apiVersion: v1
kind: Config
clusters:
- name: {name}
  cluster:
    server: {server}
    certificate-authority-data: {ca}
users:
- name: {name}
  user:
    token: {token}
contexts:
- name: {name}
  context:
    cluster: {name}
    user: {name}
    namespace: {namespace}
current-context: {name}
"""


def _read(file: Path) -> Kubeconfig:
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise SliceworksError(f"cannot read the kubeconfig {file}: {reason}") from error
    return parse(text, file)


def _entries(document: Mapping[str, Any], plural: str, singular: str, file: Path) -> dict[str, Entry]:
    listed = document.get(plural) or []
    if not isinstance(listed, list):
        raise InvalidDocument(f"{plural} must be a list", place=str(file))
    entries: dict[str, Entry] = {}
    for item in listed:
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            raise InvalidDocument(f"each of {plural} needs a name", place=str(file))
        value = item.get(singular) or {}
        if not isinstance(value, dict):
            raise InvalidDocument(f'{singular} "{item["name"]}" must be a map', place=str(file))
        entries.setdefault(item["name"], Entry(item["name"], value, file))
    return entries
