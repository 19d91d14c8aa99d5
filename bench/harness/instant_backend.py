"""An HTTP backend with minimal overhead: it responds at once, or with a stream of chunks at a fixed interval.

    python -m bench.harness.instant_backend CHUNKS INTERVAL_SECONDS

It records when requests arrive, which shows what a load generator really sent: GET /arrivals returns and clears the times.
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
_CHUNK = (
    b'data: {"id":"bench","object":"chat.completion.chunk","created":1,"model":"bench",'
    b'"choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}\n\n'
)
_LAST = b"data: [DONE]\n\n"


def _response(body: bytes, content_type: bytes = b"application/json") -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s" % (content_type, len(body), body)


_CHAT_RESPONSE = _response(_CHAT)
_ARRIVALS = array("d")


def _encode_chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


class Connection(asyncio.Protocol):
    """One client connection."""

    def __init__(self, chunks: int, interval: float) -> None:
        self._chunks, self._interval = chunks, interval
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._is_arrivals = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports are not subclasses

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._is_arrivals = url == b"/arrivals"

    def on_message_complete(self) -> None:
        assert self._transport is not None
        if self._is_arrivals:
            self._transport.write(_response(_ARRIVALS.tobytes(), b"application/octet-stream"))
            del _ARRIVALS[:]
            return
        _ARRIVALS.append(perf_counter())
        if not self._chunks:
            self._transport.write(_CHAT_RESPONSE)
            return
        self._transport.write(_HEAD)
        self._send_chunks(self._chunks)

    def _send_chunks(self, left: int) -> None:
        assert self._transport is not None
        if self._transport.is_closing():
            return
        if left:
            self._transport.write(_encode_chunk(_CHUNK))
            asyncio.get_running_loop().call_later(self._interval, self._send_chunks, left - 1)
        else:
            self._transport.write(_encode_chunk(_LAST) + b"0\r\n\r\n")


async def main(chunks: int, interval: float) -> None:
    """Print the port and serve."""
    server = await asyncio.get_running_loop().create_server(lambda: Connection(chunks, interval), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), float(sys.argv[2])))
