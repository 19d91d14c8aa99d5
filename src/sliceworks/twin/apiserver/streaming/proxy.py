"""proxy: one HTTP request to a pod or Service."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp
from yarl import URL

from sliceworks.base.errors import ServiceUnavailable
from sliceworks.base.transport import Response
from sliceworks.twin.apiserver.streaming.links import Links

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from sliceworks.base.transport import Request

_NOT_FORWARDED = frozenset(
    {"authorization", "connection", "content-length", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
_CHUNK = 64 * 1024
_MAX_PAGE = 4 * 1024 * 1024
"""Links of larger pages are not rewritten."""


async def forward(request: Request, scheme: str, address: tuple[str, int], path: str) -> Response:
    """Send a request to an address, without the credentials of the client.

    Links and redirects of the response go through the proxy; other responses are streamed.
    """
    host, port = address
    prefix = request.path.removesuffix(path).rstrip("/")
    forwarded = {"x-forwarded-uri": prefix + path}
    session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), timeout=aiohttp.ClientTimeout(), auto_decompress=False)
    try:
        response = await session.request(
            request.method,
            URL.build(scheme=scheme, host=host, port=port, path=path, encoded=True).update_query(request.query),
            data=request.body or None,
            headers={name: value for name, value in request.headers.items() if not _is_private(name)} | forwarded,
            allow_redirects=False,
            ssl=False,  # as kube-apiserver: certificates of pods are not verified
        )
    except (aiohttp.ClientError, OSError, ValueError) as error:
        await session.close()
        raise unreachable(host, port, error) from error
    headers = {name.lower(): value for name, value in response.headers.items() if name.lower() not in _NOT_FORWARDED}
    links = Links(prefix, {f"{host}:{port}", host, request.headers.get("host", "")})
    if "location" in headers:
        headers["location"] = links.rewrite(headers["location"])
    if request.method == "HEAD":
        await session.close()
        return Response(response.status, headers)
    if "location" not in headers and _is_page(headers):
        start = await _read(response, _MAX_PAGE)
        if response.content.at_eof():
            await session.close()
            return Response(
                response.status,
                headers,
                links.rewrite_page(start.decode(errors="surrogateescape")).encode(errors="surrogateescape"),
            )
        return Response(response.status, headers, stream=_stream(session, response, start))
    return Response(response.status, headers, stream=_stream(session, response))


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


def _is_private(name: str) -> bool:
    return name in _NOT_FORWARDED or name.startswith("impersonate-")


async def _stream(session: aiohttp.ClientSession, response: aiohttp.ClientResponse, start: bytes = b"") -> AsyncIterator[bytes]:
    try:
        if start:
            yield start
        async for chunk in response.content.iter_chunked(_CHUNK):
            yield chunk
    finally:
        await session.close()
