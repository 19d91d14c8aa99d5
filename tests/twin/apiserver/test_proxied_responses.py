"""Responses of pods and Services behind the proxy: repeated headers, cut bodies, and clients that disconnect."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from sliceworks.base.errors import ServiceUnavailable
from sliceworks.base.http.messages import HttpError
from sliceworks.base.transport import Request
from sliceworks.twin.apiserver.streaming import proxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sliceworks.base.transport import Response

PATH = "/api/v1/namespaces/default/pods/web/proxy/"


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[aiohttp.ClientSession]:
    """The sessions that were opened."""
    opened: list[aiohttp.ClientSession] = []

    def record(**options: Any) -> aiohttp.ClientSession:
        opened.append(real(**options))
        return opened[-1]

    real = aiohttp.ClientSession
    monkeypatch.setattr(aiohttp, "ClientSession", record)
    return opened


class Pod:
    """Answers the first request with these bytes, and closes the connection if they are not empty."""

    def __init__(self, answer: bytes) -> None:
        self.answer, self.head = answer, b""
        self.asked = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.head = await reader.readuntil(b"\r\n\r\n")
        self.asked.set()
        writer.write(self.answer)
        if not self.answer:
            await reader.read()
        writer.close()

    @asynccontextmanager
    async def listen(self) -> AsyncIterator[tuple[str, int]]:
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        try:
            yield "127.0.0.1", server.sockets[0].getsockname()[1]
        finally:
            server.close()


async def forward(pod: Pod, **headers: str) -> Response:
    async with pod.listen() as address:
        return await proxy.forward(Request("GET", PATH, headers=headers), "http", address, "/")


def test_headers_of_both_directions(sessions: list[aiohttp.ClientSession]) -> None:
    async def main() -> None:
        answer = b"HTTP/1.1 204 No Content\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\n\r\n"
        pod = Pod(answer)
        private = {
            "authorization": "Bearer x",
            "x-remote-user": "admin",
            "impersonate-user": "admin",
            "connection": "X-Own",
            "x-own": "1",
        }
        response = await forward(pod, accept="text/html", **private)
        assert response.headers["set-cookie"] == "a=1\nb=2"
        assert not {"connection", "x-hop"} & response.headers.keys()
        assert b"accept: text/html" in pod.head.lower()
        assert not [name for name in private if f"\r\n{name}:".encode() in pod.head.lower() and name != "connection"]
        assert response.stream is not None
        assert [chunk async for chunk in response.stream] == []
        assert sessions[0].closed

    asyncio.run(main())


def test_page_that_is_cut_is_unavailable(sessions: list[aiohttp.ClientSession]) -> None:
    async def main() -> None:
        with pytest.raises(ServiceUnavailable):
            await forward(Pod(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 9\r\n\r\n<a>"))
        assert sessions[0].closed

    asyncio.run(main())


def test_stream_that_is_cut_ends_the_connection_of_the_client(sessions: list[aiohttp.ClientSession]) -> None:
    async def main() -> None:
        response = await forward(Pod(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"))
        assert response.stream is not None
        with pytest.raises(HttpError):
            _ = [chunk async for chunk in response.stream]
        assert sessions[0].closed

    asyncio.run(main())


def test_client_that_disconnects_closes_the_connection_to_the_pod(sessions: list[aiohttp.ClientSession]) -> None:
    async def main() -> None:
        pod = Pod(b"")
        request = asyncio.create_task(forward(pod))
        await pod.asked.wait()
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
        assert sessions[0].closed

    asyncio.run(main())
