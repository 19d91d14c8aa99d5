"""The small pages of a controller: whether it lives, whether it is ready, and its numbers. Plain HTTP, GET only."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from sliceworks.base.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Page = Callable[[], "Answer"]

_PATIENCE = 10.0
_LONGEST_HEAD = 1 << 14
_REASONS = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 500: "Internal Server Error"}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a page says."""

    text: str
    status: int = 200
    type: str = "text/plain; charset=utf-8"


class PageServer:
    """Serves pages at an address while it is entered."""

    def __init__(self, address: str, pages: Mapping[str, Page]) -> None:
        self._host, self._port = parse_address(address)
        self._pages = pages
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The port it listens on."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, self._host, self._port, limit=_LONGEST_HEAD)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(_PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
                answer = self._answer(head.split(b"\r\n", 1)[0].decode("latin-1").split(" "))
                writer.write(_written(answer))
                await writer.drain()
        with contextlib.suppress(OSError):
            writer.close()

    def _answer(self, line: list[str]) -> Answer:
        if len(line) != 3 or line[0] not in ("GET", "HEAD"):
            return Answer("only GET is served here\n", 405)
        page = self._pages.get(line[1].partition("?")[0])
        return page() if page is not None else Answer("there is no such page\n", 404)


def health(ready: Callable[[], bool]) -> dict[str, Page]:
    """The pages of probes."""

    def readiness() -> Answer:
        return Answer("ok") if ready() else Answer("not ready yet\n", 500)

    return {"/healthz": lambda: Answer("ok"), "/readyz": readiness}


def numbers(text: Callable[[], str]) -> dict[str, Page]:
    """The page that Prometheus reads."""
    return {"/metrics": lambda: Answer(text(), type="text/plain; version=0.0.4; charset=utf-8")}


def parse_address(address: str) -> tuple[str | None, int]:
    """Host and port of `host:port`; nothing before the colon means every address of this machine."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise UsageError(f"{address!r} is no address such as 127.0.0.1:8078, 0.0.0.0:8078 or :8078")
    return host.strip("[]") or None, int(port)


def _written(answer: Answer) -> bytes:
    body = answer.text.encode()
    head = (
        f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}\r\ncontent-type: {answer.type}\r\n"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return head.encode() + body
