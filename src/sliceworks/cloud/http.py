"""HTTP by aiohttp: the transport to a Google API or a custom endpoint, and Google's metadata server."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from sliceworks.base import clock
from sliceworks.base.errors import Unreachable, UsageError
from sliceworks.base.transport import Response

if TYPE_CHECKING:
    from sliceworks.base.transport import Request

_REQUEST_SECONDS, _CONNECT_SECONDS = 60.0, 10.0
_TLS_CLOSE_SECONDS = 0.05  # aiohttp closes TLS connections in the background; a loop that ends before that logs errors


def _timeout() -> aiohttp.ClientTimeout:
    """Servers run in real time, whatever the speed of the loop's clock."""
    total, connect = (clock.scale_real_seconds(seconds) for seconds in (_REQUEST_SECONDS, _CONNECT_SECONDS))
    return aiohttp.ClientTimeout(total=total, sock_connect=connect)


class HttpTransport:
    """A connection pool to one host, opened by the first request."""

    def __init__(self, base: str) -> None:
        parts = urlsplit(base)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"endpoint {base!r} is not a valid URL", hint="use a URL such as https://container.googleapis.com")
        self._base = base.rstrip("/")
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    async def send(self, request: Request, *, stream: bool = False) -> Response:
        """Send one request and read the whole response; streams are not supported."""
        if stream:
            raise NotImplementedError("streams of Google APIs are not supported")
        session = self._open()
        try:
            async with session.request(
                request.method,
                URL(self._base + request.target, encoded=True),
                data=request.body or None,
                headers=dict(request.headers),
                allow_redirects=False,
                timeout=_timeout(),
            ) as response:
                headers = {name.lower(): value for name, value in response.headers.items()}
                return Response(response.status, headers, await response.read())
        except TimeoutError as error:
            raise Unreachable(f"timed out waiting for {self._base}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unreachable(f"cannot reach {self._base}: {str(error) or type(error).__name__}") from error

    async def close(self) -> None:
        """Close the connections."""
        self._closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()
            await asyncio.sleep(clock.scale_real_seconds(_TLS_CLOSE_SECONDS))

    def _open(self) -> aiohttp.ClientSession:
        if self._closed:
            raise Unreachable(f"connection to {self._base} is closed")
        if self._session is None:
            # Use the proxy of the environment: many clusters reach Google only through one.
            self._session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar(), trust_env=True)
        return self._session


_METADATA_TIMEOUT = aiohttp.ClientTimeout(total=2)
_METADATA_PATHS = {
    "project": "project/project-id",
    "cluster": "instance/attributes/cluster-name",
    "location": "instance/attributes/cluster-location",
    "zone": "instance/zone",
}


@dataclass(frozen=True, slots=True)
class InstanceMetadata:
    """Project, cluster, cluster location and zone of the VM; unknown values are empty."""

    project: str = ""
    cluster: str = ""
    location: str = ""
    zone: str = ""


async def read_metadata(host: str = "") -> InstanceMetadata:
    """Read the metadata server; all values are empty if there is none."""
    host = host or os.environ.get("GCE_METADATA_HOST") or "metadata.google.internal"
    values: dict[str, str] = {}
    async with aiohttp.ClientSession(timeout=_METADATA_TIMEOUT, headers={"metadata-flavor": "Google"}) as session:
        for name, path in _METADATA_PATHS.items():
            try:
                async with session.get(f"http://{host}/computeMetadata/v1/{path}") as response:
                    if response.status == 200 and response.headers.get("metadata-flavor") == "Google":
                        values[name] = (await response.text()).strip().rpartition("/")[2]
            except (aiohttp.ClientError, OSError, TimeoutError):
                break
    return InstanceMetadata(**values)
