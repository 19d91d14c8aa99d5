"""proxy: one HTTP request to a pod or Service."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import aiohttp
from yarl import URL

from sliceworks.base import budget
from sliceworks.base.errors import ServiceUnavailable
from sliceworks.base.http.messages import HttpError
from sliceworks.base.transport import Response
from sliceworks.twin.apiserver.streaming.links import Links

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from sliceworks.base.transport import Request

_HOP_BY_HOP = frozenset(
    {
        "connection",
        "content-length",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers of one connection."""
_REPLACED = {"authorization", "host"}
_PRIVATE = ("impersonate-", "x-remote-")
_CHUNK = 64 * 1024
_MAX_PAGE = 4 * 1024 * 1024
"""Links of larger pages are not rewritten."""


def request_headers(request: Request) -> dict[str, str]:
    """The headers of a client for a backend: without its credentials, and without those of its connection."""
    dropped = _HOP_BY_HOP | _REPLACED | _named_hops(request.headers.get("connection", ""))
    return {name: value for name, value in request.headers.items() if name not in dropped and not name.startswith(_PRIVATE)}


def response_headers(response: aiohttp.ClientResponse) -> dict[str, str]:
    """The headers of a backend for a client. Repeated ones are separate lines of one value."""
    dropped = _HOP_BY_HOP | _named_hops(",".join(response.headers.getall("Connection", ())))
    headers: dict[str, str] = {}
    for name, value in response.headers.items():
        key = name.lower()
        if key not in dropped:
            headers[key] = f"{headers[key]}\n{value}" if key in headers else value
    return headers


def _named_hops(connection: str) -> set[str]:
    """The headers that a Connection header declares to be of one connection."""
    return {name.strip().lower() for name in connection.split(",")}


async def forward(request: Request, scheme: str, address: tuple[str, int], path: str) -> Response:
    """Send a request to an address, without the credentials of the client.

    Links and redirects of the response go through the proxy; other responses are streamed.
    """
    session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), timeout=aiohttp.ClientTimeout(), auto_decompress=False)
    url = URL.build(scheme=scheme, host=address[0], port=address[1], path=path, encoded=True).update_query(request.query)
    prefix = request.path.removesuffix(path).rstrip("/")
    try:
        response = await session.request(
            request.method,
            url,
            data=request.body or None,
            headers=request_headers(request) | {"x-forwarded-uri": prefix + path},
            allow_redirects=False,
            ssl=False,  # as kube-apiserver: certificates of pods are not verified
        )
        converted = await _convert(request, prefix, session, response)
    except (aiohttp.ClientError, OSError, ValueError) as error:
        await session.close()
        raise unreachable(*address, error) from error
    except BaseException:
        await session.close()
        raise
    if converted.stream is None:
        await session.close()
    return converted


async def _convert(request: Request, prefix: str, session: aiohttp.ClientSession, response: aiohttp.ClientResponse) -> Response:
    """The response for the client; one that is streamed closes the session at its end."""
    headers = response_headers(response)
    links = Links(prefix, {response.url.authority, response.url.host or "", request.headers.get("host", "")})
    if "location" in headers:
        headers["location"] = links.rewrite(headers["location"])
    if request.method == "HEAD":
        return Response(response.status, headers)
    if "location" in headers or not _is_page(headers):
        return Response(response.status, headers, stream=_stream(session, response))
    try:
        start = await _read(response, _MAX_PAGE)
    except BaseException:
        response.close()
        raise
    if not response.content.at_eof():
        return Response(response.status, headers, stream=_stream(session, response, start))
    return Response(response.status, headers, await budget.run_by_size(len(start), partial(_rewrite_page, links, start)))


def _rewrite_page(links: Links, page: bytes) -> bytes:
    return links.rewrite_page(page.decode(errors="surrogateescape")).encode(errors="surrogateescape")


def _is_page(headers: Mapping[str, str]) -> bool:
    return headers.get("content-type", "").partition(";")[0].strip() == "text/html" and "content-encoding" not in headers


async def _read(response: aiohttp.ClientResponse, size: int) -> bytes:
    """The start of a body, up to a size."""
    parts, length = [], 0
    while length < size and (part := await response.content.read(_CHUNK)):
        parts.append(part)
        length += len(part)
    return b"".join(parts)


def unreachable(host: str, port: int, error: Exception) -> ServiceUnavailable:
    """A pod or Service that does not respond."""
    reason = "connect: connection refused" if isinstance(error, ConnectionRefusedError) else str(error)
    return ServiceUnavailable(f"error trying to reach service: dial tcp {host}:{port}: {reason}")


async def _stream(session: aiohttp.ClientSession, response: aiohttp.ClientResponse, start: bytes = b"") -> AsyncIterator[bytes]:
    try:
        if start:
            yield start
        async for chunk in response.content.iter_chunked(_CHUNK):
            yield chunk
    except (aiohttp.ClientError, OSError) as error:
        raise HttpError(502, "bad_gateway", "the response of the backend was cut") from error
    finally:
        response.close()
        await session.close()
