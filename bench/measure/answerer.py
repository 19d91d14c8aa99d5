"""A server that does as little as a server can: it answers every request at once, or with so many pieces, so far apart.

python -m bench.measure.answerer PIECES SECONDS_BETWEEN
"""

from __future__ import annotations

import asyncio
import sys
from typing import cast

import httptools
import uvloop

_WHOLE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_PIECE = b'data: {"choices":[{"index":0,"delta":{"content":"word "}}]}\n\n'
_LAST = b"data: [DONE]\n\n"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class Connection(asyncio.Protocol):
    """One client."""

    def __init__(self, pieces: int, gap: float) -> None:
        self._pieces, self._gap = pieces, gap
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by birth

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        assert self._transport is not None
        if not self._pieces:
            self._transport.write(_WHOLE)
            return
        self._transport.write(_HEAD)
        self._next(self._pieces)

    def _next(self, left: int) -> None:
        assert self._transport is not None
        if self._transport.is_closing():
            return
        if left:
            self._transport.write(_chunk(_PIECE))
            asyncio.get_running_loop().call_later(self._gap, self._next, left - 1)
        else:
            self._transport.write(_chunk(_LAST) + b"0\r\n\r\n")


async def main(pieces: int, gap: float) -> None:
    """Serve, and print the port."""
    server = await asyncio.get_running_loop().create_server(lambda: Connection(pieces, gap), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), float(sys.argv[2])))
