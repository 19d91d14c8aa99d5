"""Calls to webhooks over HTTPS: URLs and Services, certificates, deadlines; failures in the words of Go's client."""

from __future__ import annotations

import asyncio
import base64
import ssl
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

import aiohttp
import orjson
from aiohttp.abc import AbstractResolver
from yarl import URL

from sliceworks.base import clock
from sliceworks.schemas.field_errors import quoted
from sliceworks.schemas.golang import json_kind
from sliceworks.twin.apiserver.codec import TYPE_META, DecodeError, read_json, read_yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Resolve = Callable[[str, str, int], tuple[str, int]]
    """Namespace, name and port of a Service to a host and port; raises CallError."""

_MAX_RESPONSE_BYTES = 16 * 1024 * 1024
_MAX_MESSAGE_BYTES = 2048
_TLS_CLOSE_SECONDS = 0.05
_NAMES_SECONDS = 5.0
_UNKNOWN_AUTHORITY = {2, 18, 19, 20, 21}
_HOSTNAME_MISMATCH = {62, 64}
_EXPIRED = {9, 10}
_STATUS_MESSAGES = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be processing the request",
}


class CallError(Exception):
    """A webhook that could not be called, or whose response is not valid."""


class WebhookClient:
    """Posts reviews to webhooks over a pool of connections, which the first call opens."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._session: aiohttp.ClientSession | None = None

    async def post(self, config: Mapping[str, Any], review: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """The webhook's response to a review, within real `seconds`. Raises CallError."""
        url, verify = _address(config), _tls(config.get("caBundle") or "")
        query = f"?timeout={max(1, -int(-seconds // 1))}s"
        try:
            async with asyncio.timeout(clock.scale_real_seconds(seconds)):
                status, headers, body = await self._exchange(URL(url + query, encoded=True), verify, orjson.dumps(review))
        except CallError as error:
            raise CallError(f'Post "{url}{query}": {error}') from error
        except TimeoutError as error:
            raise CallError(f'Post "{url}{query}": context deadline exceeded') from error
        except aiohttp.ClientConnectorCertificateError as error:
            problem = await self._certificate_problem(error.certificate_error, urlsplit(url))
            raise CallError(f'Post "{url}{query}": tls: failed to verify certificate: {problem}') from error
        except (aiohttp.ClientError, OSError, ssl.SSLError, ValueError) as error:
            raise CallError(_describe(error, url, query)) from error
        return _read(status, headers, body)

    async def _exchange(self, url: URL, verify: ssl.SSLContext, body: bytes) -> tuple[int, Mapping[str, str], bytes]:
        headers = {"content-type": "application/json", "accept": "application/json, */*", "user-agent": "kube-apiserver-admission"}
        async with self._open().post(url, data=body, headers=headers, ssl=verify, allow_redirects=False) as response:
            chunks: list[bytes] = []
            size = 0
            async for chunk in response.content.iter_any():
                size += len(chunk)
                if size > _MAX_RESPONSE_BYTES:
                    raise CallError(f"the response exceeds {_MAX_RESPONSE_BYTES} bytes")
                chunks.append(chunk)
            return response.status, response.headers, b"".join(chunks)

    async def _certificate_problem(self, error: Exception, parts: SplitResult) -> str:
        """Why a certificate is not valid, in Go's words, which list the names of a certificate for another host."""
        code, host = getattr(error, "verify_code", 0), parts.hostname or ""
        if code in _UNKNOWN_AUTHORITY:
            return "x509: certificate signed by unknown authority"
        if code in _EXPIRED:
            return "x509: certificate has expired or is not yet valid"
        if code not in _HOSTNAME_MISMATCH:
            return f"x509: {getattr(error, 'verify_message', '') or error}"
        try:
            async with asyncio.timeout(clock.scale_real_seconds(_NAMES_SECONDS)):
                addresses = await _ServiceResolver(self._resolve).resolve(host, parts.port or 443)
                certificate = await _presented_certificate(addresses[0]["host"], addresses[0]["port"], host)
                return _mismatch(certificate, host)
        except (OSError, ValueError, TimeoutError):
            return f"x509: certificate is not valid for {host}"

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, resolver=_ServiceResolver(self._resolve), use_dns_cache=False)
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(),
                skip_auto_headers=("accept-encoding",),
            )
        return self._session

    async def close(self) -> None:
        """Close all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()
            # aiohttp closes TLS connections in the background; a loop that ends before that logs errors.
            await asyncio.sleep(clock.scale_real_seconds(_TLS_CLOSE_SECONDS))


class _ServiceResolver(AbstractResolver):
    """Resolves `NAME.NAMESPACE.svc` to the address of the Service, and other names by DNS."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve

    async def resolve(self, host: str, port: int = 0, family: Any = 0) -> list[Any]:
        parts = host.split(".")
        if len(parts) == 3 and parts[2] == "svc":
            host, port = self._resolve(parts[1], parts[0], port)
        addresses = await asyncio.get_running_loop().getaddrinfo(host, port, family=family, type=1)
        return [
            {"hostname": host, "host": address[0], "port": address[1], "family": kind, "proto": 0, "flags": 0}
            for kind, _, _, _, address in addresses
        ]

    async def close(self) -> None:
        """Nothing to close."""


