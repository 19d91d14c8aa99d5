"""proxy: one HTTP request to a pod or Service."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp
from yarl import URL

from sliceworks.base.errors import ServiceUnavailable
from sliceworks.base.transport import Response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sliceworks.base.transport import Request

_NOT_FORWARDED = frozenset(
    {"authorization", "connection", "content-length", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
_CHUNK = 64 * 1024


async def forward(request: Request, scheme: str, address: tuple[str, int], path: str) -> Response:
    """Send a request to an address, without the credentials of the client; the response is streamed."""
    host, port = address
    session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), timeout=aiohttp.ClientTimeout(), auto_decompress=False)
    try:
        response = await session.request(
            request.method,
            URL.build(scheme=scheme, host=host, port=port, path=path, encoded=True).update_query(request.query),
            data=request.body or None,
            headers={name: value for name, value in request.headers.items() if not _is_private(name)},
            allow_redirects=False,
            ssl=False,  # as kube-apiserver: certificates of pods are not verified
        )
    except (aiohttp.ClientError, OSError, ValueError) as error:
        await session.close()
        raise unreachable(host, port, error) from error
    headers = {name.lower(): value for name, value in response.headers.items() if name.lower() not in _NOT_FORWARDED}
    return Response(response.status, headers, stream=_stream(session, response))


def unreachable(host: str, port: int, error: Exception) -> ServiceUnavailable:
    """A pod or Service that does not respond."""
    reason = "connect: connection refused" if isinstance(error, ConnectionRefusedError) else str(error)
    return ServiceUnavailable(f"error trying to reach service: dial tcp {host}:{port}: {reason}")


def _is_private(name: str) -> bool:
    return name in _NOT_FORWARDED or name.startswith("impersonate-")


async def _stream(session: aiohttp.ClientSession, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for chunk in response.content.iter_chunked(_CHUNK):
            yield chunk
    finally:
        await session.close()
