"""How to reach a cluster and who to be there: what a kubeconfig, a pod's service account or the twin boil down to."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_REREAD_AFTER = 60.0  # seconds: a kubelet replaces a token long before the old one ends


class Certificate(NamedTuple):
    """A client certificate and its key, both PEM."""

    certificate: bytes
    key: bytes


class Credentials(Protocol):
    """Who we are to a cluster."""

    async def headers(self) -> Mapping[str, str]:
        """The headers that say so, fresh enough to be sent now."""
        ...

    async def certificate(self) -> Certificate | None:
        """The client certificate that says so, where there is one."""
        ...

    async def renew(self) -> bool:
        """The cluster answered 401: whether it is worth another try."""
        ...


@dataclass(slots=True)
class Fixed:
    """Credentials that never change: headers, a certificate, both or nothing."""

    fixed_headers: Mapping[str, str] = field(default_factory=dict)
    fixed_certificate: Certificate | None = None

    async def headers(self) -> Mapping[str, str]:
        return self.fixed_headers

    async def certificate(self) -> Certificate | None:
        return self.fixed_certificate

    async def renew(self) -> bool:
        return False


class TokenFile:
    """A bearer token in a file that somebody else renews: read again every minute, and after a 401."""

    def __init__(self, path: Path, others: Mapping[str, str] | None = None, certificate: Certificate | None = None) -> None:
        self._path = path
        self._others = dict(others or {})
        self._certificate = certificate
        self._headers: dict[str, str] = {}
        self._read_at = 0.0

    async def headers(self) -> Mapping[str, str]:
        if not self._headers or clock.loop_time() - self._read_at >= _REREAD_AFTER:
            self._read()
        return self._headers

    async def certificate(self) -> Certificate | None:
        return self._certificate

    async def renew(self) -> bool:
        before = self._headers
        self._read()
        return self._headers != before

    def _read(self) -> None:
        token = read_file(self._path, "token").decode().strip()
        if not token:
            raise SliceworksError(f"the token file {self._path} is empty")
        self._headers = {**self._others, **bearer(token)}
        self._read_at = clock.loop_time()


@dataclass(frozen=True, slots=True)
class Connection:
    """One cluster and one identity. `ca` is PEM; without it the system's certificates are trusted."""

    server: str
    credentials: Credentials = field(default_factory=Fixed)
    namespace: str = "default"
    ca: bytes | None = None
    insecure: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    compress: bool = True


def bearer(token: str) -> dict[str, str]:
    """The header of a bearer token."""
    return {"authorization": f"Bearer {token}"}


def basic(username: str, password: str) -> dict[str, str]:
    """The header of a name and a password."""
    return {"authorization": "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()}


def read_file(path: Path, what: str) -> bytes:
    """The bytes of a file that the connection needs; one line says which is missing."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise SliceworksError(f"cannot read the {what} file {path}: {error.strerror or error}") from error
