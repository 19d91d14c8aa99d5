"""Credentials from a program, such as gke-gcloud-auth-plugin: run when needed, kept until they expire or are refused."""

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
from sliceworks.kube.connection import Certificate, bearer

if TYPE_CHECKING:
    from collections.abc import Mapping

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


@dataclass(frozen=True, slots=True)
class Plugin:
    """What a kubeconfig says about the program. `cluster` is told to it where it asks for that."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    api_version: str = API_VERSIONS[0]
    interactive_mode: str = "IfAvailable"
    install_hint: str = ""
    cluster: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class _Answer:
    headers: Mapping[str, str]
    certificate: Certificate | None
    expires: datetime | None


class ExecCredentials:
    """Asks the program at first need, again after `expirationTimestamp`, and again after a 401."""

    def __init__(self, plugin: Plugin, others: Mapping[str, str] | None = None) -> None:
        self._plugin = plugin
        self._others = dict(others or {})
        self._answer: _Answer | None = None
        self._asking = asyncio.Lock()

    async def headers(self) -> Mapping[str, str]:
        return (await self._current()).headers

    async def certificate(self) -> Certificate | None:
        return (await self._current()).certificate

    async def renew(self) -> bool:
        refused = self._answer
        async with self._asking:
            if self._answer is refused:
                self._answer = None
        return True

    async def _current(self) -> _Answer:
        if self._answer is None or _expired(self._answer):
            async with self._asking:
                if self._answer is None or _expired(self._answer):
                    self._answer = self._read(await _run(self._plugin))
        return self._answer

    def _read(self, output: bytes) -> _Answer:
        command = self._plugin.command
        try:
            credential = orjson.loads(output)
            status = credential["status"]
            token, certificate = status.get("token"), status.get("clientCertificateData")
            key, expires = status.get("clientKeyData"), _moment(status.get("expirationTimestamp"))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SliceworksError(f"{command} did not print an ExecCredential with a status") from error
        if credential.get("apiVersion") != self._plugin.api_version:
            found = credential.get("apiVersion")
            raise SliceworksError(f"{command} answered in {found}, but the kubeconfig asks for {self._plugin.api_version}")
        if not token and not (certificate and key):
            raise SliceworksError(f"{command} gave neither a token nor a client certificate with its key")
        return _Answer(
            {**self._others, **(bearer(token) if token else {})},
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
        raise SliceworksError(f"cannot run the credential plugin {plugin.command}: {error.strerror}", hint=hint) from error
    try:
        output, complaint = await process.communicate()
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):  # it may have ended in this very moment
            process.kill()
        await process.wait()
        raise
    if process.returncode:
        lines = (complaint or b"").decode(errors="replace").strip().splitlines()
        said = f": {lines[-1]}" if lines else ""
        raise SliceworksError(f"the credential plugin {plugin.command} failed with exit code {process.returncode}{said}")
    return output


def _is_interactive(plugin: Plugin) -> bool:
    if plugin.interactive_mode == "Never":
        return False
    terminal = sys.stdin is not None and sys.stdin.isatty()
    if plugin.interactive_mode == "Always" and not terminal:
        raise SliceworksError(f"the credential plugin {plugin.command} needs a terminal to ask for input, and there is none")
    return terminal


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text).astimezone(UTC) if text else None


def _expired(answer: _Answer) -> bool:
    return answer.expires is not None and clock.now() >= answer.expires
