"""Requests of the attackers, counted by server and status."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from typing import Any

import aiohttp
import orjson

_TIMEOUT = 60.0
PROBLEM_BYTES = 300


class Figures:
    """What all attackers sent and received."""

    def __init__(self) -> None:
        self.statuses: Counter[tuple[str, str]] = Counter()
        self.problems: list[str] = []
        """Responses of the class 5xx, and checks of attacks that failed."""

    def count(self, server: str, status: int | str, subject: str = "", body: bytes = b"") -> None:
        self.statuses[server, str(status)] += 1
        if str(status).startswith("5") and str(status) != "501":
            self.problems.append(f"{server}: {subject[:PROBLEM_BYTES]}: {status} {body[:PROBLEM_BYTES]!r}")

    def total(self, prefix: str = "") -> int:
        return sum(count for (_, status), count in self.statuses.items() if status.startswith(prefix))


class Http:
    """A client of one server; a request that fails is counted, and has status 0."""

    def __init__(self, figures: Figures, server: str, url: str, token: str = "") -> None:
        self.figures, self.server, self.url = figures, server, url
        self.authorization = f"Bearer {token}" if token else ""
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        self._tls = tls if url.startswith("https") else None
        connector = aiohttp.TCPConnector(limit=0, ssl=tls)
        self.session = aiohttp.ClientSession(
            connector=connector, timeout=aiohttp.ClientTimeout(_TIMEOUT), max_line_size=1 << 16, max_field_size=1 << 16
        )

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, bytes]:
        data = body if isinstance(body, bytes) or body is None else orjson.dumps(body)
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            async with self.session.request(
                method,
                f"{self.url}{path}",
                data=data,
                headers={"content-type": kind, **self._credential(), **named},
                allow_redirects=False,
            ) as response:
                status, received = response.status, await response.read()
        except (aiohttp.ClientError, OSError) as error:
            self.figures.count(self.server, type(error).__name__)
            return 0, b""
        except TimeoutError:
            self.figures.count(self.server, "timeout")
            self.figures.problems.append(f"{self.server}: {method} {path[:PROBLEM_BYTES]}: no response in {_TIMEOUT:g} s")
            return 0, b""
        self.figures.count(self.server, status, f"{method} {path}", received)
        return status, received

    def _credential(self) -> dict[str, str]:
        return {"authorization": self.authorization} if self.authorization else {}

    async def open(self, data: bytes) -> asyncio.StreamWriter | None:
        """Open a connection that sends bytes and reads nothing; None if the server does not accept it."""
        host, _, port = self.url.partition("://")[2].partition(":")
        try:
            _, writer = await asyncio.wait_for(asyncio.open_connection(host, int(port), ssl=self._tls, limit=1024), _TIMEOUT)
        except (TimeoutError, OSError) as error:
            self.figures.count(self.server, type(error).__name__)
            return None
        writer.write(data)
        self.figures.count(self.server, "not read")
        return writer

    async def send_raw(self, data: bytes, *, seconds: float = 2.0) -> None:
        """Send bytes on a new connection and read what comes back, for a short time."""
        host, _, port = self.url.partition("://")[2].partition(":")
        status, received = "no response", b""
        try:
            reader, writer = await asyncio.wait_for(asyncio.open_connection(host, int(port), ssl=self._tls), seconds)
            try:
                writer.write(data)
                received = await asyncio.wait_for(reader.read(4096), seconds)
                status = received.split(b" ")[1].decode() if received.startswith(b"HTTP/") else status
            finally:
                writer.transport.abort()
        except (TimeoutError, OSError, IndexError):
            pass
        self.figures.count(self.server, status, repr(data[:80]), received)

    async def close(self) -> None:
        await self.session.close()
