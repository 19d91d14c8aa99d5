"""Calls to webhooks over HTTPS: URLs and Services, certificates, deadlines; failures in the words of Go's client."""

from __future__ import annotations

import asyncio
import base64
import ssl
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

import aiohttp
import orjson
from aiohttp.abc import AbstractResolver
from yarl import URL

from sliceworks.base import budget, clock
from sliceworks.schemas.field_errors import quoted
from sliceworks.schemas.golang import json_kind
from sliceworks.twin.apiserver.client_errors import certificate_problem, describe
from sliceworks.twin.apiserver.codec import TYPE_META, DecodeError, read_json, read_yaml

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Resolve = Callable[[str, str, int], tuple[str, int]]
    """Namespace, name and port of a Service to a host and port; raises CallError."""

_MAX_RESPONSE_BYTES = 16 * 1024 * 1024
_MAX_MESSAGE_BYTES = 2048
_MAX_REDIRECTS = 10
_READS, _REPEATS = (301, 302, 303), (307, 308)
"""Redirects that are followed by a GET, and by the same request."""
_TLS_CLOSE_SECONDS = 0.05
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


@dataclass(slots=True)
class _Hop:
    """The request of a call, which redirects change as Go's client does."""

    url: str
    method: str
    body: bytes | None

    def follow(self, status: int, headers: Mapping[str, str]) -> bool:
        """Change the request if the response is a redirect; returns whether it is one. Raises CallError."""
        location = headers.get("location", "")
        if status not in (*_READS, *_REPEATS) or not location:
            return False
        try:
            self.url = urljoin(self.url, location)
            scheme = urlsplit(self.url).scheme
        except ValueError as error:
            raise CallError(f"failed to parse Location header {quoted(location)}: {error}") from error
        if scheme not in ("http", "https"):
            raise CallError(f"unsupported protocol scheme {quoted(scheme)}")
        if status in _READS:
            self.method, self.body = "GET", None
        return True

    def stop(self, status: int, headers: Mapping[str, str]) -> None:
        """Raise CallError if the response is a redirect, after the last one that is followed."""
        location = headers.get("location", "")
        if self.follow(status, headers):
            self.url = location
            raise CallError(f"stopped after {_MAX_REDIRECTS} redirects")


class WebhookClient:
    """Posts reviews to webhooks over a pool of connections, which the first call opens."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._session: aiohttp.ClientSession | None = None

    async def post(self, config: Mapping[str, Any], review: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        """The webhook's response to a review, within real `seconds`. Raises CallError."""
        verify = _tls(config.get("caBundle") or "")
        hop = _Hop(f"{_address(config)}?timeout={max(1, -int(-seconds // 1))}s", "POST", orjson.dumps(review))
        try:
            async with asyncio.timeout(clock.scale_real_seconds(seconds)):
                status, headers, body = await self._exchange(hop, verify)
                for _ in range(_MAX_REDIRECTS):
                    if not hop.follow(status, headers):
                        break
                    status, headers, body = await self._exchange(hop, verify)
                else:
                    hop.stop(status, headers)
        except CallError as error:
            raise CallError(f'Post "{hop.url}": {error}') from error
        except TimeoutError as error:
            raise CallError(f'Post "{hop.url}": context deadline exceeded') from error
        except aiohttp.ClientConnectorCertificateError as error:
            parts = urlsplit(hop.url)
            find_address = partial(self._find_address, parts.hostname or "", parts.port or 443)
            problem = await certificate_problem(error.certificate_error, parts.hostname or "", find_address)
            raise CallError(f'Post "{hop.url}": tls: failed to verify certificate: {problem}') from error
        except aiohttp.ClientPayloadError as error:
            problem = "unexpected error when reading response body. Please retry. Original error: unexpected EOF"
            raise CallError(problem) from error
        except (aiohttp.ClientError, OSError, ssl.SSLError, ValueError) as error:
            raise CallError(f'Post "{hop.url}": {describe(error, urlsplit(hop.url).hostname or "")}') from error
        return await budget.run_by_size(len(body), partial(_read, status, headers, body))

    async def _exchange(self, hop: _Hop, verify: ssl.SSLContext) -> tuple[int, Mapping[str, str], bytes]:
        headers = {"content-type": "application/json", "accept": "application/json, */*", "user-agent": "kube-apiserver-admission"}
        url = URL(hop.url, encoded=True)
        async with self._open().request(
            hop.method, url, data=hop.body, headers=headers, ssl=verify, allow_redirects=False
        ) as response:
            chunks: list[bytes] = []
            size = 0
            async for chunk in response.content.iter_any():
                size += len(chunk)
                if size > _MAX_RESPONSE_BYTES:
                    raise CallError(f"the response exceeds {_MAX_RESPONSE_BYTES} bytes")
                chunks.append(chunk)
            return response.status, response.headers, b"".join(chunks)

    async def _find_address(self, host: str, port: int) -> tuple[str, int]:
        (address, *_) = await _ServiceResolver(self._resolve).resolve(host, port)
        return address["host"], address["port"]

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