def _address(config: Mapping[str, Any]) -> str:
    service = config.get("service")
    if service is None:
        parts = urlsplit(str(config.get("url") or ""))
        return f"{parts.scheme}://{parts.netloc}{parts.path or '/'}"
    path = service.get("path") or "/"
    return f"https://{service['name']}.{service['namespace']}.svc:{service.get('port') or 443}{path}"


@lru_cache(maxsize=256)
def _tls(bundle: str) -> ssl.SSLContext:
    """A context that trusts the authorities of a caBundle, or those of the system."""
    if not bundle:
        return ssl.create_default_context()
    try:
        data = base64.b64decode(bundle).decode("ascii", "replace")
        return ssl.create_default_context(cadata=data)
    except (ssl.SSLError, ValueError) as error:
        raise CallError("unable to load root certificates: unable to parse bytes as PEM block") from error


def _describe(error: BaseException, url: str, query: str) -> str:
    host = urlsplit(url).hostname or ""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        problem = f"dial tcp: lookup {host}: no such host"
    elif isinstance(error, aiohttp.ClientSSLError):
        reason = str(getattr(error.os_error, "reason", "") or error.os_error)
        wrong = "WRONG_VERSION_NUMBER" in reason or "HTTP_REQUEST" in reason or "RECORD_LAYER_FAILURE" in reason
        problem = "http: server gave HTTP response to HTTPS client" if wrong else f"remote error: tls: {reason}"
    elif isinstance(error, aiohttp.ClientConnectorError):
        reason = (error.os_error.strerror or str(error.os_error)).lower()
        problem = f"dial tcp {_dialed(error)}: connect: {_without_call(reason)}"
    elif isinstance(error, aiohttp.ServerDisconnectedError):
        problem = "EOF"
    elif isinstance(error, aiohttp.ClientPayloadError):
        return "unexpected error when reading response body. Please retry. Original error: unexpected EOF"
    elif isinstance(error, aiohttp.ClientResponseError):
        problem = f"net/http: HTTP/1.x transport connection broken: malformed HTTP response ({error.message})"
    else:
        problem = str(error) or type(error).__name__
    return f'Post "{url}{query}": {problem}'


def _dialed(error: aiohttp.ClientConnectorError) -> str:
    """The address in a connection error, which aiohttp shows as `Connect call failed ('127.0.0.1', 9)`."""
    arguments = str(error.os_error).rpartition("(")[2].rstrip(")'\"").replace("'", "").split(",")
    port = arguments[1].strip() if len(arguments) > 1 else str(error.port)
    return f"{arguments[0] if len(arguments) > 1 else error.host}:{port}"


def _without_call(reason: str) -> str:
    return "connection refused" if reason.startswith("connect call failed") else reason


async def _presented_certificate(address: str, port: int, host: str) -> bytes:
    """The certificate of a server, unverified. Nothing is sent to it."""
    unverified = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection(address, port, ssl=unverified, server_hostname=host)
    try:
        tls: ssl.SSLObject = writer.get_extra_info("ssl_object")
        return tls.getpeercert(binary_form=True) or b""
    finally:
        writer.transport.abort()


def _mismatch(certificate: bytes, host: str) -> str:
    from cryptography import x509

    try:
        parsed = x509.load_der_x509_certificate(certificate)
        names = parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return "x509: certificate relies on legacy Common Name field, use SANs instead"
    if host.replace(".", "").isdigit() or ":" in host:
        addresses = [str(address) for address in names.get_values_for_type(x509.IPAddress)]
        if not addresses:
            return f"x509: cannot validate certificate for {host} because it doesn't contain any IP SANs"
        return f"x509: certificate is valid for {', '.join(addresses)}, not {host}"
    domains = names.get_values_for_type(x509.DNSName)
    if not domains:
        return f"x509: certificate is not valid for any names, but wanted to match {host}"
    return f"x509: certificate is valid for {', '.join(domains)}, not {host}"


def _read(status: int, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """The review in a response."""
    if not 200 <= status <= 206:
        raise CallError(_status_problem(status, headers, body))
    if not body:
        raise CallError(f"0-length response with status code: {status} and content type: {headers.get('content-type', '')}")
    try:
        value = _parse(body)
    except DecodeError as error:
        raise CallError(f"couldn't get version/kind; json parse error: {error}") from error
    if not isinstance(value, dict) or not all(isinstance(value.get(name, ""), str) for name in ("kind", "apiVersion")):
        problem = f"json: cannot unmarshal {json_kind(value)} into Go value of type {TYPE_META}"
        raise CallError(f"couldn't get version/kind; json parse error: {problem}")
    return value


def _parse(body: bytes) -> Any:
    """The value of a body: JSON, or YAML, which Go's client accepts too."""
    try:
        return read_json(body)[0]
    except DecodeError:
        with suppress(DecodeError):
            return read_yaml(body)[0]
        raise


def _status_problem(status: int, headers: Mapping[str, str], body: bytes) -> str:
    message = "unknown"
    if headers.get("content-type", "").startswith("text/"):
        message = body[:_MAX_MESSAGE_BYTES].decode("utf-8", "replace").strip()
    if status in (403, 406, 415):
        return message
    if status in _STATUS_MESSAGES:
        return _STATUS_MESSAGES[status]
    if status >= 500:
        return f"an error on the server ({quoted(message)}) has prevented the request from succeeding"
    return f"the server responded with the status code {status} but did not return more information"
