"""A server that does as little as a server can: it answers every request at once, or with so many pieces, so far apart.

    python -m bench.measure.answerer PIECES SECONDS_BETWEEN

It knows when each request came, and so can tell what a client really sent: GET /arrivals gives the moments since it was last asked.
"""

from __future__ import annotations

import asyncio
import sys
from array import array
from time import perf_counter
from typing import cast

import httptools
import uvloop

_CHAT = (
    b'{"id":"bench","object":"chat.completion","created":1,"model":"bench",'
    b'"choices":[{"index":0,"message":{"role":"assistant","content":"word"},"finish_reason":"stop"}]}'
)
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_PIECE = (
    b'data: {"id":"bench","object":"chat.completion.chunk","created":1,"model":"bench",'
    b'"choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}\n\n'
)
_LAST = b"data: [DONE]\n\n"


def _whole(body: bytes, kind: bytes = b"application/json") -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s" % (kind, len(body), body)


_WHOLE = _whole(_CHAT)
_ARRIVALS = array("d")


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class Connection(asyncio.Protocol):
    """One client."""

    def __init__(self, pieces: int, gap: float) -> None:
        self._pieces, self._gap = pieces, gap
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._asks = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by birth

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._asks = url == b"/arrivals"

    def on_message_complete(self) -> None:
        assert self._transport is not None
        if self._asks:
            self._transport.write(_whole(_ARRIVALS.tobytes(), b"application/octet-stream"))
            del _ARRIVALS[:]
            return
        _ARRIVALS.append(perf_counter())
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
