"""The clusters and users of a kubeconfig, read into what a Connection needs."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, TypedDict

from sliceworks.base.errors import InvalidDocument
from sliceworks.kube.connection import Certificate, Credentials, Fixed, TokenFile, basic, bearer, read_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sliceworks.kube.kubeconfig import Entry


class ClusterFields(TypedDict):
    """What a cluster says about its connection."""

    server: str
    ca: bytes | None
    insecure: bool
    tls_server_name: str
    proxy_url: str
    compress: bool


def cluster_fields(cluster: Entry) -> ClusterFields:
    """Where a cluster is and whom to trust there."""
    server = _text(cluster, "server")
    if not server:
        raise InvalidDocument(f'cluster "{cluster.name}" has no server', place=str(cluster.file))
    if "://" not in server:
        server = f"https://{server}"
    insecure = bool(cluster.value.get("insecure-skip-tls-verify"))
    ca = _pem(cluster, "certificate-authority")
    if insecure and ca is not None:
        raise InvalidDocument(
            f'cluster "{cluster.name}" both names a certificate authority and skips checking it', place=str(cluster.file)
        )
    return {
        "server": server.rstrip("/"),
        "ca": ca,
        "insecure": insecure,
        "tls_server_name": _text(cluster, "tls-server-name"),
        "proxy_url": _text(cluster, "proxy-url"),
        "compress": not cluster.value.get("disable-compression"),
    }


def credentials_of(user: Entry | None, cluster: Entry) -> Credentials:
    """Who to be, in the order kubectl looks: a certificate goes along with any of token file, token, password or plugin."""
    if user is None:
        return Fixed()
    if provider := user.value.get("auth-provider"):
        name = provider.get("name", "") if isinstance(provider, dict) else provider
        raise InvalidDocument(
            f'user "{user.name}" needs the auth-provider {name}, which Kubernetes no longer has',
            place=str(user.file),
            hint="let your cloud's command write the kubeconfig again: it will name an exec plugin",
        )
    certificate = _certificate(user)
    impersonation = _impersonation(user)
    if token_file := _text(user, "tokenFile"):
        return TokenFile(_path(user, token_file), impersonation, certificate)
    if token := _text(user, "token"):
        return Fixed({**impersonation, **bearer(token)}, certificate)
    if username := _text(user, "username"):
        return Fixed({**impersonation, **basic(username, _text(user, "password"))}, certificate)
    if user.value.get("exec"):
        return _exec(user, cluster, impersonation)
    return Fixed(impersonation, certificate)


def _exec(user: Entry, cluster: Entry, others: Mapping[str, str]) -> Credentials:
    from sliceworks.kube.exec_plugin import API_VERSIONS, ExecCredentials, Plugin

    spec = user.value["exec"]
    place = str(user.file)
    if not isinstance(spec, dict) or not isinstance(spec.get("command"), str):
        raise InvalidDocument(f'user "{user.name}" has an exec without a command', place=place)
    api_version = spec.get("apiVersion")
    if api_version not in API_VERSIONS:
        raise InvalidDocument(
            f'user "{user.name}" asks for exec credentials in {api_version}', place=place, hint=f"known: {API_VERSIONS}"
        )
    mode = spec.get("interactiveMode") or ("IfAvailable" if api_version.endswith("v1beta1") else "")
    if mode not in ("Never", "IfAvailable", "Always"):
        raise InvalidDocument(f'user "{user.name}": exec.interactiveMode must be Never, IfAvailable or Always', place=place)
    command = spec["command"]
    plugin = Plugin(
        # A path with a slash is meant from the kubeconfig's folder; a bare name is looked for on the PATH.
        command=str(_path(user, command)) if "/" in command else command,
        args=tuple(map(str, spec.get("args") or ())),
        env={item["name"]: str(item["value"]) for item in spec.get("env") or ()},
        api_version=api_version,
        interactive_mode=mode,
        install_hint=spec.get("installHint") or "",
        cluster=_told_to_plugin(cluster) if spec.get("provideClusterInfo") else None,
    )
    return ExecCredentials(plugin, others)


def _told_to_plugin(cluster: Entry) -> dict[str, Any]:
    fields = cluster_fields(cluster)
    told: dict[str, Any] = {"server": fields["server"]}
    if fields["tls_server_name"]:
        told["tls-server-name"] = fields["tls_server_name"]
    if fields["insecure"]:
        told["insecure-skip-tls-verify"] = True
    if fields["ca"] is not None:
        told["certificate-authority-data"] = base64.b64encode(fields["ca"]).decode()
    if fields["proxy_url"]:
        told["proxy-url"] = fields["proxy_url"]
    for extension in cluster.value.get("extensions") or ():
        if extension.get("name") == "client.authentication.k8s.io/exec":
            told["config"] = extension.get("extension")
    return told


def _certificate(user: Entry) -> Certificate | None:
    certificate, key = _pem(user, "client-certificate"), _pem(user, "client-key")
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        missing = "client-certificate" if certificate is None else "client-key"
        raise InvalidDocument(f'user "{user.name}" has no {missing} to go with the other half', place=str(user.file))
    return Certificate(certificate, key)


def _impersonation(user: Entry) -> dict[str, str]:
    headers = {"impersonate-user": _text(user, "as"), "impersonate-uid": _text(user, "as-uid")}
    if groups := user.value.get("as-groups"):
        if len(groups) > 1:
            raise InvalidDocument(f'user "{user.name}" impersonates more than one group; name one', place=str(user.file))
        headers["impersonate-group"] = groups[0]
    return {name: value for name, value in headers.items() if value}


def _pem(entry: Entry, name: str) -> bytes | None:
    if data := _text(entry, f"{name}-data"):
        try:
            return base64.b64decode(data, validate=True)
        except binascii.Error as error:
            raise InvalidDocument(f'{name}-data of "{entry.name}" is not base64', place=str(entry.file)) from error
    if file := _text(entry, name):
        return read_file(_path(entry, file), name)
    return None


def _path(entry: Entry, text: str) -> Path:
    return entry.file.parent / text


def _text(entry: Entry, name: str) -> str:
    value = entry.value.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidDocument(f'{name} of "{entry.name}" must be a text', place=str(entry.file))
    return value
