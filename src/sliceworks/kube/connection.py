"""How to reach a cluster: server, credentials, TLS context, and the in-cluster service account."""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError

if TYPE_CHECKING:
    from collections.abc import Mapping


_REREAD_SECONDS = 60.0  # the kubelet replaces a token long before the old one expires


class Certificate(NamedTuple):
    """A client certificate and its key, both PEM."""

    certificate: bytes
    key: bytes


class Credentials(Protocol):
    """The identity of a client."""

    async def headers(self) -> Mapping[str, str]:
        """Authentication headers with a token that has not expired."""
        ...

    async def certificate(self) -> Certificate | None:
        """The client certificate, if there is one."""
        ...

    async def invalidate(self) -> bool:
        """Called after a 401; returns whether new credentials are worth a retry."""
        ...


@dataclass(slots=True)
class StaticCredentials:
    """Fixed credentials: headers, a certificate, both or neither."""

    fixed_headers: Mapping[str, str] = field(default_factory=dict)
    fixed_certificate: Certificate | None = None

    async def headers(self) -> Mapping[str, str]:
        return self.fixed_headers

    async def certificate(self) -> Certificate | None:
        return self.fixed_certificate

    async def invalidate(self) -> bool:
        return False


class TokenFile:
    """A bearer token in a file that another process renews: read again every minute and after a 401."""

    def __init__(self, path: Path, extra_headers: Mapping[str, str] | None = None, certificate: Certificate | None = None) -> None:
        self._path = path
        self._extra_headers = dict(extra_headers or {})
        self._certificate = certificate
        self._headers: dict[str, str] = {}
        self._read_at = 0.0

    async def headers(self) -> Mapping[str, str]:
        if not self._headers or clock.loop_time() - self._read_at >= _REREAD_SECONDS:
            self._read()
        return self._headers

    async def certificate(self) -> Certificate | None:
        return self._certificate

    async def invalidate(self) -> bool:
        rejected = self._headers
        self._read()
        return self._headers != rejected

    def _read(self) -> None:
        token = read_file(self._path, "token").decode().strip()
        if not token:
            raise SliceworksError(f"token file {self._path} is empty")
        self._headers = {**self._extra_headers, **bearer_header(token)}
        self._read_at = clock.loop_time()


@dataclass(frozen=True, slots=True)
class Connection:
    """One cluster and one identity. `ca` is PEM; without it the system's CA certificates are trusted."""

    server: str
    credentials: Credentials = field(default_factory=StaticCredentials)
    namespace: str = "default"
    ca: bytes | None = None
    insecure: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    compress: bool = True


def bearer_header(token: str) -> dict[str, str]:
    """The Authorization header of a bearer token."""
    return {"authorization": f"Bearer {token}"}


def basic_header(username: str, password: str) -> dict[str, str]:
    """The Authorization header of a user name and password."""
    return {"authorization": "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()}


def read_file(path: Path, what: str) -> bytes:
    """The content of a file; `what` describes it in the error message."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise SliceworksError(f"cannot read {what} file {path}: {error.strerror or error}") from error


SERVICE_ACCOUNT_DIRECTORY = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def is_in_cluster(environ: Mapping[str, str] = os.environ, directory: Path = SERVICE_ACCOUNT_DIRECTORY) -> bool:
    """Whether this process runs in a pod with a service account token."""
    return bool(environ.get("KUBERNETES_SERVICE_HOST")) and (directory / "token").exists()


def in_cluster_connection(environ: Mapping[str, str] = os.environ, directory: Path = SERVICE_ACCOUNT_DIRECTORY) -> Connection:
    """The connection of a pod, with its service account."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise SliceworksError("not running in a pod: KUBERNETES_SERVICE_HOST is not set")
    namespace = directory / "namespace"
    return Connection(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        credentials=TokenFile(directory / "token"),
        namespace=read_file(namespace, "namespace").decode().strip() if namespace.exists() else "default",
        ca=read_file(directory / "ca.crt", "certificate authority"),
    )


def ssl_context(connection: Connection, certificate: Certificate | None) -> ssl.SSLContext:
    """The TLS context for a cluster and a client certificate."""
    if connection.ca is None:
        context = ssl.create_default_context()
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(cadata=connection.ca.decode())
        except (ssl.SSLError, UnicodeDecodeError) as error:
            raise SliceworksError(f"certificate authority of {connection.server} is not a valid PEM certificate") from error
    if connection.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        _load_certificate(context, certificate, connection.server)
    return context


def _load_certificate(context: ssl.SSLContext, certificate: Certificate, server: str) -> None:
    # Python loads certificate chains from files only; this one is readable by its owner and deleted at once.
    handle, name = tempfile.mkstemp(prefix="sliceworks-", suffix=".pem")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(certificate.certificate + b"\n" + certificate.key)
        context.load_cert_chain(name)
    except ssl.SSLError as error:
        raise SliceworksError(f"client certificate and key for {server} do not match") from error
    finally:
        Path(name).unlink()
