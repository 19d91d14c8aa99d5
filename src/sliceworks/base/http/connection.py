"""One client of the server: requests to the application one after another, answers out in the same order."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, cast

from sliceworks.base import sockets
from sliceworks.base.http.intake import Intake
from sliceworks.base.http.refusals import Refusal, failed, late
from sliceworks.base.http.reply import Reply

if TYPE_CHECKING:
    from sliceworks.base.http.messages import Request
    from sliceworks.base.http.server import Server

log = logging.getLogger("sliceworks.http")

_NEVER = float("inf")


class Connection(Intake):
    """Queues and answers. `deadline` is when its time is up; one that the client drops cancels the request under way."""

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self._waiting: deque[tuple[Request | Refusal, str, bool, bool, bool]] = deque()
        self._reply: Reply | None = None
        self.full = self.finishing = False

    # What the transport tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.number = sockets.number_of(transport)
        self._server.connections.add(self)
        self._peer = self._server.application.met(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)
        self.closing = True
        # The parser knows its connection: apart, both go at once and take their buffers along, and need no collector for it.
        del self._parser
        # With TLS the line itself knows it, too, until a collector comes: what has come of a long request goes now.
        self._waiting.clear()
        self._begin()
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

    # Answering.

    def _queue(self, item: Request | Refusal, keep: bool, chunked: bool, bare: bool) -> None:
        self._waiting.append((item, self._path, keep, chunked, bare))
        if self._task is None:
            self._task = self._loop.create_task(self._work())
        elif len(self._waiting) >= self._limits.ahead:
            # Behind a stream nobody queues for long: and only who reads notices that the client has left.
            self.end() if self._reply is not None and self._reply.streaming else self._transport.pause_reading()

    def listen(self) -> None:
        """Read on, whatever waits already."""
        self._transport.resume_reading()

    async def _work(self) -> None:
        try:
            while self._waiting and not self.closing:
                item, path, keep, chunked, bare = self._waiting.popleft()
                if len(self._waiting) == self._limits.ahead - 1:
                    self._transport.resume_reading()
                self.deadline = _NEVER
                keep = keep and not self.finishing
                await self._answer(item, path, Reply(self, self._transport, keep=keep, chunked=chunked, bare=bare))
            if not self.closing:
                self.deadline = self._loop.time() + (self._limits.request if self._receiving else self._limits.idle)
        except BaseException:
            self.end()  # Whatever it was, nobody would answer here any more.
            raise
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
            self._say_no(path, failed(), reply)
        finally:
            self._reply = None
        if not reply.ended:
            reply.end() if reply.started else self.end()
        if self._deaf and not reply.keep and not self.finishing:
            await self._until_quiet()
        if not reply.keep or self.finishing:
            self._close()

    def _say_no(self, path: str, refusal: Refusal, reply: Reply) -> None:
        if reply.started:
            self.end()
        else:
            self._server.application.refuse(path, refusal, reply)

    async def _until_quiet(self) -> None:
        """A client that still sends could not read the answer if the line dropped under it."""
        until = self._loop.time() + self._limits.discard
        while not self.closing and self._loop.time() < min(self._last_data + self._limits.quiet, until):
            await asyncio.sleep(self._limits.quiet / 4)

    def finish(self) -> asyncio.Task[None] | None:
        """Take no more requests; returns the task that still answers one."""
        self.finishing = self._deaf = True
        self._waiting.clear()
        if self._task is None:
            self._close()
        elif self._reply is not None and self._reply.on_finish is not None:
            self._reply.on_finish()
        return self._task

    def expire(self) -> None:
        """Its time is up: hang up, and drop the line when that does not help."""
        if self.closing or self.full:
            self.end()
        elif self._receiving and self._task is None and self._limits.tell_late:
            self._refuse(late())
        else:
            self._close()
            self.deadline = self._loop.time() + self._limits.quiet

    def _close(self) -> None:
        """Hang up once the client has read what it was sent."""
        self.closing = True
        self.deadline = self._loop.time() + self._limits.stalled
        self._transport.close()

    def end(self) -> None:
        """Drop the line."""
        self.closing = True
        self._transport.abort()
