"""Credentials from an exec plugin such as gke-gcloud-auth-plugin, cached until they expire or are rejected."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.kube.connection import Certificate, bearer_header

if TYPE_CHECKING:
    from collections.abc import Mapping

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


@dataclass(frozen=True, slots=True)
class Plugin:
    """The `exec` section of a kubeconfig user. `cluster` is set if provideClusterInfo is."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    api_version: str = API_VERSIONS[0]
    interactive_mode: str = "IfAvailable"
    install_hint: str = ""
    cluster: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class _Credential:
    headers: Mapping[str, str]
    certificate: Certificate | None
    expires: datetime | None


class ExecCredentials:
    """Runs the plugin at first use, again after `expirationTimestamp`, and again after a 401."""

    def __init__(self, plugin: Plugin, extra_headers: Mapping[str, str] | None = None) -> None:
        self._plugin = plugin
        self._extra_headers = dict(extra_headers or {})
        self._credential: _Credential | None = None
        self._lock = asyncio.Lock()

    async def headers(self) -> Mapping[str, str]:
        return (await self._current()).headers

    async def certificate(self) -> Certificate | None:
        return (await self._current()).certificate

    async def invalidate(self) -> bool:
        rejected = self._credential
        async with self._lock:
            if self._credential is rejected:
                self._credential = None
        return True

    async def _current(self) -> _Credential:
        if self._credential is None or _is_expired(self._credential):
            async with self._lock:
                if self._credential is None or _is_expired(self._credential):
                    self._credential = self._parse(await _run(self._plugin))
        return self._credential

    def _parse(self, output: bytes) -> _Credential:
        command = self._plugin.command
        try:
            output_object = orjson.loads(output)
            status = output_object["status"]
            token, certificate = status.get("token"), status.get("clientCertificateData")
            key, expires = status.get("clientKeyData"), _parse_time(status.get("expirationTimestamp"))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SliceworksError(f"{command} did not print an ExecCredential with a status") from error
        if (api_version := output_object.get("apiVersion")) != self._plugin.api_version:
            raise SliceworksError(f"{command} returned apiVersion {api_version}, expected {self._plugin.api_version}")
        if not token and not (certificate and key):
            raise SliceworksError(f"{command} returned neither a token nor a client certificate with its key")
        return _Credential(
            {**self._extra_headers, **(bearer_header(token) if token else {})},
            Certificate(certificate.encode(), key.encode()) if certificate and key else None,
            expires,
        )


async def _run(plugin: Plugin) -> bytes:
    interactive = _is_interactive(plugin)
    spec: dict[str, Any] = {"interactive": interactive}
    if plugin.cluster is not None:
        spec["cluster"] = plugin.cluster
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    environ = {**os.environ, **plugin.env, "KUBERNETES_EXEC_INFO": orjson.dumps(info).decode()}
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            env=environ,
            stdin=None if interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=None if interactive else asyncio.subprocess.PIPE,
        )
    except OSError as error:
        hint = plugin.install_hint.strip() or f"install {plugin.command}, or correct users[].user.exec.command in the kubeconfig"
        raise SliceworksError(f"cannot run credential plugin {plugin.command}: {error.strerror}", hint=hint) from error
    try:
        output, stderr = await process.communicate()
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):  # it may have exited meanwhile
            process.kill()
        await process.wait()
        raise
    if process.returncode:
        lines = (stderr or b"").decode(errors="replace").strip().splitlines()
        detail = f": {lines[-1]}" if lines else ""
        raise SliceworksError(f"credential plugin {plugin.command} failed with exit code {process.returncode}{detail}")
    return output


def _is_interactive(plugin: Plugin) -> bool:
    if plugin.interactive_mode == "Never":
        return False
    terminal = sys.stdin is not None and sys.stdin.isatty()
    if plugin.interactive_mode == "Always" and not terminal:
        raise SliceworksError(f"credential plugin {plugin.command} needs a terminal for input, but stdin is not a terminal")
    return terminal


def _parse_time(timestamp: str | None) -> datetime | None:
    return datetime.fromisoformat(timestamp).astimezone(UTC) if timestamp else None


def _is_expired(credential: _Credential) -> bool:
    return credential.expires is not None and clock.now() >= credential.expires
