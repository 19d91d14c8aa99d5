"""One client connection: passes requests to the application one at a time and responds in the same order."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, cast

from sliceworks.base import sockets
from sliceworks.base.http.messages import HttpError, internal_server_error, request_timeout, too_many_connections
from sliceworks.base.http.request_parser import RequestParser
from sliceworks.base.http.response_writer import ResponseWriter

if TYPE_CHECKING:
    from sliceworks.base.http.messages import Request
    from sliceworks.base.http.server import Server

log = logging.getLogger("sliceworks.http")

_NEVER = float("inf")
_QUIET_SECONDS = 10.0
"""How long a client may keep an unused connection while others get none."""


class Connection(RequestParser):
    """Queues requests and runs the handler. The server expires it after `deadline`; a disconnect cancels the running handler."""

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self._pending: deque[tuple[Request | HttpError, str, bool, bool, bool]] = deque()
        self._response: ResponseWriter | None = None
        self.is_backlogged = self.finishing = self._has_served = False

    # Callbacks of the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.fileno = sockets.find_fileno(transport)
        self._server.connections.add(self)
        self._peer = self._server.application.on_connect(transport)
        if len(self._server.connections) > self._limits.connections and not self._server.replace_connection(self):
            self._reject(too_many_connections())

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)
        self.closing = True
        # Break the reference cycle with the parser, so that both and their buffers are freed without the garbage collector.
        del self._parser
        # A TLS transport keeps a reference until the collector runs: free the received parts of large requests now.
        self._pending.clear()
        self._reset()
        if self.upgraded is not None:
            self.upgraded.feed_eof()
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        self.is_backlogged = True
        self.deadline = self._loop.time() + self._limits.stalled

    @property
    def is_replaceable(self) -> bool:
        """Whether the client has not completed a request yet, or sends none for a while."""
        if self._task is not None or self.closing:
            return False
        is_quiet = not self._receiving and self._loop.time() > self.deadline - self._limits.idle + _QUIET_SECONDS
        return not self._has_served or is_quiet

    def resume_writing(self) -> None:
        self.is_backlogged = False
        self.deadline = _NEVER if self._task is not None else self._loop.time() + self._limits.idle
        if self._response is not None and self._response.on_drain is not None:
            self._response.on_drain()

    # Handling of requests.

    def _queue(self, item: Request | HttpError, keep: bool, chunked: bool, bare: bool) -> None:
        self._pending.append((item, self._path, keep, chunked, bare))
        if self._task is None:
            self._task = self._loop.create_task(self._handle_pending())
        elif len(self._pending) >= self._limits.ahead:
            # Do not queue behind a stream, and keep reading during one: a disconnect is noticed only while reading.
            self.abort() if self._response is not None and self._response.streaming else self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Resume reading even if requests are queued."""
        self._transport.resume_reading()

    async def _handle_pending(self) -> None:
        try:
            while self._pending and not self.closing:
                item, path, keep, chunked, bare = self._pending.popleft()
                if len(self._pending) == self._limits.ahead - 1:
                    self._transport.resume_reading()
                self.deadline = _NEVER
                keep = keep and not self.finishing
                await self._handle(item, path, ResponseWriter(self, self._transport, keep=keep, chunked=chunked, bare=bare))
            self._has_served = True
            if not self.closing:
                self.deadline = self._loop.time() + (self._limits.request if self._receiving else self._limits.idle)
        except BaseException:
            self.abort()  # no task would handle further requests
            raise
        finally:
            self._task = None

    async def _handle(self, item: Request | HttpError, path: str, response: ResponseWriter) -> None:
        self._response = response
        try:
            if isinstance(item, HttpError):
                raise item
            await self._server.application.handle(item, response)
        except HttpError as error:
            self._write_error(path, error, response)
        except Exception:
            log.exception("request handler failed: %s", path)
            self._write_error(path, internal_server_error(), response)
        finally:
            self._response = None
        if not response.ended:
            response.end() if response.started else self.abort()
        if self.upgraded is not None:
            self.upgraded = None
            self._transport.resume_reading()
        if self._discarding and not response.keep and not self.finishing:
            await self._discard_input()
        if not response.keep or self.finishing:
            self._close()

    def _write_error(self, path: str, error: HttpError, response: ResponseWriter) -> None:
        if response.started:
            self.abort()
        else:
            self._server.application.write_error(path, error, response)

    async def _discard_input(self) -> None:
        """Let the client finish sending: closing earlier could reset the connection before it reads the response."""
        deadline = self._loop.time() + self._limits.discard
        while not self.closing and self._loop.time() < min(self._last_data + self._limits.quiet, deadline):
            await asyncio.sleep(self._limits.quiet / 4)

    def finish(self) -> asyncio.Task[None] | None:
        """Accept no more requests; returns the task of the running handler, if any."""
        self.finishing = self._discarding = True
        self._pending.clear()
        if self._task is None:
            self._close()
        elif self._response is not None and self._response.on_finish is not None:
            self._response.on_finish()
        return self._task

    def expire(self) -> None:
        """Close the connection after its deadline, and abort it if the client does not read."""
        if self.closing or self.is_backlogged:
            self.abort()
        elif self._receiving and self._task is None and self._limits.answer_timeouts:
            self._reject(request_timeout())
        else:
            self._close()
            self.deadline = self._loop.time() + self._limits.quiet

    def _close(self) -> None:
        """Close once the send buffer is flushed."""
        self.closing = True
        self.deadline = self._loop.time() + self._limits.stalled
        self._transport.close()

    def abort(self) -> None:
        """Close immediately and drop buffered data."""
        self.closing = True
        self._transport.abort()
