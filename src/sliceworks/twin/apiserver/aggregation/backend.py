"""HTTPS connections to the server behind an APIService, with the front proxy's client certificate."""

from __future__ import annotations

import asyncio
import base64
import ssl
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import aiohttp
from yarl import URL

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.twin.apiserver import service_endpoints
from sliceworks.twin.apiserver.auth.authentication import MASTERS, User
from sliceworks.twin.apiserver.client_errors import certificate_problem, describe

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from sliceworks.twin.apiserver.generic_server import ApiServer

Obj = dict[str, Any]
AGGREGATOR = User("system:kube-aggregator", groups=(MASTERS,))
"""The user of requests that no client has sent."""
MAX_DOCUMENT_BYTES = 16 * 1024 * 1024
_MAX_LINE_BYTES = 64 * 1024
_CLOSE_SECONDS = 0.05
_TOKEN = "!#$&'*+-.^_`|~"
"""Characters of a header name beside letters and digits; `%` is escaped."""


class Unavailable(SliceworksError):
    """A backend that cannot be reached, or whose response is not valid HTTP; the message is in the words of Go's client."""


class InvalidBundle(SliceworksError):
    """A caBundle without certificates."""


class Document(NamedTuple):
    """A complete response."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Backend:
    """The server that a Service of the cluster leads to."""

    def __init__(self, server: ApiServer, spec: Mapping[str, Any]) -> None:
        self._server, self._spec = server, spec
        service = spec["service"]
        self._namespace, self._name, self._port = service["namespace"], service["name"], int(service["port"])
        self._host = f"{self._name}.{self._namespace}.svc"
        self._contexts: dict[bool, ssl.SSLContext] = {}
        self._session: aiohttp.ClientSession | None = None

    def address(self) -> tuple[str, int]:
        """Where the Service leads to; raises NoEndpoint."""
        return service_endpoints.resolve_server(self._server, self._namespace, self._name, self._port)

    async def send(
        self, method: str, target: str, headers: Iterable[tuple[str, str]], body: bytes = b"", *, verify: bool = True
    ) -> aiohttp.ClientResponse:
        """The response, of which only the head has been read. Raises Unavailable, InvalidBundle and NoEndpoint."""
        host, port = self.address()
        context = self._tls(verify)
        try:
            return await self._open().request(
                method,
                URL(f"https://{_bracketed(host)}:{port}{target}", encoded=True),
                data=body or None,
                headers=list(headers),
                allow_redirects=False,
                ssl=context,
                server_hostname=self._host if verify else None,
            )
        except aiohttp.ClientConnectorCertificateError as error:
            problem = await certificate_problem(error.certificate_error, self._host, self._find_address)
            raise Unavailable(f"tls: failed to verify certificate: {problem}") from error
        except (aiohttp.ClientError, OSError, ssl.SSLError, ValueError) as error:
            raise Unavailable(describe(error, host)) from error

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, str]:
        """A connection with TLS, and its host and port. Raises Unavailable, InvalidBundle and NoEndpoint."""
        host, port = self.address()
        context = self._tls(verify=True)
        try:
            reader, writer = await asyncio.open_connection(
                host, port, ssl=context, server_hostname=self._host, limit=_MAX_LINE_BYTES
            )
        except ssl.SSLCertVerificationError as error:
            problem = await certificate_problem(error, self._host, self._find_address)
            raise Unavailable(f"tls: failed to verify certificate: {problem}") from error
        except OSError as error:  # also ssl.SSLError
            refused = isinstance(error, ConnectionRefusedError)
            raise Unavailable(f"dial tcp {host}:{port}: connect: {'connection refused' if refused else error}") from error
        return reader, writer, f"{_bracketed(host)}:{port}"

    async def get(self, path: str, user: User, headers: Mapping[str, str], seconds: float, *, verify: bool = True) -> Document:
        """A document within real `seconds`. Raises what `send` raises, and TimeoutError."""
        async with asyncio.timeout(clock.scale_real_seconds(seconds)):
            response = await self.send("GET", path, [*headers.items(), *identity(user)], verify=verify)
            async with response:
                try:
                    body = await response.content.read(MAX_DOCUMENT_BYTES + 1)
                    while (more := await response.content.read(MAX_DOCUMENT_BYTES)) and len(body) <= MAX_DOCUMENT_BYTES:
                        body += more
                except aiohttp.ClientError as error:
                    raise Unavailable("unexpected EOF") from error
        if len(body) > MAX_DOCUMENT_BYTES:
            raise Unavailable(f"the response exceeds {MAX_DOCUMENT_BYTES} bytes")
        return Document(response.status, response.headers, body)

    async def _find_address(self) -> tuple[str, int]:
        return self.address()

    def _tls(self, verify: bool) -> ssl.SSLContext:
        verify = verify and not self._spec.get("insecureSkipTLSVerify")
        context = self._contexts.get(verify)
        if context is None:
            context = self._contexts[verify] = _context(self._spec.get("caBundle") or "", verify, self._server.proxy_client)
        return context

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                # A kept connection may be closed just when the next request is sent, which must not be repeated.
                connector=aiohttp.TCPConnector(limit=0, use_dns_cache=False, force_close=True),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(),
                skip_auto_headers=("accept", "accept-encoding", "content-type", "user-agent"),
                auto_decompress=False,
                max_line_size=_MAX_LINE_BYTES,
                max_field_size=_MAX_LINE_BYTES,
            )
        return self._session

    async def close(self) -> None:
        """Close all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()
            await asyncio.sleep(clock.scale_real_seconds(_CLOSE_SECONDS))


def identity(user: User) -> list[tuple[str, str]]:
    """The headers that tell a backend who the user is."""
    headers = [("X-Remote-User", user.name)]
    if user.uid:
        headers.append(("X-Remote-Uid", user.uid))
    headers += [("X-Remote-Group", group) for group in user.groups]
    headers += [(f"X-Remote-Extra-{quote(key, safe=_TOKEN)}", value) for key, values in user.extra.items() for value in values]
    return headers


def _context(bundle: str, verify: bool, client: Path | None) -> ssl.SSLContext:
    if not verify:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    elif bundle:
        try:
            context = ssl.create_default_context(cadata=base64.b64decode(bundle).decode("ascii", "replace"))
        except (ssl.SSLError, ValueError) as error:
            raise InvalidBundle("unable to load root certificates: unable to parse bytes as PEM block") from error
    else:
        context = ssl.create_default_context()
    if client is not None:
        context.load_cert_chain(client)
    return context


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
