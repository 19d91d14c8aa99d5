"""Reads and merges kubeconfig files as kubectl does, and turns a context into a Connection."""

from __future__ import annotations

import base64
import binascii
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import orjson

from sliceworks.base.errors import InvalidDocument, SliceworksError, UsageError
from sliceworks.base.files import find_home
from sliceworks.kube.connection import (
    Certificate,
    Connection,
    Credentials,
    StaticCredentials,
    TokenFile,
    basic_header,
    bearer_header,
    in_cluster_connection,
    is_in_cluster,
    read_file,
)

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Entry:
    """One cluster, user or context, and its file, which relative paths refer to."""

    kind: str
    name: str
    value: Mapping[str, Any]
    file: Path

    def error(self, message: str, hint: str = "") -> InvalidDocument:
        """The error of an invalid entry."""
        return InvalidDocument(f'{self.kind} "{self.name}": {message}', place=str(self.file), hint=hint)


@dataclass(slots=True)
class Kubeconfig:
    """Merged kubeconfig files; the first entry of a name wins."""

    clusters: dict[str, Entry] = field(default_factory=dict)
    users: dict[str, Entry] = field(default_factory=dict)
    contexts: dict[str, Entry] = field(default_factory=dict)
    current_context: str = ""
    files: tuple[Path, ...] = ()

    def connection(self, context: str | None = None) -> Connection:
        """The connection of a context (default: the current one)."""
        entry = self._context(context)
        cluster = self._referenced(entry, "cluster", self.clusters)
        if cluster is None:
            raise entry.error("cluster is required")
        user = self._referenced(entry, "user", self.users)
        namespace = entry.value.get("namespace") or "default"
        return Connection(namespace=namespace, credentials=_credentials_of(user, cluster), **_cluster_fields(cluster))

    def _context(self, name: str | None) -> Entry:
        name = name or self.current_context
        if not name:
            raise UsageError(f"current-context is not set in {self._file_names()}", hint="choose a context with --context")
        entry = self.contexts.get(name)
        if entry is None:
            known = ", ".join(sorted(self.contexts)) or "none"
            raise UsageError(f'context "{name}" does not exist in {self._file_names()}', hint=f"known contexts: {known}")
        return entry

    def _referenced(self, context: Entry, what: str, entries: dict[str, Entry]) -> Entry | None:
        name = context.value.get(what)
        if not name:
            return None
        if name not in entries:
            raise context.error(f'{what} "{name}" does not exist')
        return entries[name]

    def _file_names(self) -> str:
        return ", ".join(map(str, self.files)) or "any kubeconfig"


def connect(path: str | Path | None = None, context: str | None = None) -> Connection:
    """The connection from the given file, $KUBECONFIG, ~/.kube/config or the in-cluster service account, in this order."""
    config = load(path)
    if not config.files and path is None:
        if is_in_cluster():
            return in_cluster_connection()
        raise SliceworksError(
            "no cluster is configured: neither $KUBECONFIG nor ~/.kube/config exists",
            hint="set KUBECONFIG, or start a local cluster: sliceworks twin start",
        )
    return config.connection(context)


