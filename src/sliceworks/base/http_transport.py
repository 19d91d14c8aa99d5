"""The transport over HTTP and HTTPS: a pool of connections, timeouts in real seconds, and the environment's proxy."""

from __future__ import annotations

import ssl
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sliceworks.base import clock
from sliceworks.base.errors import Unreachable, UsageError
from sliceworks.base.http.client import Address, ConnectFailed, Disconnected, HttpClient, InvalidRequest, Timeouts
from sliceworks.base.sockets import is_loopback
from sliceworks.base.transport import Response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sliceworks.base.http.client import IncomingResponse
    from sliceworks.base.transport import Request

_CONNECT_SECONDS = 10.0
_READ_SECONDS = 65.0  # kube-apiserver ends requests other than watches after 60 seconds
_SCHEMES = ("http", "https")
_ERRORS = (ConnectFailed, Disconnected, OSError, TimeoutError)


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
        server = _read_address(url)
        if server is None:
            raise UsageError(f"server {url!r} is not a valid URL", hint="expected https://HOST or https://HOST:PORT")
        self.url = url.rstrip("/")
        self._server = server
        self._verify_tls, self._read_seconds, self._hint = verify_tls, read_seconds, hint
        self._headers = {"user-agent": user_agent}
        if compress and not is_loopback(server.host):
            self._headers["accept-encoding"] = "gzip"
        self._server_name = tls_server_name
        proxy = _proxy_from_environment(server) if proxy is None else proxy
        self._proxy = _read_proxy(proxy) if proxy else None
        self._prefix = urlsplit(url).path.rstrip("/")
        self._client: HttpClient | None = None
        self._closed = False

    async def send(self, request: Request, *, stream: bool = False) -> Response:
        """Send one request. Redirects are returned, not followed."""
        client, headers = self._open(), {**self._headers, **request.headers}
        try:
            response = await client.send(
                request.method, self._prefix + request.target, headers, request.body, self._timeouts(stream=stream)
            )
            if stream and response.status < 300:
                return Response(response.status, response.headers, stream=self._chunks(response))
            try:
                return Response(response.status, response.headers, await response.read())
            finally:
                response.abort()
        except InvalidRequest as error:
            raise UsageError(f"cannot send a request to {self.url}: {error}") from error
        except _ERRORS as error:
            raise self._unreachable(error) from error

    async def close(self) -> None:
        """Close all connections."""
        self._closed = True
        await self._close_connections()

    async def _close_connections(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    def _open(self) -> HttpClient:
        if self._closed:
            raise Unreachable(f"connection to {self.url} is closed")
        if self._client is None:
            tls = self._tls_context() if self._server.scheme == "https" else None
            self._client = HttpClient(self._server, tls, server_hostname=self._server_name, proxy=self._proxy)
        return self._client

    def _tls_context(self) -> ssl.SSLContext:
        """The TLS context of new connections."""
        return _default_tls_context(verify=self._verify_tls)

    def _timeouts(self, *, stream: bool) -> Timeouts:
        """Timeouts in real seconds, because the server runs in real time. A stream may be silent for any time."""
        read = None if stream else clock.scale_real_seconds(self._read_seconds)
        return Timeouts(clock.scale_real_seconds(min(_CONNECT_SECONDS, self._read_seconds)), read)

    async def _chunks(self, response: IncomingResponse) -> AsyncIterator[bytes]:
        try:
            async for chunk in response.chunks():
                yield chunk
        except _ERRORS as error:
            raise self._unreachable(error) from error
        finally:
            response.abort()

    def _unreachable(self, error: BaseException) -> Unreachable:
        if isinstance(error, TimeoutError):
            return Unreachable(f"timed out waiting for {self.url}")
        cause = error.__cause__
        if isinstance(cause, ssl.SSLCertVerificationError):
            return Unreachable(
                f"certificate of {self.url} is not trusted: {cause}",
                hint="trust its certificate authority; for a cluster, set certificate-authority in the kubeconfig",
            )
        if isinstance(cause, OSError):
            return Unreachable(f"cannot connect to {self.url}: {cause.strerror or cause}", hint=self._hint)
        return Unreachable(f"connection to {self.url} failed: {str(error) or type(error).__name__}")


@lru_cache
def _default_tls_context(*, verify: bool) -> ssl.SSLContext:
    """A context that trusts the system's CA certificates, or verifies nothing."""
    context = ssl.create_default_context() if verify else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _proxy_from_environment(server: Address) -> str:
    if is_loopback(server.host):
        return ""
    # Imported here: it takes as long to load as the rest of a client, and a twin's clients do not need it.
    import urllib.request

    if urllib.request.proxy_bypass(server.host):
        return ""
    return urllib.request.getproxies().get(server.scheme, "")


def _read_proxy(url: str) -> Address:
    """The address of a proxy; its URL may lack the scheme, as curl and kubectl accept it. Errors do not show its password."""
    scheme, separator, _ = url.partition("://")
    proxy = _read_address(url if separator else f"http://{url}")
    if proxy is None and separator and scheme not in _SCHEMES:
        raise UsageError(f"proxy scheme {scheme!r} is not supported: only http and https proxies are")
    if proxy is None:
        raise UsageError("the URL of the proxy is not valid", hint="expected http://HOST:PORT")
    return proxy


def _read_address(url: str) -> Address | None:
    """The server of an HTTP URL; None for another one."""
    try:
        address = Address.of(url)
    except ValueError:
        return None
    return address if address.scheme in _SCHEMES and address.host else None
