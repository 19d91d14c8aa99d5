"""The transport that speaks HTTPS to any Kubernetes: pooled connections, streams, fresh credentials after a 401."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import urllib.request
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

import aiohttp
from yarl import URL

from sliceworks.base.errors import SliceworksError, Unreachable
from sliceworks.kube.tls import ssl_context
from sliceworks.kube.transport import Response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from sliceworks.kube.connection import Certificate, Connection
    from sliceworks.kube.transport import Request

_CONNECT_SECONDS = 10.0
_READ_SECONDS = 65.0  # a kube-apiserver ends any request that is no watch after 60 seconds
_KEEP_ALIVE_SECONDS = 60.0
_BUFFER = 1 << 20
_WHOLE = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=_READ_SECONDS)
_STREAM = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=None)
_GOODBYE = 0.05


class HttpsTransport:
    """Sends requests over a pool of connections that opens with the first one."""

    def __init__(self, connection: Connection, *, user_agent: str = "sliceworks") -> None:
        parts = urlsplit(connection.server)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SliceworksError(f"{connection.server} is no address of a Kubernetes API: it should read https://host:port")
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
            self._per_request["proxy"] = _checked_proxy(proxy)
        self._closed = False

    async def send(self, request: Request, *, stream: bool = False) -> Response:
        """Send one request; a 401 is answered once with fresh credentials."""
        response = await self._exchange(request, stream)
        if response.status == 401 and await self._credentials.renew():
            response = await self._exchange(request, stream)
        return response

    async def close(self) -> None:
        """Close the pool."""
        self._closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()
            # TLS says goodbye in the background; a loop that ends before that complains.
            await asyncio.sleep(_GOODBYE)

    async def _exchange(self, request: Request, stream: bool) -> Response:
        headers = {**self._common, **await self._credentials.headers(), **request.headers}
        # The last thing to wait for: whoever finds a new certificate closes the pool that others had before.
        session = await self._open()
        try:
            answer = await session.request(
                request.method,
                URL(self._target(request), encoded=True),
                data=request.body or None,
                headers=headers,
                allow_redirects=False,
                timeout=_STREAM if stream else _WHOLE,
                **self._per_request,
            )
            lower = _lower(answer.headers)
            if stream and answer.status < 400:
                return Response(answer.status, lower, stream=self._pieces(answer))
            try:
                return Response(answer.status, lower, await answer.read())
            finally:
                answer.release()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._unreachable(error) from error

    def _target(self, request: Request) -> str:
        if not request.query:
            return self._base + request.path
        return f"{self._base}{request.path}?{urlencode(request.query, quote_via=quote, safe=_SAFE_IN_QUERY)}"

    async def _pieces(self, answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        try:
            content = answer.content
            while piece := await content.readany():
                yield piece
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._unreachable(error) from error
        finally:
            answer.close()

    async def _open(self) -> aiohttp.ClientSession:
        if self._closed:
            raise Unreachable(f"the connection to {self._base} is closed")
        certificate = await self._credentials.certificate()
        if self._session is None or certificate != self._certificate:
            await self._renew_session(certificate)
        assert self._session is not None
        return self._session

    async def _renew_session(self, certificate: Certificate | None) -> None:
        old = self._session
        self._certificate = certificate
        self._session = aiohttp.ClientSession(
            # A watch holds its connection for as long as it lives: a bound on all would let watches starve the rest.
            connector=aiohttp.TCPConnector(
                ssl=ssl_context(self._connection, certificate) if self._base.startswith("https:") else False,
                limit=0,
                socket_factory=_socket,
                keepalive_timeout=_KEEP_ALIVE_SECONDS,
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=("accept-encoding",),
            read_bufsize=_BUFFER,
            max_line_size=1 << 16,
            max_field_size=1 << 16,
        )
        if old is not None:
            await old.close()

    def _unreachable(self, error: BaseException) -> Unreachable:
        if isinstance(error, asyncio.TimeoutError | TimeoutError):
            return Unreachable(f"{self._base} did not answer in time")
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            return Unreachable(
                f"the certificate of {self._base} is not trusted: {error.certificate_error}",
                hint="name its certificate authority in the kubeconfig",
            )
        if isinstance(error, aiohttp.ClientConnectorError):
            reason = error.os_error.strerror or str(error.os_error)
            return Unreachable(f"cannot connect to {self._base}: {reason}", hint="is the cluster running, and is this its address?")
        return Unreachable(f"the connection to {self._base} broke: {str(error) or type(error).__name__}")


# After 30 silent seconds, three questions ten seconds apart. Not every system has all of these.
_KEEP_ALIVE_OPTIONS = [
    (getattr(socket, name), value)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))
    if hasattr(socket, name)
]
_SAFE_IN_QUERY = "!()*,:~/"


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket that notices within a minute or so when the other side is gone without a word: a watch may be silent for long."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEP_ALIVE_OPTIONS:
        made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    lower: dict[str, str] = {}
    for name, value in headers.items():
        key = name.lower()
        lower[key] = f"{lower[key]}, {value}" if key in lower else value
    return lower


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _proxy_from_environment(scheme: str, host: str) -> str:
    if _is_loopback(host) or urllib.request.proxy_bypass(host):
        return ""
    return urllib.request.getproxies().get(scheme, "")


def _checked_proxy(url: str) -> str:
    if urlsplit(url).scheme not in ("http", "https"):
        raise SliceworksError(f"the proxy {url} cannot be used: only http and https proxies can")
    return url
