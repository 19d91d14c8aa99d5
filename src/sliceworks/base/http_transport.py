"""The transport over HTTP and HTTPS: a pool of connections by aiohttp, timeouts in real seconds, and the environment's proxy."""

from __future__ import annotations

import asyncio
import socket
import urllib.request
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from sliceworks.base import clock
from sliceworks.base.errors import Unreachable, UsageError
from sliceworks.base.sockets import is_loopback
from sliceworks.base.transport import Response

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Mapping

    from sliceworks.base.transport import Request

_CONNECT_SECONDS = 10.0
_READ_SECONDS = 65.0  # kube-apiserver ends requests other than watches after 60 seconds
_KEEP_ALIVE_SECONDS = 60.0
_READ_BUFFER_BYTES = 1 << 20
_MAX_HEADER_BYTES = 1 << 16
_TLS_CLOSE_SECONDS = 0.05
_ERRORS = (aiohttp.ClientError, OSError, TimeoutError)


class HttpTransport:
    """Sends requests to one server. The first request opens the pool of connections."""

    def __init__(
        self,
        url: str,
        *,
        user_agent: str = "sliceworks",
        verify_tls: bool = True,
        tls_server_name: str = "",
        proxy: str | None = None,
        compress: bool = True,
        read_seconds: float = _READ_SECONDS,
        hint: str = "",
    ) -> None:
        """Without `proxy`, that of the environment is used; `hint` is for a server to which no connection can be opened."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"server {url!r} is not a valid URL", hint="expected https://HOST or https://HOST:PORT")
        self.url = url.rstrip("/")
        self._verify_tls, self._read_seconds, self._hint = verify_tls, read_seconds, hint
        self._headers = {"user-agent": user_agent}
        if compress and not is_loopback(parts.hostname):
            self._headers["accept-encoding"] = "gzip"
        self._options: dict[str, Any] = {"server_hostname": tls_server_name} if tls_server_name else {}
        if proxy := _proxy_from_environment(parts.scheme, parts.hostname) if proxy is None else proxy:
            self._options["proxy"] = _check_proxy(proxy)
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    async def send(self, request: Request, *, stream: bool = False) -> Response:
        """Send one request. Redirects are returned, not followed."""
        session = self._open()
        try:
            response = await session.request(
                request.method,
                URL(self.url + request.target, encoded=True),
                data=request.body or None,
                headers={**self._headers, **request.headers},
                allow_redirects=False,
                timeout=self._timeout(stream),
                **self._options,
            )
            headers = _lower_names(response.headers)
            if stream and response.status < 300:
                return Response(response.status, headers, stream=self._chunks(response))
            try:
                return Response(response.status, headers, await response.read())
            finally:
                response.release()
        except _ERRORS as error:
            raise self._unreachable(error) from error

    async def close(self) -> None:
        """Close all connections."""
        self._closed = True
        await self._close_session()

    async def _close_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()
            if self.url.startswith("https:"):
                # aiohttp closes TLS connections in the background; a loop that ends before that logs errors.
                await asyncio.sleep(clock.scale_real_seconds(_TLS_CLOSE_SECONDS))

    def _open(self) -> aiohttp.ClientSession:
        if self._closed:
            raise Unreachable(f"connection to {self.url} is closed")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                # No limit of connections: each watch holds one, and would starve other requests.
                connector=aiohttp.TCPConnector(
                    ssl=self._tls_context(), limit=0, socket_factory=_create_socket, keepalive_timeout=_KEEP_ALIVE_SECONDS
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=("accept-encoding",),
                read_bufsize=_READ_BUFFER_BYTES,
                max_line_size=_MAX_HEADER_BYTES,
                max_field_size=_MAX_HEADER_BYTES,
            )
        return self._session

    def _tls_context(self) -> ssl.SSLContext | bool:
        """The TLS context of a new pool of connections; True for the default one, False to verify nothing."""
        return self._verify_tls

    def _timeout(self, stream: bool) -> aiohttp.ClientTimeout:
        """Timeouts in real seconds, because the server runs in real time. A stream may be silent for any time."""
        read = None if stream else clock.scale_real_seconds(self._read_seconds)
        connect = clock.scale_real_seconds(min(_CONNECT_SECONDS, self._read_seconds))
        return aiohttp.ClientTimeout(total=None, sock_connect=connect, sock_read=read)

    async def _chunks(self, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        try:
            while chunk := await response.content.readany():
                yield chunk
        except _ERRORS as error:
            raise self._unreachable(error) from error
        finally:
            # A graceful TLS close would outlast the stream, and perhaps the loop: nothing awaits it.
            if (connection := response.connection) is not None and connection.transport is not None:
                connection.transport.abort()
            response.close()

    def _unreachable(self, error: BaseException) -> Unreachable:
        if isinstance(error, TimeoutError):
            return Unreachable(f"timed out waiting for {self.url}")
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            return Unreachable(
                f"certificate of {self.url} is not trusted: {error.certificate_error}",
                hint="trust its certificate authority; for a cluster, set certificate-authority in the kubeconfig",
            )
        if isinstance(error, aiohttp.ClientConnectorError):
            reason = error.os_error.strerror or str(error.os_error)
            return Unreachable(f"cannot connect to {self.url}: {reason}", hint=self._hint)
        return Unreachable(f"connection to {self.url} failed: {str(error) or type(error).__name__}")


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


def _proxy_from_environment(scheme: str, host: str) -> str:
    if is_loopback(host) or urllib.request.proxy_bypass(host):
        return ""
    return urllib.request.getproxies().get(scheme, "")


def _check_proxy(url: str) -> str:
    if urlsplit(url).scheme not in ("http", "https"):
        raise UsageError(f"proxy {url} is not supported: only http and https proxies are")
    return url
