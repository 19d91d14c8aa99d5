"""One client of the server: bytes in, requests to the handler one after another, answers out in the same order."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl

import httptools
import orjson

from sliceworks.base.errors import ApiError, BadRequest, MethodNotAllowed, RequestEntityTooLarge
from sliceworks.kube.transport import Request, Response
from sliceworks.twin.api.heads import head, path_of
from sliceworks.twin.auth.certificates import user_of

if TYPE_CHECKING:
    from sliceworks.twin.api.server import Server
    from sliceworks.twin.auth.identity import User

log = logging.getLogger("sliceworks.twin.server")

_NEVER = float("inf")
_SLICE = 256 * 1024
_HEADER_BYTES = 32
"""What a header counts beside its name and value: many empty ones cost as well."""
_READ_BYTES = 256 * 1024
"""The most that is read at once, and may belong to an earlier request."""


class Connection(asyncio.Protocol):
    """Parses, queues and answers. `deadline` is when its time is up."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._limits = server.limits
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._waiting: deque[tuple[Request, bool, bool] | ApiError] = deque()
        self._task: asyncio.Task[None] | None = None
        self._full: asyncio.Future[None] | None = None
        self._streaming = self._finishing = self._discarding = self._closing = False
        self._user: User | None = None
        self._last_data = self._loop.time()
        self.deadline = self._last_data + self._limits.request
        self._begin()

    def _begin(self) -> None:
        self._receiving = self._in_body = False
        self._url = b""
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._head_size = self._body_size = self._raw_size = 0

    # What the transport tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._server.connections.add(self)
        self._user = user_of(transport.get_extra_info("peercert"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)
        self._closing = True
        # The parser knows its connection: apart, both go at once and take their buffers along, and need no collector for it.
        del self._parser
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        self._full = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._full is not None and not self._full.done():
            self._full.set_result(None)
        self._full = None

    def data_received(self, data: bytes) -> None:
        if self._closing or self._discarding:
            self._last_data = self._loop.time()
            return
        try:
            self._parser.feed_data(data)
            self._count_raw(len(data))
        except httptools.HttpParserUpgrade:
            self._discarding = True
        except httptools.HttpParserCallbackError as error:
            self._refuse(error.__context__ if isinstance(error.__context__, ApiError) else BadRequest("malformed request"))
        except httptools.HttpParserInvalidMethodError:
            self._refuse(MethodNotAllowed("the server does not allow this method on the requested resource", details={}))
        except httptools.HttpParserError:
            self._refuse(BadRequest("malformed HTTP request"))
        except ApiError as error:
            self._refuse(error)

    # What the parser tells.

    def on_message_begin(self) -> None:
        self._begin()
        self._receiving = True
        if self._task is None:
            self.deadline = self._loop.time() + self._limits.request

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._count_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_head(len(name) + len(value) + _HEADER_BYTES)
        if self._in_body:
            return  # Trailers are read and left alone.
        key, text = name.decode("latin-1").lower(), value.decode("latin-1").rstrip(" \t")
        known = self._headers.get(key)
        if known is not None:
            # A name to act as may hold a comma, but no header holds a line feed.
            text = f"{known}\n{text}" if key.startswith("impersonate-") else f"{known}, {text}"
        self._headers[key] = text

    def _count_head(self, size: int) -> None:
        self._head_size += size
        if self._head_size > self._limits.head:
            raise BadRequest("request header fields are too large", code=431, reason="RequestHeaderFieldsTooLarge")

    def _count_raw(self, size: int) -> None:
        """The parser gathers what is not complete, such as a header's value: that has an end, too."""
        self._raw_size += size
        if self._in_body:
            if self._raw_size > 8 * self._limits.body + self._limits.head + _READ_BYTES:
                raise self._too_large()
        elif self._raw_size > self._limits.head + _READ_BYTES:
            self._count_head(self._raw_size)

    def on_headers_complete(self) -> None:
        self._in_body = True
        length = self._headers.get("content-length")
        if length is not None and int(length) > self._limits.body:
            raise self._too_large()
        if "host" not in self._headers and self._parser.get_http_version() != "1.0":
            raise BadRequest("missing required Host header")
        # An interim answer must not overtake the answers to earlier requests; a client goes on without one after a while.
        if "expect" in self._headers and self._headers["expect"].lower() == "100-continue" and self._task is None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._body_size += len(body)
        if self._body_size > self._limits.body:
            raise self._too_large()
        self._body.append(body)

    def _too_large(self) -> RequestEntityTooLarge:
        return RequestEntityTooLarge(f"Request entity too large: limit is {self._limits.body}")

    def on_message_complete(self) -> None:
        path, _, query = self._url.partition(b"?")
        parser = self._parser
        request = Request(
            parser.get_method().decode("latin-1"),
            path_of(path),
            tuple(parse_qsl(query.decode("latin-1"), keep_blank_values=True, max_num_fields=200)) if query else (),
            self._headers,
            b"".join(self._body),
        )
        keep = parser.should_keep_alive() and not parser.should_upgrade()
        self._queue((request, keep, parser.get_http_version() != "1.0"))
        self._receiving = self._in_body = False
        self._raw_size = 0

    # Answering.

    def _refuse(self, error: ApiError) -> None:
        """Answer what cannot be read, let the rest of it go by, and hang up."""
        self._discarding = True
        self._last_data = self._loop.time()
        self._queue(error)

    def _queue(self, item: tuple[Request, bool, bool] | ApiError) -> None:
        self._waiting.append(item)
        if self._task is None:
            self._task = self._loop.create_task(self._work())
        elif len(self._waiting) >= self._limits.ahead:
            # Behind a stream nobody queues for long: and only who reads notices that the client has left.
            self.end() if self._streaming else self._transport.pause_reading()

    async def _work(self) -> None:
        try:
            while self._waiting and not self._closing:
                item = self._waiting.popleft()
                if len(self._waiting) == self._limits.ahead - 1:
                    self._transport.resume_reading()
                self.deadline = _NEVER
                if isinstance(item, ApiError):
                    await self._answer_refusal(item)
                else:
                    await self._answer(*item)
            if not self._closing:
                self.deadline = self._loop.time() + (self._limits.request if self._receiving else self._limits.idle)
        except Exception:
            log.exception("a connection failed")
            self.end()
        finally:
            self._task = None

    async def _answer_refusal(self, error: ApiError) -> None:
        """Say no to a client that may still be sending, so that it can read the answer before the line drops."""
        self.deadline = self._loop.time() + self._limits.discard
        await self._send(Response(error.code, {"content-type": "application/json"}, orjson.dumps(error.status())), "", keep=False)
        quiet = self._limits.quiet
        while self._loop.time() < min(self._last_data + quiet, self.deadline):
            await asyncio.sleep(quiet / 4)
        self._close()

    async def _answer(self, request: Request, keep: bool, chunked: bool) -> None:
        response = await self._server.handler(request, self._user)
        keep = keep and not self._finishing
        if response.stream is None:
            await self._send(response, request.method, keep=keep)
        else:
            keep = keep and chunked
            await self._stream(response, request.method, keep=keep, chunked=chunked)
        if not keep or self._finishing:
            self._close()

    async def _send(self, response: Response, method: str, *, keep: bool) -> None:
        length = b"content-length: %d\r\n\r\n" % len(response.body) if response.status not in {204, 304} else b"\r\n"
        start, body = head(response, keep=keep) + length, response.body
        if method == "HEAD" or not body:
            self._transport.write(start)
        elif len(body) <= _SLICE:
            self._transport.write(start + body)
        else:
            self._transport.write(start)
            view = memoryview(body)
            for at in range(0, len(body), _SLICE):
                await self._taken()
                self._transport.write(view[at : at + _SLICE])
        await self._taken()

    async def _stream(self, response: Response, method: str, *, keep: bool, chunked: bool) -> None:
        stream = cast("Any", response.stream)
        self._streaming = True
        self._transport.resume_reading()
        try:
            self._transport.write(head(response, keep=keep) + (b"transfer-encoding: chunked\r\n\r\n" if chunked else b"\r\n"))
            if method == "HEAD":
                return
            async for chunk in stream:
                self._transport.write(b"%x\r\n%b\r\n" % (len(chunk), chunk) if chunked else chunk)
                await self._taken()
        except asyncio.CancelledError:
            if self._closing or not self._finishing:
                raise
        finally:
            self._streaming = False
            await stream.aclose()
        if chunked:
            self._transport.write(b"0\r\n\r\n")

    async def _taken(self) -> None:
        """Wait for a client that has not read yet what it was sent."""
        if self._full is not None:
            self.deadline = self._loop.time() + self._limits.stalled
            await self._full
            self.deadline = _NEVER

    # The end.

    def finish(self) -> asyncio.Task[None] | None:
        """Take no more requests; returns the task that still answers one. A stream ends as if it had come to its end."""
        self._finishing = self._discarding = True
        self._waiting.clear()
        if self._task is None:
            self._close()
        elif self._streaming:
            self._task.cancel()
        return self._task

    def expire(self) -> None:
        """Its time is up: hang up, and drop the line when that does not help."""
        if self._closing:
            self.end()
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
