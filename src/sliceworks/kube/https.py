"""The HTTPS transport (connection pool, streams, fresh credentials after a 401), and open_client for a kubeconfig context."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import urllib.request
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError, Unreachable
from sliceworks.base.transport import Response
from sliceworks.kube import kubeconfig
from sliceworks.kube.client import Client
from sliceworks.kube.connection import ssl_context

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from sliceworks.base.retry import Retry
    from sliceworks.base.transport import Request
    from sliceworks.kube.connection import Certificate, Connection
    from sliceworks.kube.rest import OnWarning


_CONNECT_SECONDS = 10.0
_READ_SECONDS = 65.0  # kube-apiserver ends requests other than watches after 60 seconds
_KEEP_ALIVE_SECONDS = 60.0
_READ_BUFFER_BYTES = 1 << 20
_TLS_CLOSE_SECONDS = 0.05


def _timeout(stream: bool) -> aiohttp.ClientTimeout:
    """Timeouts in real seconds, because the server runs in real time."""
    read = None if stream else clock.scale_real_seconds(_READ_SECONDS)
    return aiohttp.ClientTimeout(total=None, sock_connect=clock.scale_real_seconds(_CONNECT_SECONDS), sock_read=read)


class HttpsTransport:
    """Sends requests over a connection pool, which is opened by the first request."""

    def __init__(self, connection: Connection, *, user_agent: str = "sliceworks") -> None:
        parts = urlsplit(connection.server)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SliceworksError(
                f"server {connection.server!r} is not a valid URL of a Kubernetes API (expected https://host:port)"
            )
        self._connection = connection
        self._credentials = connection.credentials
        self._base = connection.server.rstrip("/")
        self._common = {"user-agent": user_agent}
        if connection.compress and not _is_loopback(parts.hostname):
            self._common["accept-encoding"] = "gzip"
        self._session: aiohttp.ClientSession | None = None
        self._certificate: Certificate | None = None
        self._per_request: dict[str, Any] = {}
        if connection.tls_server_name:
            self._per_request["server_hostname"] = connection.tls_server_name
        if proxy := connection.proxy_url or _proxy_from_environment(parts.scheme, parts.hostname):
            self._per_request["proxy"] = _check_proxy(proxy)
        self._closed = False

    async def send(self, request: Request, *, stream: bool = False) -> Response:
        """Send one request; after a 401 it is sent once more with fresh credentials."""
        response = await self._exchange(request, stream)
        if response.status == 401 and await self._credentials.invalidate():
            response = await self._exchange(request, stream)
        return response

    async def close(self) -> None:
        """Close all connections."""
        self._closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()
            # aiohttp closes TLS connections in the background; a loop that ends before that logs errors.
            await asyncio.sleep(clock.scale_real_seconds(_TLS_CLOSE_SECONDS))

    async def _exchange(self, request: Request, stream: bool) -> Response:
        headers = {**self._common, **await self._credentials.headers(), **request.headers}
        # Await this last: a request that finds a new certificate closes the pool that others were about to use.
        session = await self._open()
        try:
            response = await session.request(
                request.method,
                URL(self._base + request.target, encoded=True),
                data=request.body or None,
                headers=headers,
                allow_redirects=False,
                timeout=_timeout(stream),
                **self._per_request,
            )
            headers = _lower_names(response.headers)
            if stream and response.status < 400:
                return Response(response.status, headers, stream=self._chunks(response))
            try:
                return Response(response.status, headers, await response.read())
            finally:
                response.release()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._unreachable(error) from error

    async def _chunks(self, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        try:
            while chunk := await response.content.readany():
                yield chunk
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._unreachable(error) from error
        finally:
            # A graceful TLS close would outlast the stream, and perhaps the loop: nothing awaits it.
            if (open_connection := response.connection) is not None and open_connection.transport is not None:
                open_connection.transport.abort()
            response.close()

    async def _open(self) -> aiohttp.ClientSession:
        if self._closed:
            raise Unreachable(f"connection to {self._base} is closed")
        certificate = await self._credentials.certificate()
        if self._session is None or certificate != self._certificate:
            await self._renew_session(certificate)
        assert self._session is not None
        return self._session

    async def _renew_session(self, certificate: Certificate | None) -> None:
        old = self._session
        self._certificate = certificate
        self._session = aiohttp.ClientSession(
            # No limit of connections: each watch holds one, and would starve other requests.
            connector=aiohttp.TCPConnector(
                ssl=ssl_context(self._connection, certificate) if self._base.startswith("https:") else False,
                limit=0,
                socket_factory=_create_socket,
                keepalive_timeout=_KEEP_ALIVE_SECONDS,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("accept-encoding",),
            read_bufsize=_READ_BUFFER_BYTES,
            max_line_size=1 << 16,
            max_field_size=1 << 16,
        )
        if old is not None:
            await old.close()

    def _unreachable(self, error: BaseException) -> Unreachable:
        if isinstance(error, asyncio.TimeoutError | TimeoutError):
            return Unreachable(f"timed out waiting for {self._base}")
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            return Unreachable(
                f"certificate of {self._base} is not trusted: {error.certificate_error}",
                hint="set certificate-authority of the cluster in the kubeconfig",
            )
        if isinstance(error, aiohttp.ClientConnectorError):
            reason = error.os_error.strerror or str(error.os_error)
            return Unreachable(
                f"cannot connect to {self._base}: {reason}",
                hint="check that the cluster is running and that the server address is correct",
            )
        return Unreachable(f"connection to {self._base} failed: {str(error) or type(error).__name__}")


# After 30 idle seconds, three probes 10 seconds apart. Not all platforms have these options.
_KEEP_ALIVE_OPTIONS = [
    (getattr(socket, name), value)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
    if hasattr(socket, name)
]


def _create_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket with TCP keepalive, so that watches, which may be silent for long, notice a lost peer within a minute."""
    family, kind, protocol, _, _ = address
    sock = socket.socket(family, kind, protocol)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEP_ALIVE_OPTIONS:
        sock.setsockopt(socket.IPPROTO_TCP, option, value)
    return sock


def _lower_names(headers: Mapping[str, str]) -> dict[str, str]:
    joined: dict[str, str] = {}
    for name, value in headers.items():
        key = name.lower()
        joined[key] = f"{joined[key]}, {value}" if key in joined else value
    return joined


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _proxy_from_environment(scheme: str, host: str) -> str:
    if _is_loopback(host) or urllib.request.proxy_bypass(host):
        return ""
    return urllib.request.getproxies().get(scheme, "")


def _check_proxy(url: str) -> str:
    if urlsplit(url).scheme not in ("http", "https"):
        raise SliceworksError(f"proxy {url} is not supported: only http and https proxies are")
    return url


def open_client(
    path: str | Path | None = None,
    context: str | None = None,
    *,
    namespace: str = "",
    field_manager: str = "sliceworks",
    retry: Retry | None = None,
    on_warning: OnWarning | None = None,
) -> Client:
    """A client for a kubeconfig context, or for the cluster of the current pod. No request is sent yet."""
    connection = kubeconfig.connect(path, context)
    return Client(
        HttpsTransport(connection, user_agent=field_manager),
        namespace=namespace or connection.namespace,
        field_manager=field_manager,
        retry=retry,
        on_warning=on_warning,
    )
