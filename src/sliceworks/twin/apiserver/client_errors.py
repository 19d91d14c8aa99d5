"""Failures of HTTPS requests to webhooks and aggregated APIs, in the words of Go's client."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING

import aiohttp

from sliceworks.base import clock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_NAMES_SECONDS = 5.0
_UNKNOWN_AUTHORITY = {2, 18, 19, 20, 21}
_HOSTNAME_MISMATCH = {62, 64}
_EXPIRED = {9, 10}


def describe(error: BaseException, host: str) -> str:
    """Why a request to a host failed."""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"dial tcp: lookup {host}: no such host"
    if isinstance(error, aiohttp.ClientSSLError):
        reason = str(getattr(error.os_error, "reason", "") or error.os_error)
        wrong = "WRONG_VERSION_NUMBER" in reason or "HTTP_REQUEST" in reason or "RECORD_LAYER_FAILURE" in reason
        return "http: server gave HTTP response to HTTPS client" if wrong else f"remote error: tls: {reason}"
    if isinstance(error, aiohttp.ClientConnectorError):
        reason = (error.os_error.strerror or str(error.os_error)).lower()
        return f"dial tcp {_dialed(error)}: connect: {_without_call(reason)}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    if isinstance(error, aiohttp.ClientResponseError):
        return f"net/http: HTTP/1.x transport connection broken: malformed HTTP response ({error.message})"
    return str(error) or type(error).__name__


async def certificate_problem(error: Exception, host: str, find_address: Callable[[], Awaitable[tuple[str, int]]]) -> str:
    """Why a certificate is not valid for a host; the names of a certificate for another host are read from the server."""
    code = getattr(error, "verify_code", 0)
    if code in _UNKNOWN_AUTHORITY:
        return "x509: certificate signed by unknown authority"
    if code in _EXPIRED:
        return "x509: certificate has expired or is not yet valid"
    if code not in _HOSTNAME_MISMATCH:
        return f"x509: {getattr(error, 'verify_message', '') or error}"
    try:
        async with asyncio.timeout(clock.scale_real_seconds(_NAMES_SECONDS)):
            return _mismatch(await _presented_certificate(*await find_address(), host), host)
    except (OSError, ValueError, TimeoutError):
        return f"x509: certificate is not valid for {host}"


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
