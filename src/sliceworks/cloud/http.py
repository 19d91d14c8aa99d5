"""The transport that speaks HTTP to Google, or to whatever answers at an endpoint of one's own."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from sliceworks.base.errors import Unreachable, UsageError
from sliceworks.cloud.transport import Response

if TYPE_CHECKING:
    from sliceworks.cloud.transport import Request

_TIMEOUT = aiohttp.ClientTimeout(total=60, sock_connect=10)
_GOODBYE = 0.05  # TLS says goodbye in the background; a loop that ends before that complains


class HttpTransport:
    """Keeps connections to one host. It opens the first with the first request."""

    def __init__(self, base: str) -> None:
        parts = urlsplit(base)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"{base!r} is no address of an API", hint="give one such as https://container.googleapis.com")
        self._base = base.rstrip("/")
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    async def send(self, request: Request) -> Response:
        """Send one request and read the whole answer."""
        session = self._open()
        try:
            async with session.request(
                request.method,
                URL(self._base + request.target, encoded=True),
                data=request.body or None,
                headers=dict(request.headers),
                allow_redirects=False,
            ) as answer:
                headers = {name.lower(): value for name, value in answer.headers.items()}
                return Response(answer.status, headers, await answer.read())
        except TimeoutError as error:
            raise Unreachable(f"{self._base} did not answer in time") from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(f"cannot reach {self._base}: {str(error) or type(error).__name__}") from error

    async def close(self) -> None:
        """Close the connections."""
        self._closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()
            await asyncio.sleep(_GOODBYE)

    def _open(self) -> aiohttp.ClientSession:
        if self._closed:
            raise Unreachable(f"the connection to {self._base} is closed")
        if self._session is None:
            # Proxies of the environment are obeyed: many clusters reach Google only through one.
            self._session = aiohttp.ClientSession(timeout=_TIMEOUT, cookie_jar=aiohttp.DummyCookieJar(), trust_env=True)
        return self._session
