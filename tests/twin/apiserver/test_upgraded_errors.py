"""Errors of a backend instead of an upgraded connection."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from sliceworks.base import clock
from sliceworks.base.transport import Request
from sliceworks.twin.apiserver.aggregation.upgrade import open_upgraded

HEAD = b"HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nConnection: keep-alive\r\n"


class Writer:
    def __init__(self) -> None:
        self.written = b""
        self.transport = SimpleNamespace(abort=lambda: None)

    def write(self, data: bytes) -> None:
        self.written += data


@pytest.mark.parametrize(
    ("rest", "ends", "seconds"),
    [
        (b"Content-Length: 2\r\n\r\nno", False, 0),
        (b"Content-Length: 2\r\n\r\nno and more", False, 0),
        (b"Transfer-Encoding: chunked\r\n\r\n1;x\r\nn\r\n1\r\no\r\n0\r\n\r\n", False, 0),
        (b"\r\nno", True, 0),
        (b"Content-Length: 3\r\n\r\nno", False, 10),
    ],
    ids=["length", "more", "chunked", "until-close", "hangs"],
)
def test_body_of_an_error_is_read_to_its_end(rest: bytes, ends: bool, seconds: float) -> None:
    async def main() -> None:
        reader, writer = asyncio.StreamReader(), Writer()
        reader.feed_data(HEAD + rest)
        if ends:
            reader.feed_eof()

        async def connect() -> tuple[Any, Any, str]:
            return reader, writer, "host:1"

        started = clock.loop_time()
        request = Request("POST", "/a", headers={"upgrade": "echo", "connection": "Upgrade"})
        response = await open_upgraded(SimpleNamespace(connect=connect), request, "/a", [])  # type: ignore[arg-type]
        assert (response.status, response.body) == (403, b"no")
        assert dict(response.headers) == {"content-type": "text/plain"}
        assert clock.loop_time() - started == seconds

    clock.run(main(), virtual=True)
