"""Bytes of one client, as they come, into requests: with limits on what it may send, and how slowly."""

from __future__ import annotations

import asyncio
import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import httptools

from sliceworks.base import clock
from sliceworks.base.http.messages import Request, split_target
from sliceworks.base.http.refusals import (
    Refusal,
    head_too_large,
    malformed,
    too_large,
    unknown_coding,
    unknown_method,
    unknown_version,
)

if TYPE_CHECKING:
    from sliceworks.base.http.server import Server

_HEADER_BYTES = 32
"""What a header counts beside its name and value: many empty ones cost as well."""
_READ_BYTES = 256 * 1024
"""The most that is read at once, and may belong to an earlier request."""
_LARGE = 64 * 1024
"""Bodies beyond this are received where they are kept: they are copied nowhere and the parser does not see them."""
_SWALLOWED = 64 * 1024
"""Bodies up to this are read to their end although the request was refused, so that the line can be used again."""

_HOST = re.compile(r"[\w.~!$&'()*+,;=:%\[\]-]*", re.ASCII)


class Intake(asyncio.BufferedProtocol):
    """Reads and parses; what is complete, and what must be refused, goes to `_queue`."""

    _transport: asyncio.Transport

    def __init__(self, server: Server) -> None:
        self._server = server
        self._limits = server.limits
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._peer: object = None
        self._task: asyncio.Task[None] | None = None
        self.closing = self._deaf = False
        self._last_data = self._loop.time()
        self.deadline = self._last_data + self._limits.request
        self._begin()

    def _queue(self, item: Request | Refusal, keep: bool, chunked: bool, bare: bool) -> None:
        """A request is there, or something that cannot be one; `bare`: it wants the head of the answer alone."""
        raise NotImplementedError

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

    # What the transport tells.

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._large is not None and not self._deaf:
            return memoryview(self._large)[self._body_size :]
        # One for all: what it holds is used up before anybody else reads.
        return self._server.buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self.closing or self._deaf:
            self._last_data = self._loop.time()
            return
        if self._large is not None:
            self._more_of_large(nbytes)
            return
        try:
            self._parser.feed_data(self._server.buffer[:nbytes])
            self._count_raw(nbytes)
        except httptools.HttpParserUpgrade as upgrade:
            self._stay(bytes(self._server.buffer[upgrade.args[0] : nbytes]))
        except httptools.HttpParserCallbackError as error:
            found = error.__context__
            self._refuse(found if isinstance(found, Refusal) else malformed("the request cannot be read"))
        except httptools.HttpParserInvalidMethodError:
            self._refuse(unknown_method())
        except httptools.HttpParserError:
            self._refuse(malformed("this is not HTTP"))
        except Refusal as refusal:
            self._refuse(refusal)

    def _stay(self, rest: bytes) -> None:
        """Nobody changes the protocol here. The parser thinks that all has come; the body that there may be is read by another."""
        if not self._awaits_body():
            self._deaf = True
            return
        method, version, known = self._parser.get_method().decode("latin-1"), self._parser.get_http_version(), self._headers
        framing = "".join(f"{name}: {known[name]}\r\n" for name in ("content-length", "transfer-encoding") if name in known)
        told = SimpleNamespace(on_header=self.on_header, on_body=self.on_body, on_message_complete=self.on_message_complete)
        self._parser = httptools.HttpRequestParser(told)
        self._parser.feed_data(f"{method} / HTTP/{version}\r\nconnection: close\r\n{framing}\r\n".encode("latin-1"))
        if rest:
            self._server.buffer[: len(rest)] = rest
            self.buffer_updated(len(rest))

    def _awaits_body(self) -> bool:
        """Whether the parser was told of another protocol by a head that a body follows."""
        if "upgrade" not in self._headers or not self._parser.should_upgrade() or self._parser.get_method() == b"CONNECT":
            return False
        return "transfer-encoding" in self._headers or int(self._headers.get("content-length") or 0) > 0

    def _refuse(self, refusal: Refusal) -> None:
        """Answer what cannot be read, let the rest of it go by, and hang up."""
        self._deaf = True
        self._last_data = self._loop.time()
        self._queue(refusal, False, True, False)

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
        if known is not None:
            # No header holds a line feed.
            text = f"{known}\n{text}" if key.startswith(self._server.application.apart) else f"{known}, {text}"
        self._headers[key] = text

    def _count_head(self, size: int) -> None:
        self._head_size += size
        if self._head_size > self._limits.head:
            raise head_too_large(self._limits.head)

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
        self._check()
        try:
            self._who = self._server.application.screen(self._parser.get_method().decode("latin-1"), self._path, self._headers)
        except Refusal as refusal:
            if length > _SWALLOWED or "transfer-encoding" in self._headers or "expect" in self._headers:
                raise
            self._refused = refusal
        if self._headers.get("expect", "").lower() == "100-continue" and self._task is None:
            # An interim answer must not overtake the answers to earlier requests; a client goes on without one after a while.
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _check(self) -> None:
        """Refuse what another on the way may read in another way."""
        version, host, coding = self._parser.get_http_version(), self._headers.get("host"), self._headers.get("transfer-encoding")
        if version not in {"1.1", "1.0"}:
            raise unknown_version(version)
        if host is None and version != "1.0":
            raise malformed("the Host header is missing")
        if host and not _HOST.fullmatch(host):
            raise malformed("the Host header must name one host")
        if coding is not None and coding.lower() != "chunked":
            raise unknown_coding(coding)

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
        if not self._awaits_body():
            self._complete(body[0] if len(body) == 1 else b"".join(body))

    def _complete(self, body: bytes | bytearray) -> None:
        parser = self._parser
        request = Request(parser.get_method().decode("latin-1"), self._path, self._query, self._headers, cast("bytes", body))
        request.arrived, request.who, request.peer = clock.effort(), self._who, self._peer
        modern = parser.get_http_version() != "1.0"
        # A client of HTTP/1.0 that wants to keep the line is to be told that it is kept: else it waits for the end of it.
        keep = modern and parser.should_keep_alive() and not parser.should_upgrade()
        self._queue(self._refused or request, keep, modern, request.method == "HEAD")
        self._receiving = self._in_body = False
        self._body = []
        self._large = None
        self._raw_size = 0