def load(path: str | Path | None = None, environ: Mapping[str, str] = os.environ) -> Kubeconfig:
    """Read the given file, or those of $KUBECONFIG, or ~/.kube/config. Only a given file must exist."""
    if path is not None:
        return merge([_read(Path(path).expanduser())])
    listed = [Path(part) for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    home = find_home()
    files = listed or ([home / ".kube" / "config"] if home else [])
    return merge([_read(file) for file in files if file.exists()])


def merge(configs: list[Kubeconfig]) -> Kubeconfig:
    """Merge kubeconfigs; the first entry of a name wins."""
    merged = Kubeconfig()
    for config in configs:
        merged.clusters = {**config.clusters, **merged.clusters}
        merged.users = {**config.users, **merged.users}
        merged.contexts = {**config.contexts, **merged.contexts}
        merged.current_context = merged.current_context or config.current_context
        merged.files += config.files
    return merged


def parse(text: str, file: Path) -> Kubeconfig:
    """Parse one kubeconfig; `file` is its path, for errors and relative paths."""
    from sliceworks.base import yaml_documents

    documents = yaml_documents.load_all(text, str(file))
    if len(documents) > 1:
        raise InvalidDocument(f"expected one kubeconfig, found {len(documents)} documents", place=str(file))
    document = documents[0].data if documents else {}
    return Kubeconfig(
        clusters=_entries(document, "clusters", "cluster", file),
        users=_entries(document, "users", "user", file),
        contexts=_entries(document, "contexts", "context", file),
        current_context=str(document.get("current-context") or ""),
        files=(file,),
    )


def render(*, name: str, server: str, token: str, ca: bytes, namespace: str = "default") -> str:
    """A kubeconfig with one context."""
    # A template with JSON strings: importing a YAML library would slow down the start of a twin.
    values = {"name": name, "server": server, "token": token, "ca": base64.b64encode(ca).decode(), "namespace": namespace}
    return _TEMPLATE.format(**{key: orjson.dumps(value).decode() for key, value in values.items()})


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
        reason = error.strerror if isinstance(error, OSError) else "not valid UTF-8"
        raise SliceworksError(f"cannot read kubeconfig {file}: {reason}") from error
    return parse(text, file)


def _entries(document: Mapping[str, Any], plural: str, singular: str, file: Path) -> dict[str, Entry]:
    listed = document.get(plural) or []
    if not isinstance(listed, list):
        raise InvalidDocument(f"{plural} must be a list", place=str(file))
    entries: dict[str, Entry] = {}
    for item in listed:
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            raise InvalidDocument(f"{plural}: every entry needs a name", place=str(file))
        value = item.get(singular) or {}
        if not isinstance(value, dict):
            raise InvalidDocument(f'{singular} "{item["name"]}" must be a mapping', place=str(file))
        entries.setdefault(item["name"], Entry(singular, item["name"], value, file))
    return entries


class _ClusterFields(TypedDict):
    """The fields of a Connection that come from a cluster entry."""

    server: str
    ca: bytes | None
    insecure: bool
    tls_server_name: str
    proxy_url: str
    compress: bool


def _cluster_fields(cluster: Entry) -> _ClusterFields:
    """The Connection fields of a cluster entry."""
    server = _string(cluster, "server")
    if not server:
        raise cluster.error("server is required")
    if "://" not in server:
        server = f"https://{server}"
    insecure = bool(cluster.value.get("insecure-skip-tls-verify"))
    ca = _pem(cluster, "certificate-authority")
    if insecure and ca is not None:
        raise cluster.error("certificate-authority and insecure-skip-tls-verify are mutually exclusive")
    return {
        "server": server.rstrip("/"),
        "ca": ca,
        "insecure": insecure,
        "tls_server_name": _string(cluster, "tls-server-name"),
        "proxy_url": _string(cluster, "proxy-url"),
        "compress": not cluster.value.get("disable-compression"),
    }


def _credentials_of(user: Entry | None, cluster: Entry) -> Credentials:
    """The credentials of a user entry, in kubectl's order of precedence. A certificate is combined with a token file, token or
    password."""
    if user is None:
        return StaticCredentials()
    if provider := user.value.get("auth-provider"):
        name = provider.get("name", "") if isinstance(provider, dict) else provider
        raise user.error(
            f"auth-provider {name} is no longer supported by Kubernetes",
            "generate the kubeconfig again with your cloud's CLI; it will use an exec plugin",
        )
    certificate = _certificate(user)
    impersonation = _impersonation(user)
    if token_file := _string(user, "tokenFile"):
        return TokenFile(_path(user, token_file), impersonation, certificate)
    if token := _string(user, "token"):
        return StaticCredentials({**impersonation, **bearer_header(token)}, certificate)
    if username := _string(user, "username"):
        return StaticCredentials({**impersonation, **basic_header(username, _string(user, "password"))}, certificate)
    if user.value.get("exec"):
        return _exec_credentials(user, cluster, impersonation)
    return StaticCredentials(impersonation, certificate)


def _exec_credentials(user: Entry, cluster: Entry, extra_headers: Mapping[str, str]) -> Credentials:
    from sliceworks.kube.exec_plugin import API_VERSIONS, ExecCredentials, Plugin

    spec = user.value["exec"]
    if not isinstance(spec, dict) or not isinstance(spec.get("command"), str):
        raise user.error("exec.command is required")
    api_version = spec.get("apiVersion")
    if api_version not in API_VERSIONS:
        raise user.error(f"exec.apiVersion {api_version} is not supported", f"supported: {', '.join(API_VERSIONS)}")
    mode = spec.get("interactiveMode") or ("IfAvailable" if api_version.endswith("v1beta1") else "")
    if mode not in ("Never", "IfAvailable", "Always"):
        raise user.error("exec.interactiveMode must be Never, IfAvailable or Always")
    command = spec["command"]
    plugin = Plugin(
        # A path with a slash is relative to the kubeconfig; a bare name is looked up in PATH.
        command=str(_path(user, command)) if "/" in command else command,
        args=tuple(map(str, spec.get("args") or ())),
        env={item["name"]: str(item["value"]) for item in spec.get("env") or ()},
        api_version=api_version,
        interactive_mode=mode,
        install_hint=spec.get("installHint") or "",
        cluster=_exec_cluster(cluster) if spec.get("provideClusterInfo") else None,
    )
    return ExecCredentials(plugin, extra_headers)


def _exec_cluster(cluster: Entry) -> dict[str, Any]:
    fields = _cluster_fields(cluster)
    info: dict[str, Any] = {"server": fields["server"]}
    if fields["tls_server_name"]:
        info["tls-server-name"] = fields["tls_server_name"]
    if fields["insecure"]:
        info["insecure-skip-tls-verify"] = True
    if fields["ca"] is not None:
        info["certificate-authority-data"] = base64.b64encode(fields["ca"]).decode()
    if fields["proxy_url"]:
        info["proxy-url"] = fields["proxy_url"]
    for extension in cluster.value.get("extensions") or ():
        if extension.get("name") == "client.authentication.k8s.io/exec":
            info["config"] = extension.get("extension")
    return info


def _certificate(user: Entry) -> Certificate | None:
    certificate, key = _pem(user, "client-certificate"), _pem(user, "client-key")
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        missing = "client-certificate" if certificate is None else "client-key"
        raise user.error(f"{missing} is required, as client-certificate and client-key must be set together")
    return Certificate(certificate, key)


def _impersonation(user: Entry) -> dict[str, str]:
    headers = {"impersonate-user": _string(user, "as"), "impersonate-uid": _string(user, "as-uid")}
    if groups := user.value.get("as-groups"):
        if len(groups) > 1:
            raise user.error(f"as-groups must have at most one group, got {len(groups)}")
        headers["impersonate-group"] = groups[0]
    return {name: value for name, value in headers.items() if value}


def _pem(entry: Entry, name: str) -> bytes | None:
    if data := _string(entry, f"{name}-data"):
        try:
            return base64.b64decode(data, validate=True)
        except binascii.Error as error:
            raise entry.error(f"{name}-data is not valid base64") from error
    if file := _string(entry, name):
        return read_file(_path(entry, file), name)
    return None


def _path(entry: Entry, path: str) -> Path:
    return entry.file.parent / path


def _string(entry: Entry, name: str) -> str:
    value = entry.value.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise entry.error(f"{name} must be a string")
    return value
