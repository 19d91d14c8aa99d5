"""One client of the server: bytes in, requests to the application one after another, answers out in the same order."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, cast

import httptools

from sliceworks.base import clock, sockets
from sliceworks.serving.gateway.http.messages import JSON, Request, split_target
from sliceworks.serving.gateway.http.reply import Reply
from sliceworks.serving.gateway.refusals import Refusal, malformed, too_large

if TYPE_CHECKING:
    from sliceworks.serving.gateway.http.server import Server

log = logging.getLogger("sliceworks.gateway.http")

_NEVER = float("inf")
_HEADER_BYTES = 32
"""What a header counts beside its name and value: many empty ones cost as well."""
_READ_BYTES = 256 * 1024
"""The most that is read at once, and may belong to an earlier request."""
_LARGE = 64 * 1024
"""Bodies beyond this are received where they are kept: they are copied nowhere and the parser does not see them."""
_SWALLOWED = 64 * 1024
"""Bodies up to this are read to their end although the request was refused, so that the line can be used again."""


class Connection(asyncio.BufferedProtocol):
    """Parses, queues and answers. `deadline` is when its time is up; one that the client drops cancels the request under way."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._limits = server.limits
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: deque[tuple[Request | Refusal, str, bool, bool]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._reply: Reply | None = None
        self.full = self.finishing = self._deaf = self._closing = False
        self._last_data = self._loop.time()
        self.deadline = self._last_data + self._limits.request
        self._begin()

    def _begin(self) -> None:
        self._receiving = self._in_body = False
        self._url = b""
        self._path = self._query = ""
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._head_size = self._body_size = self._raw_size = 0
        self._large: bytearray | None = None
        self._began = 0.0
        self._who: object = None
        self._refused: Refusal | None = None

    @property
    def busy(self) -> bool:
        """Whether a request is under way."""
        return self._task is not None

    # What the transport tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.number = sockets.number_of(transport)
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)
        self._closing = True
        # The parser knows its connection: apart, both go at once and take their buffers along, and need no collector for it.
        del self._parser
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        self.full = True
        self.deadline = self._loop.time() + self._limits.stalled

    def resume_writing(self) -> None:
        self.full = False
        self.deadline = _NEVER if self._task is not None else self._loop.time() + self._limits.idle
        if self._reply is not None and self._reply.on_room is not None:
            self._reply.on_room()

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._large is not None and not self._deaf:
            return memoryview(self._large)[self._body_size :]
        # One for all: what it holds is used up before anybody else reads.
        return self._server.buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._closing or self._deaf:
            self._last_data = self._loop.time()
            return
        if self._large is not None:
            self._more_of_large(nbytes)
            return
        try:
            self._parser.feed_data(self._server.buffer[:nbytes])
            self._count_raw(nbytes)
        except httptools.HttpParserUpgrade:
            self._deaf = True
        except httptools.HttpParserCallbackError as error:
            found = error.__context__
            self._refuse(found if isinstance(found, Refusal) else malformed("the request cannot be read"))
        except httptools.HttpParserError:
            self._refuse(malformed("this is not HTTP"))
        except Refusal as refusal:
            self._refuse(refusal)

    # What the parser tells.

    def on_message_begin(self) -> None:
        self._begin()
        self._receiving = True
        self._began = self._loop.time()
        if self._task is None:
            self.deadline = self._began + self._limits.request

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._count_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_head(len(name) + len(value) + _HEADER_BYTES)
        if self._in_body:
            return  # Trailers are read and left alone.
        key, text = name.decode("latin-1").lower(), value.decode("latin-1").rstrip(" \t")
        known = self._headers.get(key)
        self._headers[key] = text if known is None else f"{known}, {text}"

    def _count_head(self, size: int) -> None:
        self._head_size += size
        if self._head_size > self._limits.head:
            raise Refusal(431, "head_too_large", f"the head of the request is larger than {self._limits.head} bytes")

    def _count_raw(self, size: int) -> None:
        """The parser gathers what is not complete, such as a header's value: that has an end, too."""
        self._raw_size += size
        if self._in_body:
            if self._raw_size > 8 * self._limits.body + self._limits.head + _READ_BYTES:
                raise too_large(self._limits.body)
        elif self._raw_size > self._limits.head + _READ_BYTES:
            self._count_head(self._raw_size)

    def on_headers_complete(self) -> None:
        self._in_body = True
        self._path, self._query = split_target(self._url)
        length = int(self._headers.get("content-length") or 0)
        if length > self._limits.body:
            raise too_large(self._limits.body)
        if "host" not in self._headers and self._parser.get_http_version() != "1.0":
            raise malformed("the Host header is missing")
        try:
            self._who = self._server.application.screen(self._parser.get_method().decode("latin-1"), self._path, self._headers)
        except Refusal as refusal:
            if length > _SWALLOWED or "transfer-encoding" in self._headers or "expect" in self._headers:
                raise
            self._refused = refusal
        if self._headers.get("expect", "").lower() == "100-continue" and self._task is None:
            # An interim answer must not overtake the answers to earlier requests; a client goes on without one after a while.
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._body_size += len(body)
        if self._body_size > self._limits.body:
            raise too_large(self._limits.body)
        length = int(self._headers.get("content-length") or 0)
        if self._refused is None and length - len(body) > _LARGE and not self._body:
            self._large = bytearray(length)
            self._large[: len(body)] = body
        elif self._refused is None:
            self._body.append(body)
        self._give_time()

    def _give_time(self) -> None:
        """Each piece of a body gives more time, up to an end."""
        if self._task is None:
            now = self._loop.time()
            self.deadline = min(now + self._limits.request, self._began + self._limits.upload)

    def _more_of_large(self, size: int) -> None:
        assert self._large is not None
        self._body_size += size
        self._give_time()
        if self._body_size == len(self._large):
            self._complete(self._large)
            # The parser still waits for what it was not shown.
            self._parser = httptools.HttpRequestParser(self)

    def on_message_complete(self) -> None:
        body = self._body
        self._complete(body[0] if len(body) == 1 else b"".join(body))

    def _complete(self, body: bytes | bytearray) -> None:
        parser = self._parser
        request = Request(parser.get_method().decode("latin-1"), self._path, self._query, self._headers, cast("bytes", body))
        request.arrived, request.who = clock.effort(), self._who
        keep = parser.should_keep_alive() and not parser.should_upgrade()
        self._queue(self._refused or request, keep, parser.get_http_version() != "1.0")
        self._receiving = self._in_body = False
        self._body = []
        self._large = None
        self._raw_size = 0

    # Answering.

    def _refuse(self, refusal: Refusal) -> None:
        """Answer what cannot be read, let the rest of it go by, and hang up."""
        self._deaf = True
        self._last_data = self._loop.time()
        self._queue(refusal, False, True)

    def _queue(self, item: Request | Refusal, keep: bool, chunked: bool) -> None:
        self._waiting.append((item, self._path, keep, chunked))
        if self._task is None:
            self._task = self._loop.create_task(self._work())
        elif len(self._waiting) >= self._limits.ahead:
            self._transport.pause_reading()

    async def _work(self) -> None:
        try:
            while self._waiting and not self._closing:
                item, path, keep, chunked = self._waiting.popleft()
                if len(self._waiting) == self._limits.ahead - 1:
                    self._transport.resume_reading()
                self.deadline = _NEVER
                await self._answer(item, path, Reply(self, self._transport, keep=keep and not self.finishing, chunked=chunked))
            if not self._closing:
                self.deadline = self._loop.time() + (self._limits.request if self._receiving else self._limits.idle)
        finally:
            self._task = None

    async def _answer(self, item: Request | Refusal, path: str, reply: Reply) -> None:
        self._reply = reply
        try:
            if isinstance(item, Refusal):
                raise item
            await self._server.application.handle(item, reply)
        except Refusal as refusal:
            self._say_no(path, refusal, reply)
        except Exception:
            log.exception("a request failed")
            self._say_no(path, Refusal(500, "internal_error", "the gateway failed: its log says why"), reply)
        finally:
            self._reply = None
        if not reply.ended:
            reply.end() if reply.started else self.end()
        if self._deaf and not reply.keep:
            await self._until_quiet()
        if not reply.keep or self.finishing:
            self._close()

    def _say_no(self, path: str, refusal: Refusal, reply: Reply) -> None:
        if reply.started:
            self.end()
        else:
            reply.send(refusal.status, [JSON, *refusal.headers], self._server.application.refuse(path, refusal))

    async def _until_quiet(self) -> None:
        """A client that still sends could not read the answer if the line dropped under it."""
        until = self._loop.time() + self._limits.stalled
        while not self._closing and self._loop.time() < min(self._last_data + self._limits.quiet, until):
            await asyncio.sleep(self._limits.quiet / 4)

    def finish(self) -> asyncio.Task[None] | None:
        """Take no more requests; returns the task that still answers one."""
        self.finishing = self._deaf = True
        self._waiting.clear()
        if self._task is None:
            self._close()
        return self._task

    def expire(self) -> None:
        """Its time is up: hang up, and drop the line when that does not help."""
        if self._closing or self.full:
            self.end()
        elif self._receiving and self._task is None:
            self._refuse(Refusal(408, "request_timeout", "the request did not come to its end in time"))
        else:
            self._close()
            self.deadline = self._loop.time() + self._limits.quiet

    def _close(self) -> None:
        """Hang up once the client has read what it was sent."""
        self._closing = True
        self.deadline = self._loop.time() + self._limits.stalled
        self._transport.close()

    def end(self) -> None:
        """Drop the line."""
        self._closing = True
        self._transport.abort()
