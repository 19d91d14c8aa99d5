"""Parses the bytes of one client into requests, with limits on size and time."""

from __future__ import annotations

import asyncio
import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import httptools

from sliceworks.base import clock
from sliceworks.base.http.messages import (
    HttpError,
    Request,
    bad_request,
    content_too_large,
    headers_too_large,
    invalid_method,
    split_target,
    unsupported_transfer_encoding,
    unsupported_version,
)

if TYPE_CHECKING:
    from sliceworks.base.http.server import Server

_HEADER_BYTES = 32
"""Counted per header in addition to its name and value, so that many empty headers reach the limit too."""
READ_BYTES = 256 * 1024
"""The largest read; part of it may belong to an earlier request."""
_LARGE = 64 * 1024
"""Larger bodies are received into their final buffer, without copying and without passing through the parser."""
_DRAINED = 64 * 1024
"""Smaller bodies of rejected requests are read to the end, so that the connection can be reused."""

_HOST = re.compile(r"[\w.~!$&'()*+,;=:%\[\]-]*", re.ASCII)


class RequestParser(asyncio.BufferedProtocol):
    """Reads and parses. Complete requests and errors go to `_queue`."""

    _transport: asyncio.Transport

    def __init__(self, server: Server) -> None:
        self._server = server
        self._limits = server.limits
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._peer: object = None
        self._task: asyncio.Task[None] | None = None
        self.closing = self._discarding = False
        self.upgraded: asyncio.StreamReader | None = None
        """Input after a request to upgrade the connection."""
        self._last_data = self._loop.time()
        self.deadline = self._last_data + self._limits.request
        self._reset()

    def _queue(self, item: Request | HttpError, keep: bool, chunked: bool, bare: bool) -> None:
        """Queue a request or an error for the handler; `bare` requests (HEAD) get a response without a body."""
        raise NotImplementedError

    def _reset(self) -> None:
        self._receiving = self._in_body = False
        self._url = b""
        self._path = self._query = ""
        self._headers: dict[str, str] = {}
        self._body: bytes | bytearray = b""
        self._head_size = self._body_size = self._raw_size = 0
        self._large: bytearray | None = None
        self._started_at = 0.0
        self._user: object = None
        self._error: HttpError | None = None

    # Callbacks of the transport.

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._large is not None and not self._discarding:
            return memoryview(self._large)[self._body_size :]
        # One buffer for all connections: its content is consumed before the next read.
        return self._server.buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self.closing or self._discarding:
            self._last_data = self._loop.time()
            if self.upgraded is not None:
                self.upgraded.feed_data(bytes(self._server.buffer[:nbytes]))
            return
        if self._large is not None:
            self._receive_large_body(nbytes)
            return
        try:
            self._parser.feed_data(self._server.buffer[:nbytes])
            self._count_raw(nbytes)
        except httptools.HttpParserUpgrade as upgrade:
            self._stop_at_upgrade(bytes(self._server.buffer[upgrade.args[0] : nbytes]))
        except httptools.HttpParserCallbackError as error:
            cause = error.__context__
            self._reject(cause if isinstance(cause, HttpError) else bad_request("cannot parse the request"))
        except httptools.HttpParserInvalidMethodError:
            self._reject(invalid_method())
        except httptools.HttpParserError:
            self._reject(bad_request("not an HTTP request"))
        except HttpError as error:
            self._reject(error)

    def _stop_at_upgrade(self, rest: bytes) -> None:
        """Keep further input for a handler that upgrades the connection; otherwise it is discarded.

        The parser stops at an Upgrade header, so a second parser reads the body if there is one: such requests stay on HTTP/1.1.
        """
        if not self._awaits_body():
            self._discarding = True
            self.upgraded = asyncio.StreamReader(limit=READ_BYTES)
            self.upgraded.set_transport(self._transport)
            self.upgraded.feed_data(rest)
            return
        method, version, headers = self._parser.get_method().decode("latin-1"), self._parser.get_http_version(), self._headers
        framing = "".join(f"{name}: {headers[name]}\r\n" for name in ("content-length", "transfer-encoding") if name in headers)
        callbacks = SimpleNamespace(on_header=self.on_header, on_body=self.on_body, on_message_complete=self.on_message_complete)
        self._parser = httptools.HttpRequestParser(callbacks)
        self._parser.feed_data(f"{method} / HTTP/{version}\r\nconnection: close\r\n{framing}\r\n".encode("latin-1"))
        if rest:
            self._server.buffer[: len(rest)] = rest
            self.buffer_updated(len(rest))

    def _awaits_body(self) -> bool:
        """Whether the head asked for an upgrade and announced a body."""
        if "upgrade" not in self._headers or not self._parser.should_upgrade() or self._parser.get_method() == b"CONNECT":
            return False
        return "transfer-encoding" in self._headers or int(self._headers.get("content-length") or 0) > 0

    def _reject(self, error: HttpError) -> None:
        """Respond with an error, discard further input, and close the connection."""
        self._discarding = True
        self._last_data = self._loop.time()
        self._queue(error, False, True, False)

    # Callbacks of the parser.

    def on_message_begin(self) -> None:
        self._reset()
        self._receiving = True
        self._started_at = self._loop.time()
        if self._task is None:
            self.deadline = self._started_at + self._limits.request

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._count_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_head(len(name) + len(value) + _HEADER_BYTES)
        if self._in_body:
            return  # trailers are ignored
        key, content = name.decode("latin-1").lower(), value.decode("latin-1").rstrip(" \t")
        earlier = self._headers.get(key)
        if earlier is not None:
            # A header value cannot contain a line feed, so it separates values unambiguously.
            separator = "\n" if key.startswith(self._server.application.unjoined_headers) else ", "
            content = f"{earlier}{separator}{content}"
        self._headers[key] = content

    def _count_head(self, size: int) -> None:
        self._head_size += size
        if self._head_size > self._limits.head:
            raise headers_too_large(self._limits.head)

    def _count_raw(self, size: int) -> None:
        """Limit what the parser buffers of incomplete elements, such as the value of a header."""
        self._raw_size += size
        if self._in_body:
            if self._raw_size > 8 * self._limits.body + self._limits.head + READ_BYTES:
                raise content_too_large(self._limits.body)
        elif self._raw_size > self._limits.head + READ_BYTES:
            self._count_head(self._raw_size)

    def on_headers_complete(self) -> None:
        self._in_body = True
        self._path, self._query = split_target(self._url)
        length = int(self._headers.get("content-length") or 0)
        if length > self._limits.body:
            raise content_too_large(self._limits.body)
        self._check_head()
        try:
            self._user = self._server.application.authenticate(
                self._parser.get_method().decode("latin-1"), self._path, self._headers, self._peer
            )
        except HttpError as error:
            if length > _DRAINED or "transfer-encoding" in self._headers or "expect" in self._headers:
                raise
            self._error = error
        if self._headers.get("expect", "").lower() == "100-continue" and self._task is None:
            # An interim response must not overtake earlier responses; clients send the body without it after a while.
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _check_head(self) -> None:
        """Reject heads that a proxy could interpret differently."""
        version, host, coding = self._parser.get_http_version(), self._headers.get("host"), self._headers.get("transfer-encoding")
        if version not in {"1.1", "1.0"}:
            raise unsupported_version(version)
        if host is None and version != "1.0":
            raise bad_request("missing Host header")
        if host and not _HOST.fullmatch(host):
            raise bad_request("invalid Host header")
        if coding is not None and coding.lower() != "chunked":
            raise unsupported_transfer_encoding(coding)

    def on_body(self, body: bytes) -> None:
        self._body_size += len(body)
        if self._body_size > self._limits.body:
            raise content_too_large(self._limits.body)
        length = int(self._headers.get("content-length") or 0)
        if self._error is None and length - len(body) > _LARGE and not self._body:
            self._large = bytearray(length)
            self._large[: len(body)] = body
        elif self._error is None and self._body:
            # One buffer: a list of many small chunks would take many times their size.
            self._body = self._body if isinstance(self._body, bytearray) else bytearray(self._body)
            self._body += body
        elif self._error is None:
            self._body = body
        self._extend_deadline()

    def _extend_deadline(self) -> None:
        """Each chunk of a body extends the deadline, up to the upload limit."""
        if self._task is None:
            now = self._loop.time()
            self.deadline = min(now + self._limits.request, self._started_at + self._limits.upload)

    def _receive_large_body(self, size: int) -> None:
        assert self._large is not None
        self._body_size += size
        self._extend_deadline()
        if self._body_size == len(self._large):
            self._complete(self._large)
            # The old parser still waits for the body that it did not see.
            self._parser = httptools.HttpRequestParser(self)

    def on_message_complete(self) -> None:
        if not self._awaits_body():
            self._complete(self._body if len(self._body) > _LARGE else bytes(self._body))

    def _complete(self, body: bytes | bytearray) -> None:
        parser = self._parser
        request = Request(parser.get_method().decode("latin-1"), self._path, self._query, self._headers, cast("bytes", body))
        request.arrived, request.user, request.peer = clock.perf_counter(), self._user, self._peer
        modern = parser.get_http_version() != "1.0"
        # HTTP/1.0 clients expect "connection: keep-alive" in the response, which is not sent: close their connections.
        keep = modern and parser.should_keep_alive() and not parser.should_upgrade()
        self._queue(self._error or request, keep, modern, request.method == "HEAD")
        self._receiving = self._in_body = False
        self._body = b""
        self._large = None
        self._raw_size = 0
