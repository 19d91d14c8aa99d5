"""One connection to the server: a request is written to it and its answer is read, in the loop's own callbacks.

A greenlet for each request would be switched to for every piece of an answer. A callback costs a tenth of that, which is what lets
one core follow tens of thousands of pieces a second.
"""

from __future__ import annotations

import socket as plain
import ssl as plain_ssl
from typing import TYPE_CHECKING, Any

import gevent
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from sliceworks.loadtest.rows import NEVER, Failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.loadtest.generator.answers import Answer

    Ended = Callable[[Answer], None]

_READ, _WRITE = 1, 2
_SIZE = 64 * 1024
_NOT_NOW = (BlockingIOError, plain_ssl.SSLWantReadError, plain_ssl.SSLWantWriteError)
_LENGTHS = frozenset((b"content-length", b"transfer-encoding"))


class Connection:
    """Carries one exchange at a time. `now` is the test's clock; `first` is called between reading and parsing; `free` is
    told when it is over, or when the connection was ended by the other side."""

    def __init__(
        self,
        socket: Any,
        now: Callable[[], int],
        first: Callable[[int], None],
        free: Callable[[Connection], None],
        *,
        secure: bool = False,
    ) -> None:
        self._socket, self._now, self._first, self._free = socket, now, first, free
        socket.setblocking(False)
        # What lies below a socket of gevent's never waits; a secure one has nothing below that could be used.
        below = socket if secure else socket._sock
        self._recv, self._write = below.recv, below.send
        self._pending: Callable[[], int] | None = socket.pending if secure else None
        self._parser = HttpResponseParser(self)
        loop = gevent.get_hub().loop
        self._reads: Any = loop.io(socket.fileno(), _READ)
        self._writes: Any = loop.io(socket.fileno(), _WRITE)
        self._rest: memoryview | None = None
        self.answer: Answer | None = None
        self._ended: Ended | None = None
        self.began, self.moment = 0, 0
        """When the exchange began, and when it last moved."""
        self._whole, self._keep, self._sized = False, False, False
        self._reads.start(self._readable)

    @property
    def open(self) -> bool:
        return self._socket is not None

    def quiet(self) -> bool:
        """Whether it can be used: nothing has come unasked, which would be the end, or a surprise."""
        if self._socket is None or self._pending is not None:
            return self._socket is not None
        try:
            self._recv(1, plain.MSG_PEEK)
        except BlockingIOError:
            return True
        except OSError:
            pass
        return False

    def send(self, request: bytes, answer: Answer, ended: Ended) -> None:
        """Send a request; `ended` is called once, when all of the answer is there or something went wrong."""
        self.answer, self._ended = answer, ended
        self._whole, self._keep, self._sized = False, False, False
        record = answer.record
        self.began = self.moment = record.sent = self._now()
        record.bytes_out = len(request)
        self._rest = memoryview(request)
        self._writable()

    def _writable(self) -> None:
        """Write as much as the system takes."""
        assert self._rest is not None
        try:
            self._rest = self._rest[self._write(self._rest) :]
            self.moment = self._now()
        except _NOT_NOW:
            pass
        except OSError:
            self.fail(Failure.CLOSED)
            return
        if not self._rest:
            self._rest = None
            self._writes.stop()
        elif not self._writes.active:
            self._writes.start(self._writable)

    def _readable(self) -> None:
        try:
            data = self._recv(_SIZE)
        except _NOT_NOW:
            return
        except OSError:
            self.fail(Failure.CLOSED)
            return
        self.moment = self._now()
        self._first(self.moment)
        if self.answer is None:
            self.fail(Failure.CLOSED)
        elif not data:
            self._eof()
        else:
            self._take(self.answer, data)
            # A secure connection may hold more than the system knows of.
            if self._pending is not None and self._socket is not None and self._pending():
                self._readable()

    def _take(self, answer: Answer, data: bytes) -> None:
        record = answer.record
        if record.first_byte == NEVER:
            record.first_byte = self.moment
        record.bytes_in += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            self.fail(Failure.GARBLED)
            return
        if self._whole:
            answer.finish(self.moment)
            self._end(keep=self._keep and self._rest is None)

    def _eof(self) -> None:
        """An answer without a length ends with its connection."""
        assert self.answer is not None
        if self.answer.record.status and not self._sized:
            self.answer.finish(self.moment)
            self._end(keep=False)
        else:
            self.fail(Failure.CLOSED)

    def fail(self, failure: Failure) -> None:
        """Give up what is under way."""
        if self.answer is not None:
            self.answer.wrong(failure)
            self._end(keep=False)
        else:
            self.close()
            self._free(self)

    def _end(self, *, keep: bool) -> None:
        answer, ended = self.answer, self._ended
        assert answer is not None
        assert ended is not None
        self.answer = self._ended = self._rest = None
        record = answer.record
        record.ended = self._now()
        if record.failure is Failure.NONE and record.status >= 400:
            record.failure = Failure.STATUS
        if not keep:
            self.close()
        self._free(self)
        ended(answer)

    def close(self) -> None:
        """Let go of it."""
        if self._socket is None:
            return
        for watcher in (self._reads, self._writes):
            watcher.stop()
            watcher.close()
        socket, self._socket = self._socket, None
        socket.close()
        # The parser knows us and we know it: such pairs wait for the collector, which is kept away.
        del self._parser

    def on_header(self, name: bytes, _value: bytes) -> None:
        """Called by the parser."""
        if name.lower() in _LENGTHS:
            self._sized = True

    def on_headers_complete(self) -> None:
        """Called by the parser."""
        if self.answer is not None:
            self.answer.record.status = self._parser.get_status_code()

    def on_body(self, data: bytes) -> None:
        """Called by the parser."""
        if self.answer is not None:
            self.answer.feed(data, self.moment)

    def on_message_complete(self) -> None:
        """Called by the parser."""
        if self._whole:
            self._keep = False  # more than was asked for
        elif self.answer is not None and self.answer.record.status >= 200:
            # 100 Continue and its like come before the answer.
            self._whole, self._keep = True, self._parser.should_keep_alive()
